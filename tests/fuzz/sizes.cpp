#include "tests/fuzz/sizes.h"

#include <algorithm>
#include <set>

#include "tests/fuzz/machine.h"

namespace weft::fuzz {
namespace {

SizeCounts counts;

// The program with slices that begin and end so many places later; those of `length` elements have
// so many more.
Program with_other_slices(const Program &program, int64_t later, int64_t length, int64_t more) {
  Program changed = program;
  for (Step &step : changed.steps) {
    if (step.call != "slice")
      continue;
    int64_t &start = step.numbers[1][0], &stop = step.numbers[2][0];
    if (stop - start == length)
      stop += more;
    start += later;
    stop += later;
  }
  return changed;
}

// Of a value of a variant; a few products of larger ones would take gigabytes.
constexpr int64_t kMostElements = 1 << 17;

// Whether no call refuses its arguments, and no value is large.
bool is_valid(const Program &program) {
  std::optional<Tensors> values = dry_values(program);
  return values && std::all_of(values->begin(), values->end(),
                               [](const Tensor &value) { return value.size() <= kMostElements; });
}

std::set<int64_t> extents_of(const Program &program) {
  std::set<int64_t> extents;
  for (const Step &step : program.steps)
    if (is_input(step))
      extents.insert(step.numbers[1].begin(), step.numbers[1].end());
  return extents;
}

// Sizes of the program's own and near it, some below and above twice as many, in no order: what
// varies is found from two of them, and a program for many serves up to a power of two.
std::vector<Program> variants_of(const Program &program, int64_t extent) {
  std::vector<Program> variants = {program};
  for (int64_t other :
       {extent + 4, extent + 64, extent + 9, 2 * extent + 3, extent + 50, extent - 1}) {
    Program variant = with_extent(program, extent, other);
    int64_t later = static_cast<int64_t>(variants.size()) % 4 - 1;
    for (const Program &candidate : {with_other_slices(variant, later, extent, other - extent),
                                     with_other_slices(variant, 0, extent, other - extent),
                                     with_other_slices(variant, later, extent, 0), variant})
      if (is_valid(candidate)) {
        variants.push_back(candidate);
        break;
      }
  }
  return variants;
}

std::vector<Outcome> outcomes_of(const std::vector<Program> &variants, bool symbolic) {
  const bool before = config().symbolic;
  use("cpu", 1, false, 0, !may_fold_norms(variants.front()));
  Config options = config();
  options.symbolic = symbolic;
  set_config(options);
  std::vector<Outcome> outcomes;
  for (const Program &variant : variants) {
    manual_seed(variant.seed);
    outcomes.push_back(run(variant));
    if (!symbolic)
      continue;
    std::vector<Evaluation> evaluations = recent_evaluations();
    counts.symbolic += !evaluations.empty() && !evaluations.back().symbolic.empty();
    ++counts.all;
  }
  options.symbolic = before;
  set_config(options);
  use("reference", 1, false);
  return outcomes;
}

} // namespace

Program with_extent(const Program &program, int64_t from, int64_t to) {
  Program changed = program;
  for (Step &step : changed.steps) {
    bool input = is_input(step);
    bool shaped = step.call == "reshape" || step.call == "expand" || step.call == "layer_norm";
    if (!input && !shaped)
      continue;
    for (int64_t &extent : step.numbers[input ? 1 : 0])
      if (extent == from)
        extent = to;
    if (step.call == "indices" && step.numbers[0][0] == from)
      step.numbers[0][0] = to;
  }
  return changed;
}

SizeCounts size_counts() {
  return counts;
}

std::string check_sizes(const Program &program) {
  for (int64_t extent : extents_of(program)) {
    if (extent < 2)
      continue;
    std::vector<Program> variants = variants_of(program, extent);
    if (variants.size() < 3)
      continue;
    std::vector<Outcome> together = outcomes_of(variants, true),
                         apart = outcomes_of(variants, false);
    for (size_t i = 0; i < variants.size(); ++i)
      if (std::string different = different_outcome(variants[i], together[i], apart[i]);
          !different.empty())
        return "as the " + std::to_string(i + 1) + ". of " + std::to_string(variants.size()) +
               " sizes of the extent " + std::to_string(extent) +
               " it differs from a program for this one alone: " + different;
  }
  return "";
}

} // namespace weft::fuzz

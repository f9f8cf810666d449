// Programs for many ints: which of them serves a slice, and what the next one should leave open.
#include <algorithm>
#include <numeric>

#include "frontend/recorder/programs/families.h"
#include "frontend/recorder/programs/find_program.h"
#include "frontend/recorder/record/limits.h"
#include "runtime/core/status.h"
#include "llvm/ADT/StringExtras.h"

namespace weft::recorder {
namespace {

// After so many programs in a row that could not be made symbolic, one size at a time is asked
// about: each attempt costs up to a compilation. The first one takes all observations together, the
// second one those that are nearest.
constexpr int kAttempts = 2;
// Named in explain's line; the others are counted.
constexpr size_t kDescribed = 8;

std::string scalar_name(size_t i) {
  return "a" + std::to_string(i);
}

// With commas between, as many as are described.
std::string listed(std::vector<std::string> items) {
  size_t more = items.size() - std::min(items.size(), kDescribed);
  items.resize(items.size() - more);
  return llvm::join(items, ", ") + (more > 0 ? ", " + std::to_string(more) + " more" : "");
}

std::string values_of(const Generalization &general, const Generalization::Match &values) {
  const auto &[sizes, scalars] = values;
  std::vector<std::string> list;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (general.sizes[i].is_free())
      list.push_back(general.sizes[i].name + "=" + std::to_string(sizes[i]));
  for (size_t i = 0; i < scalars.size(); ++i)
    if (general.scalars[i].kind == IntPosition::Kind::kAttribute)
      list.push_back(scalar_name(i) + "=" + std::to_string(scalars[i]));
    else if (general.scalars[i].kind == IntPosition::Kind::kConstant)
      list.push_back(scalar_name(i) + " (a constant)");
  return listed(std::move(list));
}

// Whether a size varies that is not a value's first: what takes such rows apart computes with it
// (frontend/compile/joined_rows.h).
bool varies_behind(const std::vector<IntPosition> &positions, const Observations &observations) {
  for (size_t p = 0; p < positions.size(); ++p)
    if (positions[p].at > 0 && positions[p].kind == IntPosition::Kind::kSize &&
        llvm::any_of(observations,
                     [&](const auto *each) { return (*each)[p] != (*observations.back())[p]; }))
      return true;
  return false;
}

std::string description(const Slice &slice, const SymbolicRequest &request) {
  const Generalization &general = request.general;
  std::vector<std::string> list;
  for (size_t i = 0; i < general.sizes.size(); ++i) {
    const Generalization::Size &size = general.sizes[i];
    if (!size.is_free())
      continue;
    // Of an input, if one has it.
    size_t at = size.position;
    auto is_input = [&](size_t p) {
      const IntPosition &position = request.positions[p];
      return !(position.value & kResult) &&
             !slice.nodes[position.op]->operands[position.value]->node;
    };
    for (size_t p = at; p < general.classes.size() && !is_input(at); ++p)
      if (general.classes[p] == static_cast<int32_t>(i) && is_input(p))
        at = p;
    list.push_back(size.name + " in [" + std::to_string(size.low) + ", " +
                   std::to_string(size.high) + "] (" + describe(slice, request.positions[at]) +
                   ")");
  }
  for (size_t i = 0; i < general.scalars.size(); ++i)
    if (general.scalars[i].kind != IntPosition::Kind::kSize)
      list.push_back(scalar_name(i) + " (" +
                     describe(slice, request.positions[general.scalars[i].position]) + ")");
  return listed(std::move(list));
}

absl::StatusOr<std::shared_ptr<CompiledProgram>> program_at(CachedProgram &known,
                                                            const Ints &sizes) {
  if (sizes.empty())
    return known.program;
  auto found = llvm::find_if(known.sized, [&](const auto &each) { return each.first == sizes; });
  if (found != known.sized.end()) {
    std::rotate(known.sized.begin(), found, found + 1);
    return known.sized.front().second;
  }
  WEFT_ASSIGN_OR_RETURN(auto sized, at_sizes(*known.program, known.general, sizes));
  known.sized.emplace_front(sizes, sized);
  if (known.sized.size() > kLimits.sized_programs)
    known.sized.pop_back();
  return sized;
}

// Leaves those observations that differ from `ints` in the fewest sizes that may not vary (other
// than leading ones), and of these in the fewest at all: networks of one structure but of several
// widths, each of which meets batches of many sizes, are programs of their own.
void keep_nearest(Observations &observations, const Ints &ints,
                  const std::vector<IntPosition> &positions) {
  std::vector<std::pair<size_t, size_t>> distances;
  for (const Ints *other : observations) {
    auto &[inner, all] = distances.emplace_back(0, 0);
    for (size_t p = 0; p < ints.size(); ++p) {
      bool differs = positions[p].kind == IntPosition::Kind::kSize && (*other)[p] != ints[p];
      all += differs;
      inner += differs && positions[p].at > 0;
    }
  }
  auto least = *std::ranges::min_element(distances);
  size_t kept = 0;
  for (size_t i = 0; i < observations.size(); ++i)
    if (distances[i] == least)
      observations[kept++] = observations[i];
  observations.resize(kept);
}

// How many values the size may have, by those that were seen: the places of the grid that they lie
// on. So lengths of texts have more than a few batches, and widths of networks do not.
int64_t values_to_come(uint32_t position, const Observations &observations) {
  auto [least, largest] = std::ranges::minmax_element(
      observations, {}, [&](const Ints *ints) { return (*ints)[position]; });
  int64_t first = (**least)[position], step = 0;
  for (const Ints *ints : observations)
    step = std::gcd(step, (*ints)[position] - first);
  return step == 0 ? 1 : ((**largest)[position] - first) / step + 1;
}

// The free size that a program should leave open if it may be one alone: the one with most values
// to come, so that the others tell few families apart; of these one that mostly leads.
uint32_t size_to_vary(const Generalization &general, const Observations &observations,
                      const std::vector<IntPosition> &positions) {
  Ints inner(general.sizes.size());
  for (size_t p = 0; p < positions.size(); ++p)
    if (int32_t c = general.classes[p];
        positions[p].kind == IntPosition::Kind::kSize && c != Generalization::kConstant)
      inner[static_cast<size_t>(c)] += positions[p].at > 0;
  auto worth = [&](uint32_t size) {
    return std::pair(values_to_come(general.sizes[size].position, observations), -inner[size]);
  };
  std::vector<uint32_t> sizes = general.free_sizes();
  return *std::ranges::max_element(sizes, {}, worth);
}

// After a refusal of what all observations gave: what those that are nearest give, and one of its
// sizes alone where that was refused as well. Where they are alike in the size that should vary,
// that one alone.
bool narrow(SymbolicRequest &request, const Observations &observations, bool sizes_as_scalars,
            int refusals, std::string &why) {
  const Ints &ints = *observations.back();
  Generalization all = std::move(request.general);
  Observations kept(observations.begin(), observations.end() - 1);
  keep_nearest(kept, ints, request.positions);
  kept.push_back(&ints);
  if (!generalize(kept, request.positions, sizes_as_scalars, request.general, why))
    return false;
  bool alone = refusals >= kAttempts && request.general.free_sizes().size() > 1;
  if (all.free_sizes().size() > 1) {
    uint32_t varies = size_to_vary(all, observations, request.positions);
    if (request.general.classes[all.sizes[varies].position] == Generalization::kConstant) {
      request.general = all;
      kept = observations;
      alone = true;
    }
  }
  if (alone) {
    std::vector<Ints> held =
        hold_other_sizes(kept, request.positions, request.general,
                         size_to_vary(request.general, observations, request.positions));
    kept.clear();
    for (const Ints &each : held)
      kept.push_back(&each);
    if (!generalize(kept, request.positions, sizes_as_scalars, request.general, why))
      return false;
  }
  for (uint32_t size : all.free_sizes())
    if (uint32_t p = all.sizes[size].position;
        request.general.classes[p] == Generalization::kConstant)
      request.fixed.push_back(p);
  return true;
}

// What no program may leave open after this refusal; empty where it is not known yet.
std::vector<uint32_t> fixed_by(const Family &family, const SymbolicRequest &refused) {
  std::vector<uint32_t> free = refused.general.free_sizes(), fixed;
  if (!free.empty() && family.depth >= kLimits.family_depth) {
    for (uint32_t p = 0; p < refused.positions.size(); ++p)
      if (refused.positions[p].kind == IntPosition::Kind::kSize)
        fixed.push_back(p);
  } else if (free.size() == 1) {
    fixed.push_back(refused.general.sizes[free[0]].position);
  }
  return fixed;
}

} // namespace

bool find_symbolic(const StructureKey &structure, FoundProgram &found, bool &enough) {
  Families &all = families();
  for (Family *family = all.top(structure); family;
       family = family->refused.fixed.empty() ? nullptr : all.below(*family, structure.ints)) {
    auto [known, values, enough_here] =
        program_cache().find(family->programs(), structure.slice, structure.ints);
    enough = enough || enough_here;
    if (!known)
      continue;
    absl::StatusOr<std::shared_ptr<CompiledProgram>> program = program_at(*known, values.sizes);
    if (!program.ok()) {
      found.figures.not_symbolic = std::string(program.status().message());
      continue;
    }
    found.program = *std::move(program);
    found.figures.symbolic = values_of(known->general, values);
    found.scalars = std::move(values.scalars);
    ++recorder().statistics.symbolic_hits;
    return true;
  }
  return false;
}

std::optional<SymbolicRequest> symbolic_request(const StructureKey &structure, Evaluation &data) {
  const Slice &slice = structure.slice;
  auto [family, above] = families().of(structure);
  if (above)
    data.not_symbolic = above->refused.why;
  if (family->observations.empty())
    return std::nullopt;
  if (family->is_static) {
    data.not_symbolic = family->refused.why;
    return std::nullopt;
  }
  // Sizes that are too small to vary together: one of them may where the others are as before.
  bool is_small = family->is_too_small(structure.ints);
  if (is_small)
    data.not_symbolic = family->refused.why;
  SymbolicRequest request;
  request.positions = int_positions(slice);
  Observations observations;
  for (const Ints &ints : family->observations)
    if (family->is_too_small(ints) == is_small)
      observations.push_back(&ints);
  if (observations.empty())
    return std::nullopt;
  observations.push_back(&structure.ints);
  bool sizes_as_scalars =
      computes_with_sizes(slice) || varies_behind(request.positions, observations);
  if (!generalize(observations, request.positions, sizes_as_scalars, request.general,
                  data.not_symbolic))
    return std::nullopt;
  if ((is_small || family->refused.times > 0) &&
      !narrow(request, observations, sizes_as_scalars, family->refused.times, data.not_symbolic))
    return std::nullopt;
  if (is_small) {
    if (family->was_too_small(request.general)) {
      data.not_symbolic = family->refused.why;
      return std::nullopt;
    }
    request.fixed.clear(); // larger ones may vary together
  }
  request.sizes = request.general.match(structure.ints)->sizes;
  return request;
}

void insert_symbolic(const StructureKey &structure, const ProgramContext &context,
                     const SymbolicRequest &request, const CompileOutcome &outcome, bool keep,
                     FoundProgram &found) {
  if (keep && !request.fixed.empty())
    families().of(structure).family->refused.fixed = request.fixed;
  observe(structure);
  if (keep) {
    auto [family, above] = families().of(structure);
    if (above)
      above->note_below({});
    family->refused.times = 0; // what was refused lay in the observations that were taken together
    CachedProgram program{
        {family->programs()}, context, outcome.program, structure.slice.stable, request.general};
    if (outcome.sized)
      program.sized.emplace_front(request.sizes, outcome.sized);
    program_cache().insert(std::move(program));
  }
  found.figures.symbolic = description(structure.slice, request);
  found.program = outcome.sized ? outcome.sized : outcome.program;
  found.scalars = request.general.match(structure.ints)->scalars;
}

void observe(const StructureKey &structure, const std::optional<SymbolicRequest> &refused,
             const absl::Status &why) {
  auto [family, above] = families().of(structure);
  family->observe(structure.ints);
  if (!refused)
    return;
  family->refused.why = std::string(why.message());
  if (absl::IsOutOfRange(why) || family->is_too_small(structure.ints))
    return family->refuse_up_to_least(refused->general);
  if (++family->refused.times < kAttempts)
    return;
  family->is_static = refused->general.sizes.empty();
  family->refused.fixed = fixed_by(*family, *refused);
  if (above && !family->refused.fixed.empty())
    above->note_below(family->refused);
}

} // namespace weft::recorder

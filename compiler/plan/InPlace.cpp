#include "compiler/plan/InPlace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "compiler/plan/Order.h"

namespace weft::compiler {
namespace {

using Kind = PlanProblem::Kind;

constexpr int32_t kForever = std::numeric_limits<int32_t>::max();

// An alias set; kept at its representative.
struct AliasSet {
  int32_t begin = kForever; // the first position that touches it; inputs live from before the first
  int32_t end = -1;         // the last one; kForever for what is returned
  int32_t buffer;           // the member whose buffer all others use
};

class Aliases {
public:
  Aliases(const PlanProblem &problem, const StepOrder &order)
      : problem_(problem), lastCheck_(lastCheck(problem, order)), parent_(problem.values.size()),
        sets_(problem.values.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t v = 0; v < sets_.size(); ++v) {
      sets_[v].buffer = int32_t(v);
      if (problem.values[v].returned)
        sets_[v].end = kForever;
      if (problem.values[v].kind == Kind::Donated || problem.values[v].kind == Kind::Input)
        sets_[v].begin = -1;
    }
    for (size_t position = 0; position < order.steps.size(); ++position) {
      const PlanProblem::Step &step = problem.steps[order.steps[position]];
      for (const auto *list : {&step.reads, &step.writes})
        for (int32_t v : *list) {
          sets_[v].begin = std::min(sets_[v].begin, int32_t(position));
          sets_[v].end = std::max(sets_[v].end, int32_t(position));
        }
    }
  }

  int32_t find(int32_t v) {
    while (parent_[v] != v)
      v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  const AliasSet &set(int32_t v) {
    return sets_[find(v)];
  }
  Kind kind(int32_t v) {
    return problem_.values[set(v).buffer].kind;
  }
  int64_t bytes(int32_t v) {
    return problem_.values[set(v).buffer].bytes;
  }
  // The last position at which the set's buffer may not be written by others: a donated input that
  // is kept waits for the checks.
  int32_t heldUntil(int32_t v) {
    return problem_.values[set(v).buffer].kept ? std::max(set(v).end, lastCheck_) : set(v).end;
  }
  bool waitsForChecks(int32_t v, int32_t position) {
    return problem_.values[set(v).buffer].kept && position <= lastCheck_;
  }

  // The set of `later` continues in the set of `earlier`. Whose buffer it is: the input's, else the
  // output's, else the earlier value's.
  void merge(int32_t earlier, int32_t later) {
    int32_t a = find(earlier), b = find(later);
    AliasSet merged{sets_[a].begin, sets_[b].end, sets_[a].buffer};
    if (kind(a) == Kind::Arena && kind(b) == Kind::Output)
      merged.buffer = sets_[b].buffer;
    parent_[b] = a;
    sets_[a] = merged;
  }

private:
  const PlanProblem &problem_;
  int32_t lastCheck_;
  std::vector<int32_t> parent_;
  std::vector<AliasSet> sets_;
};

bool mayBeOverwritten(Kind kind) {
  return kind == Kind::Arena || kind == Kind::Donated;
}

void reuseOperands(const PlanProblem &problem, const StepOrder &order, Aliases &aliases,
                   InPlaceResult &result) {
  std::vector<bool> taken(
      problem.values.size()); // written values that have already taken over a buffer
  for (size_t position = 0; position < order.steps.size(); ++position) {
    const PlanProblem::Step &step = problem.steps[order.steps[position]];
    // An output of the program takes a donated input before it takes over an intermediate value:
    // the one saves a buffer that lives on, the other one that the arena would use again.
    for (bool donations : {true, false})
      for (auto [output, input] : step.inPlace) {
        int32_t from = step.reads[input], to = step.writes[output];
        if (taken[to] || aliases.find(from) == aliases.find(to) ||
            aliases.bytes(from) != aliases.bytes(to))
          continue;
        if (!mayBeOverwritten(aliases.kind(from)) || aliases.set(from).end != int32_t(position))
          continue;
        if (aliases.waitsForChecks(from, int32_t(position)))
          continue;
        if ((aliases.kind(from) == Kind::Donated && problem.values[to].kind == Kind::Output) !=
            donations)
          continue;
        // Another operand of the step that reads the same bytes may come to them after they were
        // overwritten.
        int64_t readers = llvm::count_if(
            step.reads, [&](int32_t v) { return aliases.find(v) == aliases.find(from); });
        bool written = llvm::any_of(step.writes, [&](int32_t v) {
          return v != to && aliases.find(v) == aliases.find(from);
        });
        if (readers != 1 || written)
          continue;
        aliases.merge(from, to);
        taken[to] = true;
        ++(donations ? result.donations : result.reuses);
      }
  }
}

void donateInputs(const PlanProblem &problem, Aliases &aliases, InPlaceResult &result) {
  struct Candidates {
    std::vector<int32_t> inputs, outputs;
  };
  std::map<std::pair<int64_t, int32_t>, Candidates>
      bySize; // equal at every size, not just at the largest
  for (size_t v = 0; v < problem.values.size(); ++v) {
    if (aliases.set(v).buffer != int32_t(v) || problem.values[v].bytes == 0)
      continue;
    std::pair size(problem.values[v].bytes, problem.values[v].extent);
    if (problem.values[v].kind == Kind::Donated && aliases.set(v).end != kForever)
      bySize[size].inputs.push_back(v);
    if (problem.values[v].kind == Kind::Output)
      bySize[size].outputs.push_back(v);
  }
  for (auto &[size, candidates] : bySize) {
    llvm::sort(candidates.inputs, [&](int32_t a, int32_t b) {
      return std::pair(aliases.heldUntil(a), a) < std::pair(aliases.heldUntil(b), b);
    });
    llvm::sort(candidates.outputs, [&](int32_t a, int32_t b) {
      return std::pair(aliases.set(a).begin, a) < std::pair(aliases.set(b).begin, b);
    });
    size_t next = 0;
    for (int32_t output : candidates.outputs) {
      if (next == candidates.inputs.size())
        break;
      int32_t input = candidates.inputs[next];
      if (aliases.heldUntil(input) >= aliases.set(output).begin)
        continue;
      aliases.merge(input, output);
      ++result.donations;
      ++next;
    }
  }
}

} // namespace

InPlaceResult assignInPlace(const PlanProblem &problem, const StepOrder &order) {
  InPlaceResult result;
  Aliases aliases(problem, order);
  reuseOperands(problem, order, aliases, result);
  donateInputs(problem, aliases, result);
  result.root.resize(problem.values.size());
  for (size_t v = 0; v < problem.values.size(); ++v)
    result.root[v] = aliases.set(v).buffer;
  return result;
}

PlanProblem applyInPlace(const PlanProblem &problem, const InPlaceResult &result) {
  PlanProblem merged = problem;
  for (PlanProblem::Step &step : merged.steps) {
    for (int32_t &v : step.reads)
      v = result.root[v];
    for (int32_t &v : step.writes)
      v = result.root[v];
  }
  return merged;
}

} // namespace weft::compiler

#include "compiler/plan/Recompute.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "compiler/plan/Limits.h"
#include "runtime/core/alignment.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {
namespace {

using Kind = PlanProblem::Kind;

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
constexpr double kImpossible = std::numeric_limits<double>::infinity();

class Walk {
public:
  Walk(const PlanProblem &problem, const StepOrder &order, llvm::ArrayRef<int32_t> buffers,
       int64_t budget, double share, bool whole = true)
      : problem_(problem), order_(order), buffers_(buffers), budget_(budget), whole_(whole),
        writer_(problem.values.size(), -1), uses_(problem.values.size()),
        next_(problem.values.size()), gone_(problem.values.size(), kNever),
        live_(problem.values.size()), pins_(problem.values.size()),
        place_(problem.values.size(), -1), mark_(problem.steps.size(), -1),
        stored_(problem.values.size()), loaded_(problem.values.size(), -1) {
    for (size_t p = 0; p < order.steps.size(); ++p) {
      const PlanProblem::Step &step = problem.steps[order.steps[p]];
      allowed_ += step.cost;
      if (!step.checks.empty())
        checked_.insert(step.reads.begin(), step.reads.end());
      for (int32_t v : step.reads)
        if (uses_[v].empty() || uses_[v].back() != int32_t(p))
          uses_[v].push_back(int32_t(p));
      for (int32_t v : step.writes) {
        writer_[v] = order.steps[p];
        int32_t root = buffers[v];
        if (root != v && problem.values[root].kind == Kind::Donated)
          gone_[root] = std::min(gone_[root], int32_t(p));
      }
    }
    allowed_ *= share;
  }

  Recomputation run() {
    for (now_ = 0; now_ < int32_t(order_.steps.size()); ++now_) {
      std::vector<PlanAction> actions = missing(order_.steps[now_]);
      for (PlanAction action : actions)
        if (action.kind == PlanAction::Kind::Step)
          for (int32_t v : problem_.steps[action.index].reads)
            ++pins_[v];
      for (size_t i = 0; i < actions.size(); ++i)
        if (actions[i].kind == PlanAction::Kind::Load)
          load(actions[i].index);
        else
          runStep(actions[i].index, /*again=*/i + 1 < actions.size());
      if (!whole_ &&
          (!result_.complete || result_.peakBytes > budget_ || result_.cost > allowed_)) {
        result_.complete = false;
        return std::move(result_);
      }
    }
    result_.complete &= result_.cost <= allowed_; // what was given up costs when it is missed
    return std::move(result_);
  }

private:
  int64_t bytes(int32_t v) const {
    return runtime::align(problem_.values[v].bytes);
  }
  // The next step of the order that reads the value after the one that is run now.
  int32_t nextUse(int32_t v) {
    while (next_[v] < uses_[v].size() && uses_[v][next_[v]] <= now_)
      ++next_[v];
    return next_[v] < uses_[v].size() ? uses_[v][next_[v]] : kNever;
  }
  // Not an output that takes over a donated input.
  bool hasBuffer(int32_t v) const {
    return problem_.values[buffers_[v]].kind != Kind::Donated;
  }
  // What nobody writes has no elements.
  bool isComputed(int32_t v) const {
    return problem_.values[v].kind == Kind::Arena && writer_[v] >= 0;
  }
  bool isHeld(int32_t v) const {
    return !isComputed(v) || live_[v];
  }

  // The step, behind all that must be loaded or run again for what it reads.
  std::vector<PlanAction> missing(int32_t step) {
    std::vector<PlanAction> result;
    std::vector<std::pair<int32_t, size_t>> stack = {{step, 0}};
    mark_[step] = now_;
    while (!stack.empty()) {
      auto &[at, next] = stack.back();
      const auto &reads = problem_.steps[at].reads;
      if (next == reads.size()) {
        result.push_back({PlanAction::Kind::Step, at});
        stack.pop_back();
        continue;
      }
      int32_t v = reads[next++];
      if (isHeld(v))
        continue;
      if (stored_[v]) {
        // Unless the step that writes it runs again, for another value of it.
        if (mark_[writer_[v]] != now_ && std::exchange(loaded_[v], now_) != now_)
          result.push_back({PlanAction::Kind::Load, v});
        continue;
      }
      if (mark_[writer_[v]] == now_)
        continue;
      mark_[writer_[v]] = now_;
      stack.emplace_back(writer_[v], 0);
    }
    return result;
  }

  void hold(int32_t v) {
    assert(!live_[v]);
    live_[v] = true;
    liveBytes_ += bytes(v);
    if (checked_.contains(v) ||
        problem_.values[v].bytes < std::min(kLeastRecomputed, budget_ / kLeastRecomputedPart))
      return;
    place_[v] = int32_t(candidates_.size());
    candidates_.push_back(v);
  }
  void drop(int32_t v) {
    live_[v] = false;
    liveBytes_ -= bytes(v);
    if (place_[v] < 0)
      return;
    int32_t last = candidates_.back();
    candidates_[place_[v]] = last;
    place_[last] = place_[v];
    candidates_.pop_back();
    place_[v] = -1;
  }

  // Has the bytes free, as far as values can be given up.
  void makeRoom(int64_t needed) {
    while (liveBytes_ + needed > budget_ && giveUp()) {}
    result_.peakBytes = std::max(result_.peakBytes, liveBytes_ + needed);
  }

  void load(int32_t v) {
    if (live_[v]) // a step that ran again for another value wrote it meanwhile
      return;
    makeRoom(bytes(v));
    result_.actions.push_back({PlanAction::Kind::Load, v});
    result_.cost += loadCost(v);
    hold(v);
  }

  void runStep(int32_t s, bool again) {
    const PlanProblem::Step &step = problem_.steps[s];
    int64_t needed = 0, freed = 0;
    for (int32_t v : step.writes)
      needed += again || hasBuffer(v) ? bytes(v) : 0;
    for (auto [output, input] : step.inPlace) {
      int32_t from = step.reads[input], to = step.writes[output];
      if (live_[from] && pins_[from] == 1 && nextUse(from) == kNever && bytes(from) == bytes(to))
        freed = std::max(freed, bytes(to));
    }
    makeRoom(needed - freed);
    result_.actions.push_back({PlanAction::Kind::Step, s});
    if (again)
      result_.cost += step.cost;
    // Outputs stay; what a step that runs again writes beside what was missed goes at once.
    for (int32_t v : step.writes) {
      if (problem_.values[v].kind == Kind::Output && !again && hasBuffer(v))
        liveBytes_ += bytes(v);
      if (problem_.values[v].kind == Kind::Arena && !live_[v] &&
          (pins_[v] > 0 || nextUse(v) != kNever))
        hold(v);
    }
    for (int32_t v : step.reads)
      if (--pins_[v] == 0 && live_[v] && nextUse(v) == kNever)
        drop(v);
  }

  // Gives up the value for which that is the cheapest; false where there is none, or a limit of
  // planning is reached.
  bool giveUp() {
    visits_ += int64_t(candidates_.size());
    int64_t most = whole_ ? kMaxRecomputeVisits : kMaxFreeRecomputeVisits;
    if (visits_ >= most || result_.cost > allowed_) {
      result_.complete = false;
      return false;
    }
    int32_t best = -1;
    double least = kImpossible;
    bool inFile = false; // the best one
    for (int32_t v : candidates_) {
      int32_t use = nextUse(v);
      if (pins_[v] > 0 || use == kNever)
        continue;
      double again = stored_[v] ? kImpossible : costOf(v, use), file = fileCost(v);
      double score = std::min(again, file) / (double(bytes(v)) * double(use - now_));
      if (score < least)
        least = score, best = v, inFile = file < again;
    }
    if (best < 0)
      return false;
    if (inFile && !stored_[best]) {
      stored_[best] = true;
      result_.actions.push_back({PlanAction::Kind::Store, best});
      result_.cost += storeCost(best);
    }
    drop(best);
    return true;
  }

  double storeCost(int32_t v) const {
    return kFileCallCost + kStoreCost * double(bytes(v));
  }
  double loadCost(int32_t v) const {
    return kFileCallCost + kLoadCost * double(bytes(v));
  }
  // Of giving the value up into its file, until its next read.
  double fileCost(int32_t v) const {
    if (stored_[v])
      return loadCost(v);
    return problem_.files ? storeCost(v) + loadCost(v) : kImpossible;
  }

  // Of computing the value again before step `use` of the order. What is live now and read at that
  // step or later is taken to be live then: if it is given up, too, it is computed again itself.
  double costOf(int32_t value, int32_t use) {
    double cost = 0;
    llvm::SmallVector<int32_t, kMaxRecomputeChain> chain = {writer_[value]};
    for (size_t i = 0; i < chain.size(); ++i) {
      const PlanProblem::Step &step = problem_.steps[chain[i]];
      ++visits_;
      if (!step.repeatable)
        return kImpossible;
      cost += step.cost;
      visits_ += int64_t(step.reads.size());
      for (int32_t v : step.reads) {
        if (!isComputed(v)) {
          if (gone_[v] < use)
            return kImpossible;
          continue;
        }
        if ((live_[v] && v != value && uses_[v].back() >= use) ||
            llvm::is_contained(chain, writer_[v]))
          continue;
        if (stored_[v]) {
          cost += loadCost(v);
          continue;
        }
        if (chain.size() == kMaxRecomputeChain)
          return kImpossible;
        chain.push_back(writer_[v]);
      }
    }
    return cost;
  }

  const PlanProblem &problem_;
  const StepOrder &order_;
  llvm::ArrayRef<int32_t> buffers_;
  int64_t budget_;
  bool whole_;                           // the walk goes on where it cannot keep to the budget
  llvm::SmallDenseSet<int32_t> checked_; // what steps with checks read
  double allowed_ = 0;                   // cost of recomputation
  std::vector<int32_t> writer_;
  std::vector<llvm::SmallVector<int32_t, 4>> uses_; // positions of steps that read a value
  std::vector<size_t> next_;                        // into uses_
  std::vector<int32_t>
      gone_;               // of donated inputs: the position of the step that writes their memory
  std::vector<char> live_; // arena values
  std::vector<int32_t> pins_;               // how many of the steps that run now read the value
  std::vector<int32_t> candidates_, place_; // live values that are large; where each stands there
  std::vector<int32_t> mark_;               // of a step: when it was last found missing
  std::vector<char> stored_;                // values that their files have
  std::vector<int32_t> loaded_;             // of such a value: when it was last found missing
  int32_t now_ = 0;
  int64_t liveBytes_ = 0, visits_ = 0;
  Recomputation result_;
};

} // namespace

Recomputation recompute(const PlanProblem &problem, const StepOrder &order,
                        llvm::ArrayRef<int32_t> buffers, int64_t budget, double share) {
  return Walk(problem, order, buffers, budget, share).run();
}

// Whether the budget is kept at this share of the cost; `best` is then how.
static bool keepsTo(const PlanProblem &problem, const StepOrder &order,
                    llvm::ArrayRef<int32_t> buffers, int64_t budget, double share,
                    Recomputation &best) {
  Recomputation found = Walk(problem, order, buffers, budget, share, /*whole=*/false).run();
  if (!found.complete || found.peakBytes > budget)
    return false;
  best = std::move(found);
  return true;
}

// The least budget below `enough` that is kept at this share.
static void bisect(const PlanProblem &problem, const StepOrder &order,
                   llvm::ArrayRef<int32_t> buffers, int64_t enough, double share, int walks,
                   Recomputation &best) {
  for (int64_t tooLittle = 0; walks > 0; --walks) {
    int64_t budget = tooLittle + (enough - tooLittle) / 2;
    (keepsTo(problem, order, buffers, budget, share, best) ? enough : tooLittle) = budget;
  }
}

Recomputation recomputeFreely(const PlanProblem &problem, const StepOrder &order,
                              llvm::ArrayRef<int32_t> buffers) {
  Recomputation best = recompute(problem, order, buffers, std::numeric_limits<int64_t>::max(), 0);
  bisect(problem, order, buffers, best.peakBytes, kFreeRecomputedShare, kFreeRecomputeWalks, best);
  return best;
}

Recomputation recomputeFurther(const PlanProblem &problem, const StepOrder &order,
                               llvm::ArrayRef<int32_t> buffers, Recomputation free) {
  int64_t all = free.peakBytes;
  for (const PlanProblem::Value &value : problem.values)
    if (value.kind == Kind::Input || value.kind == Kind::Donated)
      all += value.bytes;
  int64_t budget = free.peakBytes - int64_t(kFurtherSaving * double(all));
  if (keepsTo(problem, order, buffers, budget, kFurtherShare, free))
    bisect(problem, order, buffers, budget, kFurtherShare, kFreeRecomputeWalks / 2, free);
  return free;
}

RepeatedProblem repeatSteps(const PlanProblem &problem, llvm::ArrayRef<PlanAction> actions) {
  RepeatedProblem result;
  result.problem.values = problem.values;
  result.values.resize(problem.values.size());
  for (size_t v = 0; v < result.values.size(); ++v)
    result.values[v] = int32_t(v);
  std::vector<int32_t> current = result.values; // what each value is now
  std::vector<int32_t> token(problem.values.size(), -1);
  std::vector<bool> ran(problem.steps.size());
  auto add = [&](PlanProblem::Value value, int32_t of) {
    value.kind = Kind::Arena;
    value.returned = false;
    value.extent = 0;
    result.problem.values.push_back(value);
    result.values.push_back(of);
    return int32_t(result.values.size() - 1);
  };
  for (PlanAction action : actions) {
    int32_t at = action.index;
    PlanProblem::Step step;
    if (action.kind == PlanAction::Kind::Store) {
      token[at] = add({.bytes = kTokenBytes}, -1);
      step.reads = {current[at]};
      step.writes = {token[at]};
    } else if (action.kind == PlanAction::Kind::Load) {
      current[at] = add(problem.values[at], at);
      step.reads = {token[at]};
      step.writes = {current[at]};
    } else {
      step = problem.steps[at];
      for (int32_t &v : step.reads)
        v = current[v];
      if (ran[at])
        for (int32_t &v : step.writes) {
          int32_t first = v;
          v = add(problem.values[first], first);
          // An output stays where it is: nobody needs its copy.
          if (problem.values[first].kind != Kind::Output)
            current[first] = v;
        }
      ran[at] = true;
    }
    result.problem.steps.push_back(std::move(step));
  }
  return result;
}

} // namespace weft::compiler

// Which values are given up, so that a program fits in less memory: they are computed again, or
// wait in a file.
#pragma once

#include "compiler/plan/Limits.h"
#include "compiler/plan/Problem.h"

namespace weft::compiler {

// One thing that a program does.
struct PlanAction {
  enum class Kind : uint8_t {
    Step,  // runs step `index`
    Store, // writes value `index` to its file
    Load,  // reads value `index` from there, into memory of its own
  };
  Kind kind = Kind::Step;
  int32_t index = 0;
  bool operator==(const PlanAction &) const = default;
};

struct Recomputation {
  // In the order in which they happen; a step may stand more than once. A read means what the last
  // action before it wrote.
  std::vector<PlanAction> actions;
  int64_t peakBytes = 0; // the most that is live: arena values and outputs that are written
  double cost = 0;       // of steps beyond the first ones, as Step::cost counts, and of files
  bool complete = true;  // false: a limit of planning ended the search early
};

// Walks the steps in the order given. Where what is live would not fit into `budget` bytes, the
// value is given up that costs the least to compute again for each byte and step that its memory is
// free:
//
//   cost(value) / (bytes * steps until it is read next)
//
// and is computed again right before that read, from values that are live then or are computed
// again themselves. Given up are arena values whose steps may be repeated (Step::repeatable), down
// to inputs, constants and outputs; a donated input counts until the step that writes its memory
// (`buffers`: InPlaceResult::root of the same order). Where nothing can be given up, or what runs
// again takes `share` of what all steps cost, the peak is above the budget. What checks of indices
// read is kept: computed again, equal checks would be two.
//
// Where the problem has files (PlanProblem::files), a value for which a file costs less is stored
// when it is given up first, and loaded before each later read, whatever step wrote it.
Recomputation recompute(const PlanProblem &problem, const StepOrder &order,
                        llvm::ArrayRef<int32_t> buffers, int64_t budget,
                        double share = kMaxRecomputedShare);

// With the smallest budget that costs kFreeRecomputedShare at most, found by bisection. Ends early
// where it would take long (kMaxFreeRecomputeVisits).
Recomputation recomputeFreely(const PlanProblem &problem, const StepOrder &order,
                              llvm::ArrayRef<int32_t> buffers);

// The same for kFurtherShare, where that takes less than `free` by kFurtherSaving of it and of the
// inputs; else `free`, which is recomputeFreely() of this order or another one.
Recomputation recomputeFurther(const PlanProblem &problem, const StepOrder &order,
                               llvm::ArrayRef<int32_t> buffers, Recomputation free);

// The program of these actions: a step that runs again, and a load, write values of their own. A
// store writes a token, which its loads read: so no order has them before it.
struct RepeatedProblem {
  PlanProblem problem;
  std::vector<int32_t> values; // of each of its values: which of the problem's it is; -1: a token
};
RepeatedProblem repeatSteps(const PlanProblem &problem, llvm::ArrayRef<PlanAction> actions);

// Bytes of a token.
inline constexpr int64_t kTokenBytes = 16;

} // namespace weft::compiler

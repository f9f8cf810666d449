// Which values are given up and computed again, so that a program fits in less memory.
#pragma once

#include "compiler/plan/Limits.h"
#include "compiler/plan/Problem.h"

namespace weft::compiler {

struct Recomputation {
  // Steps in the order in which they run; one may stand more than once. A read means what the last
  // run before it wrote.
  std::vector<int32_t> runs;
  int64_t peakBytes = 0; // the most that is live: arena values and outputs that are written
  double cost = 0;       // of the runs beyond the first ones, as Step::cost counts
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

// The program of these runs: a step that runs again writes values of its own.
struct RepeatedProblem {
  PlanProblem problem;
  std::vector<int32_t> values; // of each of its values: which of the problem's it is
};
RepeatedProblem repeatSteps(const PlanProblem &problem, llvm::ArrayRef<int32_t> runs);

} // namespace weft::compiler

// Which values may share one buffer because one takes over where the other dies.
#pragma once

#include "compiler/plan/Problem.h"

namespace weft::compiler {

struct InPlaceResult {
  // Of each value the one whose buffer it is: itself, or the input, output or first arena value of
  // its alias set.
  std::vector<int32_t> root;
  int64_t reuses = 0;    // results that took over the buffer of an operand of their step
  int64_t donations = 0; // outputs that took over the buffer of a donated input
};

// An output takes over the buffer of a dead operand of its step where the step allows it; an output
// of the program that is left takes over a donated input of its size which died before. An input
// that is kept is not written before the last check (`lastCheck`). Sizes must be equal. Linear but
// for sorting the outputs.
InPlaceResult assignInPlace(const PlanProblem &problem, const StepOrder &order);

// The problem with every value replaced by its root, in which an alias set is one value.
PlanProblem applyInPlace(const PlanProblem &problem, const InPlaceResult &result);

} // namespace weft::compiler

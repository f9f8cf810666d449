// Orders of a program's steps, to choose the one that needs the least memory from.
#pragma once

#include "compiler/plan/Problem.h"

namespace weft::compiler {

// As the program stands.
StepOrder programOrder(const PlanProblem &problem);
// Each step right before its first reader, outputs in program order: what is needed last is made
// last.
StepOrder depthFirstOrder(const PlanProblem &problem);
// List scheduling: of all steps that could run, the one that adds the least (or frees the most)
// arena memory; ties in program order.
StepOrder greedyOrder(const PlanProblem &problem);
// The order with the steps that check indices, and what those need, ahead of all others.
StepOrder checksFirst(const PlanProblem &problem, const StepOrder &order);

// The position after which no check can end a run: that of the last check that is not equal to an
// earlier one. -1 for none.
int32_t lastCheck(const PlanProblem &problem, const StepOrder &order);

} // namespace weft::compiler

// Orders of a program's steps, to choose the one that needs the least memory from.
#pragma once

#include "compiler/plan/Problem.h"

namespace weft::compiler {

// As the program stands.
StepOrder programOrder(const PlanProblem &problem);
// Each step right before its first reader, outputs in program order: what is needed last is made last.
StepOrder depthFirstOrder(const PlanProblem &problem);
// List scheduling: of all steps that could run, the one that adds the least (or frees the most) arena memory; ties in program order.
StepOrder greedyOrder(const PlanProblem &problem);

} // namespace weft::compiler

// When values live, and how much memory that takes at the least.
#pragma once

#include "compiler/plan/Problem.h"

namespace weft::compiler {

// Of each arena value that a step touches, in the order in which lives begin.
std::vector<Lifetime> lifetimes(const PlanProblem &problem, const StepOrder &order);

// The largest sum of the bytes of values that are live at one step. No packing of these lifetimes
// can take less.
int64_t liveBound(llvm::ArrayRef<Lifetime> lifetimes);

} // namespace weft::compiler

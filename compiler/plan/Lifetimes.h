// When values live, and how much memory that takes at the least.
#pragma once

#include "compiler/plan/Problem.h"

namespace weft::compiler {

// Of each arena value that a step touches, in the order in which lives begin.
std::vector<Lifetime> lifetimes(const PlanProblem &problem, const StepOrder &order);

// Of each output with a buffer of its own: from the step that writes it to the last one, in the
// order in which these begin.
std::vector<Lifetime> outputLifetimes(const PlanProblem &problem, const StepOrder &order);

// The sum of the bytes that are live at each of so many steps.
std::vector<int64_t> bytesAtSteps(llvm::ArrayRef<Lifetime> lifetimes, size_t steps);

// The largest sum of the bytes of values that are live at one step. No packing of these lifetimes
// can take less.
int64_t liveBound(llvm::ArrayRef<Lifetime> lifetimes);

// The least that an arena can take beside the outputs, whose buffers hold other values before they
// are written: the largest sum of what is live and of outputs that are written, less all outputs.
int64_t liveBound(llvm::ArrayRef<Lifetime> lifetimes, llvm::ArrayRef<Lifetime> outputs);

} // namespace weft::compiler

// What the values of a packed program take, instruction by instruction.
#pragma once

#include "compiler/plan/Packing.h"
#include "compiler/plan/Problem.h"

namespace weft::compiler {

// The bytes that are live at each step: values of the arena, those that outputs lend room to, and
// outputs from the step on that writes them. They are never more than packing.arenaBytes and the
// bytes of the outputs, and less by the room that no value has then: outputs that are not written
// yet, gaps between values. Inputs, donated ones included, are there before and after, and count as
// nothing. Of more than kLivePoints steps the largest of each of so many parts. lives: in the order
// of `order`, as they were packed. Linear in lives and steps.
std::vector<int64_t> liveBytes(const PlanProblem &problem, const StepOrder &order,
                               llvm::ArrayRef<Lifetime> lives, const Packing &packing);

} // namespace weft::compiler

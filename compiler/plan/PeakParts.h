// What lies in the memory of a packed program at the moment at which most of it is taken.
#pragma once

#include "compiler/backend/CompileReport.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/Packing.h"

namespace weft::compiler {

// The values of the arena at the step at which they take most, those that outputs lend room to left
// out; what packing leaves between them; and the outputs, whose buffers are there from the first
// step on. The parts sum to packing.arenaBytes and the bytes of outputs. lives: in the order of
// `order`, as they were packed.
std::vector<PeakPart> peakParts(const ExtractedProblem &extracted, const StepOrder &order,
                                llvm::ArrayRef<Lifetime> lives, const Packing &packing);

} // namespace weft::compiler

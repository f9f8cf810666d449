// What runs in pieces: the op plan.pieces, as the passes that plan memory see it.
#pragma once

#include "dialects/plan/ir/Plan.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// (output, input) pairs of an instruction that may share a buffer, by what codegen said of kernels.
// In runs of plan.pieces: pieces of an input that nothing reads but a launch which may overwrite it
// with the piece of the output that lies at the same bytes. None for other instructions.
llvm::SmallVector<std::pair<int32_t, int32_t>> inPlacePairs(plan::InstructionOp instruction,
                                                            mlir::SymbolTable &kernels);

} // namespace weft::compiler

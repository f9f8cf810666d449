// Rounds float32 to bfloat16 by the instruction of sm_80, two elements at a time, in place of eight
// of integers for each (compiler/codegen/StorageTypes.h). The bits are the same, but for NaN, of
// which it knows one only.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

namespace weft::backends::cuda {

// In a module of the stage "math". Float64 stays StorageTypes' to round.
void roundToBFloat16ByInstruction(mlir::ModuleOp module);

// The assembly of it: an i32 of two f32, the first of which becomes the lower half.
inline constexpr llvm::StringLiteral kRoundPair = "cvt.rn.bf16x2.f32 $0, $2, $1;";

} // namespace weft::backends::cuda

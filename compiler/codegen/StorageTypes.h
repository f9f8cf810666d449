// The element types that kernels have in memory only.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

// Rewrites bf16 and f16 to 16-bit integers and uint8 to signless ones, everywhere in the functions
// of `module`. Conversions between the 16-bit floats and f32 or f64 become integer arithmetic,
// rounded to nearest even, with NaN kept quiet: LLVM would call the C runtime for them on most
// CPUs, and the bf16 instructions of others flush denormals. halfConversions: the machine converts
// f16 and f32 itself (F16C, GPUs), with the same bits. Fails where an op computes in a 16-bit
// float, which nothing that the dialect's rules emit does.
mlir::LogicalResult lowerStorageTypes(mlir::ModuleOp module, bool halfConversions);

} // namespace weft::compiler

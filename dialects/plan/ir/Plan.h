// The plan dialect: programs as the runtime sees them.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/plan/ir/PlanDialect.h.inc"
#include "dialects/plan/ir/PlanInterfaces.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/plan/ir/PlanTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/plan/ir/PlanOps.h.inc"

namespace weft::plan {

// Raised with every change to what plan bytecode means. Older files are read as long as they can
// be; newer ones are refused.
inline constexpr int64_t kBytecodeVersion = 1;

// The bytes that a tensor takes in a buffer: row-major, without gaps, bool one byte an element.
// Null or negative sizes do not occur: the type has static dims. nullopt when the number of bytes
// passes int64.
std::optional<int64_t> byteSize(mlir::RankedTensorType type);

// Of a buffer.
inline int64_t bytesOf(mlir::Value buffer) {
  return mlir::cast<BufferType>(buffer.getType()).getBytes();
}

// The buffer that `buffer` is a view of, through any number of views; sets `offset` to the bytes
// between their starts.
mlir::Value viewRoot(mlir::Value buffer, int64_t &offset);

// A new plan.alloc of so many bytes that an instruction may work in: before it, or a local of the
// plan.pieces that it is in.
mlir::Value bufferFor(mlir::Operation *instruction, int64_t bytes);

// Names of attributes of a program's arguments and results.
inline constexpr llvm::StringLiteral kTypeAttr = "plan.type";
inline constexpr llvm::StringLiteral kNameAttr = "plan.name";
inline constexpr llvm::StringLiteral kDonatableAttr = "plan.donatable";
inline constexpr llvm::StringLiteral kStableAttr = "plan.stable";
inline constexpr llvm::StringLiteral kParameterAttr = "plan.parameter";
// Of the last arguments: the number of the result of the program that prepares; of that one's
// arguments: the number of the other's.
inline constexpr llvm::StringLiteral kPreparedAttr = "plan.prepared";
inline constexpr llvm::StringLiteral kSourceAttr = "plan.source";
// Of a program's donated argument: whoever gave it takes it back when a run ends at an index check,
// so that it is written after all checks.
inline constexpr llvm::StringLiteral kKeptAttr = "plan.kept";

// Of a plan.view: its bytes are a part of its source's value and not a place for a value of their
// own, so that it stays a view of that.
inline constexpr llvm::StringLiteral kPartAttr = "plan.part";

// Of a plan.library_call: lists of strides, of each of its tensors.
inline constexpr llvm::StringLiteral kStridesAttr = "plan.strides";
// Of one that may fail for the values that it reads, unit: it counts as a check.
inline constexpr llvm::StringLiteral kMayFailAttr = "plan.may_fail";

} // namespace weft::plan

// The weft dialect: ops, interfaces, and what their rules use.
#pragma once

#include "dialects/weft/ir/Dims.h"
#include "dialects/weft/reference/Evaluation.h"
#include "dialects/weft/rules/Rules.h"
#include "dialects/weft/statements/Statement.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace weft::ir {

// Of composites that are short for elementwise work: weft-expand writes them out.
template <typename Op> class WrittenOut : public mlir::OpTrait::TraitBase<Op, WrittenOut> {};

} // namespace weft::ir

#include "dialects/weft/ir/WeftDialect.h.inc"
#include "dialects/weft/ir/WeftEnums.h.inc"
#include "dialects/weft/ir/WeftInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/weft/ir/WeftAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/weft/ir/WeftOps.h.inc"

// The weft dialect: ops, interfaces, and what their rules use.
#pragma once

#include "dialects/weft/ir/Dims.h"
#include "dialects/weft/ir/Evaluation.h"
#include "dialects/weft/ir/Rules.h"
#include "dialects/weft/ir/Statement.h"
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

#include "dialects/weft/ir/WeftDialect.h.inc"
#include "dialects/weft/ir/WeftEnums.h.inc"
#include "dialects/weft/ir/WeftInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/weft/ir/WeftAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/weft/ir/WeftOps.h.inc"

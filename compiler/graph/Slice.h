// What the phases ask of a slice module.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

// The function @main with one block, or null with an error at the module.
mlir::func::FuncOp sliceMain(mlir::ModuleOp module);

} // namespace weft::compiler

// What the phases ask of a slice module.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

// The function @main with one block, or null with an error at the module.
mlir::func::FuncOp sliceMain(mlir::ModuleOp module);

// Whether the argument of @main is the same in many runs: what is made of it may outlast one.
bool isStable(mlir::func::FuncOp main, unsigned argument);

} // namespace weft::compiler

// A module of one function that runs one op case, and helpers to run functions by reference
// evaluation.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tests/support/OpCases.h"

namespace weft::tests {

struct OpModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp main;
  mlir::Operation *op = nullptr;
  std::vector<ir::HostTensor> inputs;
  explicit operator bool() const {
    return op != nullptr;
  }
};

// @main(operands) -> results of the case's op, and its inputs. False where the op's record does not
// take `dtype`.
OpModule buildModule(mlir::MLIRContext &context, const OpCase &c, DType dtype);

// Runs a function of one block by reference evaluation. Diagnostics go into `error`; empty on
// success.
std::vector<ir::HostTensor> evaluate(mlir::func::FuncOp function,
                                     std::vector<ir::HostTensor> inputs, std::string &error);

mlir::RankedTensorType typeOf(const ir::HostTensor &tensor, mlir::MLIRContext &context);

} // namespace weft::tests

// For tests of kernels: fusions from text or around an op, and operands for them.
#pragma once

#include <memory>
#include <string>

#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/HostTensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace weft::compiler {

struct ParsedFusion {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::FusionOp fusion; // null, and a failure of the test, where the text does not parse
};

// `signature`: "%x: tensor<2xf32>, ..."; `body`: ops; `results`: what it yields, "%r:
// tensor<2xf32>, ...".
std::unique_ptr<ParsedFusion> parseFusion(const std::string &signature, const std::string &body,
                                          const std::string &results);

// In place of `op`, a fusion that holds only it; each operand has an argument of its own, even
// where it is given twice.
ir::FusionOp fusionAround(mlir::Operation *op);

// Normal numbers, small indices, mixed bools.
ir::HostTensor sample(mlir::Type type, int64_t seed);

// The text with each `what` turned into `by`.
std::string replaced(std::string text, const std::string &what, const std::string &by);

} // namespace weft::compiler

// Tensors that a traced function captured: constants of @main. Private to this folder.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "dialects/weft/reference/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

// Turns those that are weights into arguments with weft.parameter and, as weft.initial, their
// value: all that have a name (the constant's own weft.parameter), and large ones, which are called
// captured_0 and so on behind `prefix`. The others stay constants, which the compiler folds.
absl::Status makeParameters(mlir::func::FuncOp main, llvm::StringRef prefix);

// Constants that are left, of more than one value: small tensors that were captured, or made in the
// function.
std::vector<ir::HostTensor> smallConstants(mlir::func::FuncOp main);

} // namespace weft::compiler

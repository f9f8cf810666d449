// Programs in files, as the tools read them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace weft::tools {

// Reads a module, text or bytecode, from a file or, for "-", from stdin, and verifies it.
// InvalidArgument with "file:line: message" for what is no valid module, or has no function @main:
// a plan, the dump of a kernel.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> readModule(const std::string &path,
                                                             mlir::MLIRContext &context);

} // namespace weft::tools

// From weft ops to steps of the toy device.
#pragma once

#include "compiler/backend/CompileOptions.h"
#include "compiler/backend/CompileReport.h"
#include "mlir/IR/BuiltinOps.h"
#include "toy_program.h"

namespace toy {

// Compiles @main. Ops that the device has no kernel for are run on the host, each for a reason that
// the report names.
absl::StatusOr<std::shared_ptr<ToyExecutable>>
compile(mlir::ModuleOp module, const weft::compiler::CompileOptions &options,
        weft::compiler::CompileReport &report);

} // namespace toy

// The passes that show and pin the schedules of kernels.
#pragma once

#include <memory>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace weft::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/schedule/Passes.h.inc"

} // namespace weft::compiler

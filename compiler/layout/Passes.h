// The passes of the layout phase.
#pragma once

#include <memory>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace weft::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/layout/Passes.h.inc"

} // namespace weft::compiler

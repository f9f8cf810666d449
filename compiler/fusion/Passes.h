// The passes of the fuse phase.
#pragma once

#include <memory>

#include "compiler/backend/CompileReport.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace weft::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/fusion/Passes.h.inc"

// The pass with a report that gets its refusals; null is allowed.
std::unique_ptr<mlir::Pass> createFusePass(FusePassOptions options, CompileReport *report);

} // namespace weft::compiler

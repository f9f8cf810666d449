// The passes of the layout phase.
#pragma once

#include <memory>

#include "compiler/backend/CompileReport.h"
#include "compiler/claim/Provider.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace weft::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/layout/Passes.h.inc"

// The pass with those who may claim, whose layouts count (null for nobody: everything stays
// row-major), and a report (null is allowed).
std::unique_ptr<mlir::Pass> createAssignLayoutsPass(const ProviderSet *providers,
                                                    CompileReport *report);

} // namespace weft::compiler

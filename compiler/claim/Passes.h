// The passes of the claim phase.
#pragma once

#include <memory>

#include "compiler/backend/CompileReport.h"
#include "compiler/claim/Provider.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace weft::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/claim/Passes.h.inc"

// The pass with those who may claim (null for nobody), and a report that gets the refusals (null is
// allowed).
std::unique_ptr<mlir::Pass> createClaimPass(ClaimPassOptions options, const ProviderSet *providers,
                                            CompileReport *report);

// As above: those who are asked what to pack, and a report.
std::unique_ptr<mlir::Pass> createPackSharedPass(PackSharedPassOptions options,
                                                 const ProviderSet *providers,
                                                 CompileReport *report);

} // namespace weft::compiler

// The pass weft-split-prepare, and taking its result apart.
#pragma once

#include <memory>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"

namespace weft::compiler {

struct CompileReport;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/prepare/Passes.h.inc"

// report: gets the numbers of values and bytes; may be null.
std::unique_ptr<mlir::Pass> createSplitPreparePass(CompileReport *report);

// Moves @prepare out of the module, into one of its own where it is called @main. Null when there
// is none.
mlir::OwningOpRef<mlir::ModuleOp> takePrepare(mlir::ModuleOp module);

} // namespace weft::compiler

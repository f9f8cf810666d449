// Runs the phases on a module: registered passes around each, the verifier and a dump after each,
// times in the report.
#pragma once

#include <functional>
#include <map>

#include "compiler/backend/CompileOptions.h"
#include "compiler/backend/CompileReport.h"
#include "compiler/pipeline/PassHooks.h"
#include "compiler/pipeline/Phase.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/LogicalResult.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace weft::compiler {

class ProviderSet;

// Adds the passes of a phase up to and including fuse. providers: who may claim ops, null for
// nobody. report: may be null.
void addPhasePasses(mlir::OpPassManager &passes, Phase phase, const CompileOptions &options,
                    const ProviderSet *providers, CompileReport *report);

// The driver of one compilation. Phases up to fuse are known; a backend gives plan.
class Pipeline {
public:
  using AddPasses = std::function<void(mlir::OpPassManager &)>;
  using Body = std::function<llvm::LogicalResult(mlir::ModuleOp)>;

  Pipeline(const CompileOptions &options, const ProviderSet *providers, CompileReport *report);

  // What a phase does, instead of the passes that it has by default.
  void setPhase(Phase phase, AddPasses addPasses) {
    addPasses_[phase] = std::move(addPasses);
  }
  void setPhaseBody(Phase phase, Body body) {
    bodies_[phase] = std::move(body);
  }

  // Runs the phases from `from` to `to`, both included. On failure the diagnostics say why, and a
  // last one names the phase: a remark, or an error where nothing else says why.
  llvm::LogicalResult run(mlir::ModuleOp module, Phase from = Phase::Import,
                          Phase to = Phase::Plan);

  // The folder that gets this compilation's dumps; empty for none. Kernels' files go there too.
  const std::string &dumpFolder() const {
    return dumpFolder_;
  }

private:
  llvm::LogicalResult runPhaseNamed(mlir::ModuleOp module, const PhaseInfo &info);
  llvm::LogicalResult runPhase(mlir::ModuleOp module, const PhaseInfo &info);
  llvm::LogicalResult runHooks(mlir::ModuleOp module, Phase phase, Position position);

  CompileOptions options_;
  const ProviderSet *providers_;
  CompileReport *report_;
  std::vector<RegisteredPass> hooks_;
  std::map<Phase, AddPasses> addPasses_;
  std::map<Phase, Body> bodies_;
  std::string dumpFolder_;
};

} // namespace weft::compiler

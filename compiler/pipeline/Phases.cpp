// Which passes each phase runs.
#include "compiler/fusion/Passes.h"
#include "compiler/graph/Passes.h"
#include "compiler/pipeline/Pipeline.h"
#include "mlir/Pass/PassManager.h"

namespace weft::compiler {

void addPhasePasses(mlir::OpPassManager &passes, Phase phase, const CompileOptions &options, const ProviderSet *providers,
                    CompileReport *report) {
  switch (phase) {
  case Phase::Import:
    passes.addPass(createImportPass());
    break;
  case Phase::Graph:
    break;
  case Phase::Layout:
    break;
  case Phase::Claim:
    passes.addPass(createDecomposePass());
    break;
  case Phase::Fuse:
    passes.addPass(createFusePass(FusePassOptions{options.fuse, false}, report));
    break;
  case Phase::Plan:
  case Phase::Codegen:
  case Phase::Link:
    break; // a backend gives them
  }
}

} // namespace weft::compiler

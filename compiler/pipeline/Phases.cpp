// Which passes each phase runs.
#include "compiler/claim/Passes.h"
#include "compiler/fusion/Passes.h"
#include "compiler/graph/Passes.h"
#include "compiler/layout/Passes.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/prepare/Passes.h"
#include "mlir/Pass/PassManager.h"

namespace weft::compiler {

void addPhasePasses(mlir::OpPassManager &passes, Phase phase, const CompileOptions &options,
                    const ProviderSet *providers, CompileReport *report) {
  switch (phase) {
  case Phase::Import:
    passes.addPass(createImportPass());
    break;
  case Phase::Graph:
    // First, where a norm is one op.
    if (options.prepare && options.math != MathMode::Exact)
      passes.addPass(createFoldBatchNormPass());
    passes.addPass(createExpandPass());
    passes.addPass(createSimplifyPass());
    passes.addPass(createCsePass());
    // Last, so that the algebra above sees ops as they were recorded; what comes after sees what
    // libraries and kernels compute.
    passes.addPass(createWidenPass());
    break;
  case Phase::Layout:
    passes.addPass(createAssignLayoutsPass(providers, report));
    break;
  case Phase::Claim:
    // Composites first, whole; then what is left of them as simpler ops, beside the others.
    passes.addPass(
        createClaimPass(ClaimPassOptions{/*composites=*/true, options.math == MathMode::Fast,
                                         options.math == MathMode::Exact, /*printReport=*/false},
                        providers, report));
    passes.addPass(createDecomposePass());
    passes.addPass(createWidenPass());
    // What decompositions made joins what stood there: transposes meet matmuls, derivatives
    // recompute what forward ops have.
    passes.addPass(createSimplifyPass());
    passes.addPass(createCsePass());
    passes.addPass(
        createClaimPass(ClaimPassOptions{/*composites=*/false, options.math == MathMode::Fast,
                                         options.math == MathMode::Exact, /*printReport=*/false},
                        providers, report));
    passes.addPass(createCallCustomPass());
    // Last: only now it is known what libraries read, and what is left for kernels; and, of what
    // libraries read, what outlasts a run.
    if (options.prepare)
      passes.addPass(createSplitPreparePass(report));
    passes.addPass(
        createPackSharedPass(PackSharedPassOptions{/*printReport=*/false}, providers, report));
    break;
  case Phase::Fuse:
    passes.addPass(createFusePass(FusePassOptions{options.fuse, options.writeRows, false}, report));
    break;
  case Phase::Plan:
    break; // a backend gives it
  }
}

} // namespace weft::compiler

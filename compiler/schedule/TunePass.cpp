// Tuning of a module's kernels: those first that do most (compiler/schedule/KernelTuner.h).
#include <fstream>

#include "compiler/codegen/Choices.h"
#include "compiler/schedule/KernelTuner.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Pins.h"
#include "dialects/plan/ir/Plan.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

#define GEN_PASS_DEF_TUNEPASS
#include "compiler/schedule/Passes.h.inc"

namespace {

class Tune : public impl::TunePassBase<Tune> {
public:
  using TunePassBase::TunePassBase;

  void runOnOperation() override {
    KernelTuner tuner(KernelTuner::Clock::now() +
                      std::chrono::duration_cast<KernelTuner::Clock::duration>(
                          std::chrono::duration<double>(double(seconds))));
    std::vector<EqualFusions> all = kernelsByWork(getOperation());
    std::string lines;
    int64_t looked = 0, pinned = 0;
    for (const EqualFusions &kernel : all) {
      if (tuner.isOver())
        break;
      ir::FusionOp first = kernel.fusions[0];
      absl::StatusOr<TunedKernel> tuned = tuner.tune(first);
      if (!tuned.ok()) {
        mlir::emitError(first.getLoc()) << std::string(tuned.status().message());
        return signalPassFailure();
      }
      ++looked;
      if (tuned->better.empty())
        continue;
      ++pinned;
      mlir::DictionaryAttr choices = scheduleAttr(&getContext(), tuned->better);
      std::string text;
      llvm::raw_string_ostream(text)
          << llvm::format("%.2f us instead of %.2f us with ", tuned->after / 1e3,
                          tuned->before / 1e3)
          << choices;
      first.emitRemark("schedule: ") << text;
      llvm::raw_string_ostream(lines) << kernelText(first) << ": " << choices << "\n";
      for (ir::FusionOp fusion : kernel.fusions)
        pin(fusion, choices);
    }
    getOperation().emitRemark("schedule: measured ")
        << looked << " of " << all.size() << " kernels, and pinned choices of " << pinned;
    if (pins.empty())
      return;
    std::ofstream file(pins);
    file << lines;
    if (!file.flush()) {
      getOperation().emitError("cannot write the schedules to '") << pins << "'";
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace weft::compiler

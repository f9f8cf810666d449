#include "compiler/pipeline/Pipeline.h"

#include <chrono>

#include "compiler/pipeline/CallUser.h"
#include "compiler/pipeline/Dump.h"
#include "compiler/pipeline/UserPass.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/core/thrown.h"
#include "runtime/profile/profile.h"

namespace weft::compiler {

using namespace mlir;

Pipeline::Pipeline(const CompileOptions &options, const ProviderSet *providers,
                   CompileReport *report)
    : options_(options), providers_(providers), report_(report), hooks_(registeredPasses()) {
  if (!options_.dumpDir.empty())
    dumpFolder_ = claimDumpFolder(options_.dumpDir);
}

llvm::LogicalResult Pipeline::run(ModuleOp module, Phase from, Phase to) {
  for (const PhaseInfo &info : allPhases()) {
    if (info.phase < from || info.phase > to)
      continue;
    auto start = std::chrono::steady_clock::now();
    runtime::profile::Span span(
        [&] { return runtime::profile::Label{runtime::profile::Kind::kPhase, info.name.str()}; });
    if (failed(runPhaseNamed(module, info)))
      return llvm::failure();
    std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    if (report_)
      report_->phases.emplace_back(info.name.str(), elapsed.count());
    if (!dumpFolder_.empty())
      dumpModule(module, dumpFolder_, info.number, info.name);
  }
  return llvm::success();
}

llvm::LogicalResult Pipeline::runPhaseNamed(ModuleOp module, const PhaseInfo &info) {
  bool saidWhy = false;
  llvm::LogicalResult result = llvm::failure();
  {
    ScopedDiagnosticHandler watch(module.getContext(), [&](Diagnostic &diagnostic) {
      saidWhy |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
      return failure(); // to the handler around it
    });
    // What users registered may throw, and MLIR, which calls it, is built without exceptions.
    try {
      result = runPhase(module, info);
    } catch (const UserFault &fault) {
      mlir::emitError(module.getLoc()) << "in the phase '" << info.name << "', " << fault.what();
    } catch (...) {
      std::string names = registeredNames();
      mlir::emitError(module.getLoc())
          << "the phase '" << info.name << "' " << runtime::thrown_text()
          << (names.empty() ? "" : " (registered are " + names + ")");
    }
  }
  if (failed(result)) {
    // An error that says why stands alone; the phase is one only where nobody said anything.
    InFlightDiagnostic last =
        saidWhy ? mlir::emitRemark(module.getLoc()) : mlir::emitError(module.getLoc());
    last << "compilation failed in the phase '" << info.name << "'";
  }
  return result;
}

llvm::LogicalResult Pipeline::runPhase(ModuleOp module, const PhaseInfo &info) {
  if (failed(runHooks(module, info.phase, Position::Before)))
    return llvm::failure();
  auto body = bodies_.find(info.phase);
  if (body != bodies_.end()) {
    if (failed(body->second(module)))
      return llvm::failure();
  } else {
    PassManager passes(module.getContext(), ModuleOp::getOperationName());
    passes.enableVerifier(options_.verifyEachPhase);
    auto add = addPasses_.find(info.phase);
    if (add != addPasses_.end())
      add->second(passes);
    else
      addPhasePasses(passes, info.phase, options_, providers_, report_);
    if (failed(passes.run(module)))
      return llvm::failure();
  }
  if (failed(runHooks(module, info.phase, Position::After)))
    return llvm::failure();
  if (options_.verifyEachPhase && failed(mlir::verify(module)))
    return llvm::failure();
  return llvm::success();
}

llvm::LogicalResult Pipeline::runHooks(ModuleOp module, Phase phase, Position position) {
  for (const RegisteredPass &hook : hooks_) {
    if (hook.phase != phase || hook.position != position)
      continue;
    if (failed(runUserPass(module, "pass", hook.name, hook.factory,
                           report_ ? &report_->remarks : nullptr)))
      return llvm::failure();
  }
  return llvm::success();
}

} // namespace weft::compiler

#include "compiler/pipeline/UserPass.h"

#include <atomic>
#include <map>

#include "compiler/pipeline/Report.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/core/thrown.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// Later phases, and those who call the program, find functions by name and call them by their
// types.
std::map<std::string, Type> functionsOf(ModuleOp module) {
  std::map<std::string, Type> types;
  for (auto function : module.getOps<FunctionOpInterface>())
    types.emplace(function.getName().str(), function.getFunctionType());
  return types;
}

} // namespace

LogicalResult runUserPass(ModuleOp module, StringRef kind, StringRef name,
                          const PassFactory &factory, std::vector<std::string> *remarks) {
  auto fail = [&](const Twine &what) {
    return mlir::emitError(module.getLoc()) << "the registered " << kind << " '" << name << "' "
                                            << what;
  };
  std::unique_ptr<Pass> pass;
  try {
    pass = factory ? factory() : nullptr;
  } catch (...) {
    return fail("has a factory that " + runtime::thrown_text());
  }
  if (!pass)
    return fail("has no factory, or it made nothing");
  std::map<std::string, Type> before = functionsOf(module);
  std::atomic<bool> emittedAnError = false;
  {
    // Under the engine's lock, on whatever thread the pass runs.
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
      emittedAnError = emittedAnError || isError;
      if (isError || !remarks)
        return failure(); // to the handler around it
      std::string line = locationText(diagnostic.getLocation());
      remarks->push_back((kind + " '" + name + "': " + line + (line.empty() ? "" : ": ") +
                          diagnostic.str())
                             .str());
      return success();
    });
    PassManager passes(module.getContext(), ModuleOp::getOperationName(),
                       OpPassManager::Nesting::Implicit);
    passes.enableVerifier(false);
    passes.addPass(std::move(pass));
    // MLIR is built without exceptions, and would let one pass.
    try {
      if (failed(passes.run(module)))
        return fail("failed");
    } catch (...) {
      return fail(runtime::thrown_text());
    }
  }
  if (emittedAnError)
    return fail("emitted an error");
  if (failed(mlir::verify(module)))
    return fail("left IR that does not verify");
  std::map<std::string, Type> after = functionsOf(module);
  for (const auto &[function, type] : before)
    if (auto found = after.find(function); found == after.end() || found->second != type)
      return fail("removed the function '" + function + "', or changed its type");
  return success();
}

} // namespace weft::compiler

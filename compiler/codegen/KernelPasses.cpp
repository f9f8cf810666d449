#include "compiler/codegen/KernelPasses.h"

#include <map>

#include "compiler/pipeline/Registry.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/PassManager.h"

namespace weft::compiler {
namespace {

struct KernelPass {
  KernelStage stage;
  PassFactory factory;
  std::string name;
};

Registry<KernelPass> &registry() {
  static auto *registry = new Registry<KernelPass>("kernel-pass");
  return *registry;
}

llvm::StringRef nameOf(KernelStage stage) {
  switch (stage) {
  case KernelStage::Loops:
    return "loops";
  case KernelStage::Math:
    return "math";
  case KernelStage::Llvm:
    return "llvm";
  }
  llvm_unreachable("a stage without a name");
}

// Code generation finds functions by name, and calls them by their types.
std::map<std::string, mlir::Type> functionsOf(mlir::ModuleOp kernel) {
  std::map<std::string, mlir::Type> types;
  for (auto function : kernel.getOps<mlir::FunctionOpInterface>())
    types.emplace(function.getName().str(), function.getFunctionType());
  return types;
}

mlir::LogicalResult run(const KernelPass &hook, mlir::ModuleOp kernel) {
  auto fail = [&](llvm::StringRef what) {
    return kernel.emitError("the registered kernel pass '") << hook.name << "' " << what;
  };
  std::unique_ptr<mlir::Pass> pass = hook.factory();
  if (!pass)
    return fail("has a factory that made nothing");
  std::map<std::string, mlir::Type> before = functionsOf(kernel);
  mlir::PassManager passes(kernel.getContext(), mlir::ModuleOp::getOperationName());
  passes.enableVerifier(false);
  passes.addPass(std::move(pass));
  if (mlir::failed(passes.run(kernel)))
    return fail("failed");
  if (mlir::failed(mlir::verify(kernel)))
    return fail("left IR that does not verify");
  std::map<std::string, mlir::Type> after = functionsOf(kernel);
  for (const auto &[name, type] : before)
    if (auto found = after.find(name); found == after.end() || found->second != type)
      return fail("removed the function '" + name + "', or changed its type");
  return mlir::success();
}

} // namespace

absl::Status registerKernelPass(KernelStage stage, PassFactory factory, std::string name,
                                std::string version) {
  if (absl::Status status = checkParts("kernel pass", name, factory != nullptr, "factory");
      !status.ok())
    return status;
  return registry().add({stage, std::move(factory), name}, name, std::move(version),
                        nameOf(stage).str());
}

void clearRegisteredKernelPasses() {
  registry().clear();
}

uint64_t registeredKernelPassesGeneration() {
  return registry().generation();
}

mlir::LogicalResult runKernelPasses(mlir::ModuleOp kernel, llvm::StringRef stage) {
  if (registeredKernelPassesGeneration() == 0)
    return mlir::success();
  for (const KernelPass &hook : registry().things())
    if (nameOf(hook.stage) == stage && mlir::failed(run(hook, kernel)))
      return mlir::failure();
  return mlir::success();
}

} // namespace weft::compiler

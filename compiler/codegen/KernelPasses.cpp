#include "compiler/codegen/KernelPasses.h"

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/PassManager.h"

namespace weft::compiler {
namespace {

constexpr const char *kKind = "kernel-pass"; // of registrations

struct KernelPass {
  KernelStage stage;
  PassFactory factory;
  std::string name;
};

struct Registry {
  std::mutex mutex;
  std::vector<KernelPass> passes;
  uint64_t changes = 0;
  std::atomic<uint64_t> generation{0};

  void changed() {
    ++changes;
    generation.store(passes.empty() ? 0 : changes, std::memory_order_release);
  }
};

Registry &registry() {
  static Registry *registry = new Registry;
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
  if (name.empty() || !factory)
    return absl::InvalidArgumentError("the kernel pass '" + name +
                                      (name.empty() ? "' has no name" : "' has no factory"));
  {
    std::lock_guard lock(registry().mutex);
    registry().passes.push_back({stage, std::move(factory), name});
    registry().changed();
  }
  addRegistration({kKind, std::move(name), std::move(version), nameOf(stage).str()});
  return absl::OkStatus();
}

void clearRegisteredKernelPasses() {
  {
    std::lock_guard lock(registry().mutex);
    registry().passes.clear();
    registry().changed();
  }
  removeRegistrations(kKind);
}

uint64_t registeredKernelPassesGeneration() {
  return registry().generation.load(std::memory_order_acquire);
}

mlir::LogicalResult runKernelPasses(mlir::ModuleOp kernel, llvm::StringRef stage) {
  if (registeredKernelPassesGeneration() == 0)
    return mlir::success();
  std::vector<KernelPass> hooks;
  {
    std::lock_guard lock(registry().mutex);
    hooks = registry().passes;
  }
  for (const KernelPass &hook : hooks)
    if (nameOf(hook.stage) == stage && mlir::failed(run(hook, kernel)))
      return mlir::failure();
  return mlir::success();
}

} // namespace weft::compiler

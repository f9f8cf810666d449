#include "compiler/codegen/KernelPasses.h"

#include "compiler/pipeline/Registry.h"
#include "compiler/pipeline/UserPass.h"

namespace weft::compiler {

using namespace mlir;

namespace {

struct KernelPass {
  KernelStage stage;
  PassFactory factory;
  std::string name, version;
};

Registry<KernelPass> &registry() {
  static auto *registry = new Registry<KernelPass>("kernel-pass");
  return *registry;
}

StringRef nameOf(KernelStage stage) {
  switch (stage) {
  case KernelStage::Loops:
    return "loops";
  case KernelStage::Math:
    return "math";
  case KernelStage::Llvm:
    return "llvm";
  }
  return ""; // no stage
}

} // namespace

absl::Status registerKernelPass(KernelStage stage, PassFactory factory, std::string name,
                                std::string version) {
  if (absl::Status status = checkParts("kernel pass", name, factory != nullptr, "factory");
      !status.ok())
    return status;
  std::string place = nameOf(stage).str();
  if (place.empty())
    return absl::InvalidArgumentError("the kernel pass '" + name +
                                      "' is registered after no stage that there is");
  auto refuse = [&](const std::vector<KernelPass> &known) -> absl::Status {
    for (const KernelPass &each : known)
      if (each.stage == stage && each.name == name && each.version == version)
        return absl::AlreadyExistsError("the kernel pass '" + name +
                                        "' is registered already after the stage '" + place +
                                        "'; register it once, or by another name");
    return absl::OkStatus();
  };
  return registry().add({stage, std::move(factory), name, version}, name, version, place, refuse);
}

void clearRegisteredKernelPasses() {
  registry().clear();
}

uint64_t registeredKernelPassesGeneration() {
  return registry().generation();
}

LogicalResult runKernelPasses(ModuleOp kernel, StringRef stage, std::vector<std::string> *remarks) {
  if (registeredKernelPassesGeneration() == 0)
    return success();
  for (const KernelPass &hook : registry().things())
    if (nameOf(hook.stage) == stage &&
        failed(runUserPass(kernel, "kernel pass", hook.name, hook.factory, remarks)))
      return failure();
  return success();
}

} // namespace weft::compiler

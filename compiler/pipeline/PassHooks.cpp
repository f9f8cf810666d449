#include "compiler/pipeline/PassHooks.h"

#include <mutex>

#include "compiler/pipeline/Registry.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/abi/read_struct.h"
#include "llvm/Support/DynamicLibrary.h"

namespace weft::compiler {

namespace {

// Runs a textual pipeline on the module: how a pipeline takes the place of one pass.
class PipelinePass : public mlir::PassWrapper<PipelinePass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PipelinePass)

  explicit PipelinePass(const mlir::OpPassManager &passes) : passes_(passes) {}
  PipelinePass(const PipelinePass &other) : PassWrapper(other), passes_(other.passes_) {}
  llvm::StringRef getName() const override {
    return "weft-inserted-pipeline";
  }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    passes_.getDependentDialects(registry);
  }
  void runOnOperation() override {
    if (failed(runPipeline(passes_, getOperation())))
      signalPassFailure();
  }

private:
  mlir::OpPassManager passes_;
};

Registry<RegisteredPass> &registry() {
  static auto *registry = new Registry<RegisteredPass>("pass");
  return *registry;
}

// The files that were loaded.
struct Plugins {
  std::mutex mutex;
  std::vector<std::string> files;
};
Plugins &plugins() {
  static Plugins *plugins = new Plugins;
  return *plugins;
}

class GlobalRegistrar : public PassRegistrar {
public:
  void registerPass(Phase phase, Position position, PassFactory factory, llvm::StringRef name,
                    llvm::StringRef version) override {
    compiler::registerPass(phase, position, std::move(factory), name, version);
  }
};

template <typename... Args> llvm::Error error(const char *format, const Args &...args) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), format, args...);
}

} // namespace

void registerPass(Phase phase, Position position, PassFactory factory, llvm::StringRef name,
                  llvm::StringRef version) {
  llvm::StringRef where = position == Position::Before ? "before " : "after ";
  registry()
      .add({phase, position, std::move(factory), name.str(), version.str()}, name.str(),
           version.str(), (where + phaseInfo(phase).name).str())
      .IgnoreError(); // nothing is refused
}

llvm::Error registerPassPipeline(Phase phase, Position position, llvm::StringRef pipeline,
                                 llvm::StringRef version) {
  static std::once_flag once;
  std::call_once(once, mlir::registerTransformsPasses); // canonicalize, cse, ...
  if (pipeline.trim().empty())
    return error("the pass pipeline is empty");
  std::string message;
  llvm::raw_string_ostream stream(message);
  auto passes = std::make_shared<mlir::OpPassManager>(mlir::ModuleOp::getOperationName());
  if (failed(mlir::parsePassPipeline(pipeline, *passes, stream)))
    return error("cannot parse the pass pipeline '%s': %s", pipeline.str().c_str(),
                 message.c_str());
  registerPass(
      phase, position, [passes] { return std::make_unique<PipelinePass>(*passes); }, pipeline,
      version);
  return llvm::Error::success();
}

llvm::Error loadPassPlugin(llvm::StringRef path) {
  std::string file = path.str(), message;
  {
    std::lock_guard lock(plugins().mutex);
    if (llvm::is_contained(plugins().files, file))
      return error("the pass plugin %s is loaded already", file.c_str());
  }
  llvm::sys::DynamicLibrary library =
      llvm::sys::DynamicLibrary::getPermanentLibrary(file.c_str(), &message);
  if (!library.isValid())
    return error("cannot load the pass plugin %s: %s", file.c_str(), message.c_str());
  if (void *entry = library.getAddressOfSymbol("weft_pass_plugin")) {
    PassPluginInfo info = reinterpret_cast<PassPluginInfo (*)()>(entry)();
    if (absl::Status status =
            runtime::check_cxx_version(info.apiVersion, kPassPluginApiVersion,
                                       "the pass plugin " + file, "compiler/pipeline/PassHooks.h");
        !status.ok())
      return error("%s", std::string(status.message()).c_str());
    if (!info.registerPasses)
      return error("the pass plugin %s registers nothing: registerPasses is null", file.c_str());
    GlobalRegistrar registrar;
    info.registerPasses(registrar);
  } else if (library.getAddressOfSymbol("mlirGetPassPluginInfo")) {
    llvm::Expected<mlir::PassPlugin> plugin = mlir::PassPlugin::load(file);
    if (!plugin)
      return plugin.takeError();
    plugin->registerPassRegistryCallbacks();
  } else {
    return error(
        "%s is no pass plugin: it exports neither weft_pass_plugin nor mlirGetPassPluginInfo",
        file.c_str());
  }
  std::lock_guard lock(plugins().mutex);
  plugins().files.push_back(std::move(file));
  return llvm::Error::success();
}

void clearRegisteredPasses() {
  registry().clear();
}

std::vector<RegisteredPass> registeredPasses() {
  return registry().things();
}

} // namespace weft::compiler

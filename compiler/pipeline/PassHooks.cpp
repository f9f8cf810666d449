#include "compiler/pipeline/PassHooks.h"

#include <mutex>

#include "compiler/pipeline/OpenLibrary.h"
#include "compiler/pipeline/Registry.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/abi/read_struct.h"
#include "llvm/ADT/StringExtras.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// Runs a textual pipeline on the module: how a pipeline takes the place of one pass.
class PipelinePass : public PassWrapper<PipelinePass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PipelinePass)

  explicit PipelinePass(const OpPassManager &passes) : passes_(passes) {}
  StringRef getName() const override {
    return "weft-inserted-pipeline";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    passes_.getDependentDialects(registry);
  }
  void runOnOperation() override {
    if (failed(runPipeline(passes_, getOperation())))
      signalPassFailure();
  }

private:
  OpPassManager passes_;
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

// Collects errors: the plugin's function returns nothing.
class GlobalRegistrar : public PassRegistrar {
public:
  void registerPass(Phase phase, Position position, PassFactory factory, StringRef name,
                    StringRef version) override {
    status.Update(compiler::registerPass(phase, position, std::move(factory), name, version));
  }
  absl::Status status;
};

// "after graph"
std::string placeOf(Phase phase, Position position) {
  StringRef where = position == Position::Before ? "before " : "after ";
  return (where + phaseInfo(phase).name).str();
}

// A nested pipeline on builtin.module is for modules in the module, of which there are none.
bool nestsModules(OpPassManager &passes) {
  for (Pass &pass : passes.getPasses()) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    pass.printAsTextualPipeline(stream);
    if (StringRef(text).starts_with("builtin.module("))
      return true;
  }
  return false;
}

// Names of passes that users registered, for MLIR's parser: each stands for its factory, or is an
// error once it is forgotten. MLIR's registry is one for the process and takes no lock, hence the
// caller's.
void namePassesOfUsers() {
  for (const RegisteredPass &pass : registry().things()) {
    bool isWord = llvm::all_of(
        pass.name, [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.'; });
    if (!isWord || PassInfo::lookup(pass.name) || PassPipelineInfo::lookup(pass.name))
      continue; // a pipeline's text, or a name that MLIR knows
    auto add = [name =
                    pass.name](OpPassManager &passes, StringRef,
                               function_ref<LogicalResult(const Twine &)> fail) -> LogicalResult {
      for (const RegisteredPass &each : registry().things()) {
        if (each.name != name)
          continue;
        std::unique_ptr<Pass> made = each.factory ? each.factory() : nullptr;
        if (!made)
          break;
        std::optional<StringRef> op = made->getOpName();
        if (op && *op != ModuleOp::getOperationName())
          passes.nest(*op).addPass(std::move(made));
        else
          passes.addPass(std::move(made));
        return success();
      }
      return fail("the registered pass '" + name + "' is there no more, or its factory made none");
    };
    mlir::registerPassPipeline(pass.name, "a registered pass", add, [](auto) {});
  }
}

template <typename... Args> llvm::Error error(const char *format, const Args &...args) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), format, args...);
}

} // namespace

absl::Status registerPass(Phase phase, Position position, PassFactory factory, StringRef name,
                          StringRef version) {
  auto isOfIt = [&](const PhaseInfo &info) { return info.phase == phase; };
  if (llvm::none_of(allPhases(), isOfIt) ||
      (position != Position::Before && position != Position::After))
    return absl::InvalidArgumentError("the pass '" + name.str() +
                                      "' is registered at no phase, or neither before nor after "
                                      "it");
  std::string place = placeOf(phase, position);
  if (name.empty())
    return absl::InvalidArgumentError("a pass " + place + " is registered without a name");
  if (absl::Status status = checkParts("pass", name.str(), factory != nullptr, "factory");
      !status.ok())
    return status;
  auto refuse = [&](const std::vector<RegisteredPass> &known) -> absl::Status {
    for (const RegisteredPass &each : known)
      if (each.phase == phase && each.position == position && each.name == name &&
          each.version == version)
        return absl::AlreadyExistsError("the pass '" + name.str() + "' is registered already " +
                                        place + "; register it once, or by another name");
    return absl::OkStatus();
  };
  return registry().add({phase, position, std::move(factory), name.str(), version.str()},
                        name.str(), version.str(), place, refuse);
}

llvm::Error registerPassPipeline(Phase phase, Position position, StringRef pipeline,
                                 StringRef version) {
  static std::once_flag once;
  std::call_once(once, registerTransformsPasses); // canonicalize, cse, ...
  static auto *naming = new std::mutex;
  std::lock_guard lock(*naming);
  namePassesOfUsers();
  if (pipeline.trim().empty())
    return error("the pass pipeline is empty");
  std::string message;
  llvm::raw_string_ostream stream(message);
  auto passes = std::make_shared<OpPassManager>(ModuleOp::getOperationName());
  // The text is of what runs on the module; mlir-opt's names that op around it.
  StringRef text = pipeline.trim();
  if (text.consume_front(ModuleOp::getOperationName()) && text.ltrim().consume_front("(") &&
      text.ends_with(")"))
    text = text.ltrim().drop_front().drop_back();
  else
    text = pipeline;
  if (failed(parsePassPipeline(text, *passes, stream)))
    return error("cannot parse the pass pipeline '%s': %s", pipeline.str().c_str(),
                 message.c_str());
  if (nestsModules(*passes))
    return error("the pass pipeline '%s' has builtin.module inside of the module, where it would "
                 "never run; write its passes alone",
                 pipeline.str().c_str());
  absl::Status status = registerPass(
      phase, position, [passes] { return std::make_unique<PipelinePass>(*passes); }, pipeline,
      version);
  return status.ok() ? llvm::Error::success() : error("%s", std::string(status.message()).c_str());
}

llvm::Error loadPassPlugin(StringRef path) {
  std::string file = path.str(), why;
  {
    std::lock_guard lock(plugins().mutex);
    if (llvm::is_contained(plugins().files, file))
      return llvm::Error::success();
  }
  llvm::sys::DynamicLibrary library = openLibrary(file, why);
  if (!library.isValid())
    return error("cannot load the pass plugin %s: %s", file.c_str(), why.c_str());
  TakesBack registered;
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
    if (!registrar.status.ok())
      return error("the pass plugin %s: %s", file.c_str(),
                   std::string(registrar.status.message()).c_str());
  } else if (void *entry = library.getAddressOfSymbol("mlirGetPassPluginInfo")) {
    // As mlir::PassPlugin::load, which would open the library for all others.
    auto info = reinterpret_cast<decltype(&mlirGetPassPluginInfo)>(entry)();
    if (info.apiVersion != MLIR_PLUGIN_API_VERSION)
      return error("the pass plugin %s is built for version %u of MLIR's plugins; this is %u",
                   file.c_str(), info.apiVersion, unsigned(MLIR_PLUGIN_API_VERSION));
    if (!info.registerPassRegistryCallbacks)
      return error("the pass plugin %s registers nothing: registerPassRegistryCallbacks is null",
                   file.c_str());
    info.registerPassRegistryCallbacks();
  } else {
    return error(
        "%s is no pass plugin: it exports neither weft_pass_plugin nor mlirGetPassPluginInfo",
        file.c_str());
  }
  std::lock_guard lock(plugins().mutex);
  plugins().files.push_back(file);
  TakesBack::note([file] {
    std::lock_guard lock(plugins().mutex);
    llvm::erase(plugins().files, file);
  });
  registered.passOn();
  return llvm::Error::success();
}

void clearRegisteredPasses() {
  registry().clear();
}

std::vector<RegisteredPass> registeredPasses() {
  return registry().things();
}

} // namespace weft::compiler

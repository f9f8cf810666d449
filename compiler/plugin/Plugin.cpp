#include "compiler/plugin/Plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "compiler/pipeline/OpenLibrary.h"
#include "compiler/plugin/Flavour.h"
#include "compiler/schedule/Pins.h"
#include "dialects/weft/ir/Extensions.h"
#include "runtime/abi/read_struct.h"
#include "runtime/abi/weft_custom.h"
#include "runtime/collective/layers.h"
#include "runtime/core/status.h"
#include "runtime/core/thrown.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SaveAndRestore.h"
#include "llvm/Support/xxhash.h"

namespace weft::compiler {
namespace {

// Collects errors: the plugin's function returns nothing.
class Registrar : public PluginRegistrar {
public:
  explicit Registrar(llvm::StringRef file) : folder_(file) {
    (void)llvm::sys::fs::make_absolute(folder_);
    llvm::sys::path::remove_filename(folder_);
  }
  void registerPass(Phase phase, Position position, PassFactory factory, llvm::StringRef name,
                    llvm::StringRef version) override {
    keep(compiler::registerPass(phase, position, std::move(factory), name, version));
  }
  void registerBackend(llvm::StringRef name, BackendFactory factory) override {
    absl::Status status = compiler::registerBackend(name, std::move(factory));
    if (status.ok())
      TakesBack::note([name = name.str()] { unregisterBackend(name); });
    keep(status);
  }
  void registerDialects(llvm::StringRef name, llvm::StringRef version,
                        std::function<void(mlir::DialectRegistry &)> insert) override {
    keep(compiler::registerDialects(name, version, std::move(insert)));
  }
  void registerDevices(runtime::DeviceKind kind) override {
    devices_.push_back(std::move(kind));
  }
  void registerProvider(ProviderRegistration registration) override {
    for (std::string &file : registration.library.files) {
      llvm::SmallString<256> path(file);
      llvm::sys::path::make_absolute(folder_, path);
      file = path.str().str();
    }
    keep(compiler::registerProvider(std::move(registration)));
  }
  void registerPlanner(llvm::StringRef name, llvm::StringRef version, Planner planner) override {
    keep(compiler::registerPlanner(name.str(), version.str(), std::move(planner)));
  }
  void registerKernelPass(KernelStage stage, PassFactory factory, llvm::StringRef name,
                          llvm::StringRef version) override {
    keep(compiler::registerKernelPass(stage, std::move(factory), name.str(), version.str()));
  }
  void registerFusionRule(llvm::StringRef name, llvm::StringRef version, FusionRule rule) override {
    keep(compiler::registerFusionRule(name.str(), version.str(), std::move(rule)));
  }
  // Of all that was registered. Devices, which cannot be taken back, come when the rest is right.
  absl::Status finish() {
    for (runtime::DeviceKind &kind : devices_)
      if (status_.ok())
        keep(runtime::register_device_kind(std::move(kind)));
    return status_;
  }

private:
  void keep(absl::Status status) {
    if (status_.ok())
      status_ = std::move(status);
  }
  llvm::SmallString<256> folder_;
  std::vector<runtime::DeviceKind> devices_;
  absl::Status status_;
};

struct Loaded {
  std::recursive_mutex mutex; // a plugin may load others while it is loaded
  llvm::StringSet<> files;    // those under way among them
};

Loaded &loaded() {
  static Loaded *loaded = new Loaded;
  return *loaded;
}

constexpr const char *kCxxEntries[] = {"weft_plugin", "weft_pass_plugin", "mlirGetPassPluginInfo"};

// The entry of a library that is built on MLIR's C++ API, found without loading it: that would
// bring another LLVM into the process.
std::string cxxEntryOf(const std::string &path) {
  auto file = llvm::object::ObjectFile::createObjectFile(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return "";
  }
  auto *elf = llvm::dyn_cast<llvm::object::ELFObjectFileBase>(file->getBinary());
  if (!elf)
    return "";
  for (llvm::object::ELFSymbolRef symbol : elf->getDynamicSymbolIterators()) {
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    bool defined = name && flags && !(*flags & llvm::object::SymbolRef::SF_Undefined);
    if (defined && llvm::is_contained(kCxxEntries, *name))
      return name->str();
    if (!name)
      llvm::consumeError(name.takeError());
    if (!flags)
      llvm::consumeError(flags.takeError());
  }
  return "";
}

// A plugin that was built again may do something else under the name and version that it had:
// programs on disk are found by what is in its file as well.
void registerContents(const std::string &path, const void *symbol) {
  Dl_info loaded; // its path may be a name that the loader has found
  auto file = llvm::MemoryBuffer::getFile(
      dladdr(symbol, &loaded) && loaded.dli_fname ? loaded.dli_fname : path.c_str());
  addRegistration({.kind = "plugin",
                   .name = llvm::sys::path::filename(path).str(),
                   .version = file ? llvm::utohexstr(llvm::xxh3_64bits((*file)->getBuffer())) : "",
                   .place = ""});
}

absl::Status load(const std::string &path) {
  if (isSealed())
    if (std::string entry = cxxEntryOf(path); !entry.empty())
      return absl::FailedPreconditionError(
          "the plugin " + path + " exports " + entry +
          ": it uses MLIR's C++ API, which this sealed Weft hides; it takes plugins in C "
          "(weft_kernel_plugin, weft_collective_plugin). Load it in the shared flavour of Weft");
  std::string why;
  llvm::sys::DynamicLibrary library = openLibrary(path, why);
  if (!library.isValid())
    return absl::NotFoundError("cannot load the plugin " + path + ": " + why);
  void *kernels = library.getAddressOfSymbol("weft_kernel_plugin");
  void *layers = library.getAddressOfSymbol("weft_collective_plugin");
  void *entry = library.getAddressOfSymbol("weft_plugin");
  if (entry) {
    PluginInfo info = reinterpret_cast<PluginInfo (*)()>(entry)();
    WEFT_RETURN_IF_ERROR(runtime::check_cxx_version(
        info.apiVersion, kPluginApiVersion, "the plugin " + path, "compiler/plugin/Plugin.h"));
    if (!info.registerAll)
      return absl::InvalidArgumentError("the plugin " + path +
                                        " registers nothing: registerAll is null");
    Registrar registrar(path);
    info.registerAll(registrar);
    if (absl::Status status = registrar.finish(); !status.ok())
      return absl::FailedPreconditionError("the plugin " + path + ": " +
                                           std::string(status.message()));
  } else if (library.getAddressOfSymbol("weft_pass_plugin") ||
             library.getAddressOfSymbol("mlirGetPassPluginInfo")) {
    if (llvm::Error error = loadPassPlugin(path))
      return absl::FailedPreconditionError(llvm::toString(std::move(error)));
  } else if (!kernels && !layers) {
    return absl::InvalidArgumentError(path + " is no plugin: it exports none of weft_plugin, "
                                             "weft_pass_plugin, mlirGetPassPluginInfo, "
                                             "weft_kernel_plugin and weft_collective_plugin");
  }
  for (const char *name : kCxxEntries)
    if (void *symbol = library.getAddressOfSymbol(name)) {
      registerContents(path, symbol);
      break;
    }
  if (kernels)
    if (const char *wrong =
            reinterpret_cast<decltype(&weft_kernel_plugin)>(kernels)(weft_register_kernel))
      return absl::FailedPreconditionError("the plugin " + path + ": " + wrong);
  if (layers)
    return runtime::register_layers_of(path,
                                       reinterpret_cast<decltype(&weft_collective_plugin)>(layers));
  return absl::OkStatus();
}

} // namespace

bool isSealed() {
  return kSealedFlavour;
}

absl::Status registerDialects(llvm::StringRef name, llvm::StringRef version,
                              std::function<void(mlir::DialectRegistry &)> insert) {
  if (name.empty())
    return absl::InvalidArgumentError("dialects are registered without a name");
  // Every context does this from now on, where nobody could name the plugin any more.
  try {
    mlir::DialectRegistry registry;
    insert(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
  } catch (...) {
    return absl::InvalidArgumentError("the dialects '" + name.str() +
                                      "' cannot be loaded: what registerDialects was given " +
                                      runtime::thrown_text());
  }
  if (!ir::registerExtension(name.str(), version.str(), std::move(insert)))
    return absl::AlreadyExistsError("dialects named '" + name.str() + "' are already registered");
  TakesBack::note([name = name.str()] { ir::unregisterExtension(name); });
  return absl::OkStatus();
}

absl::Status loadPlugin(const std::string &path) {
  if (path.empty())
    return absl::InvalidArgumentError("the path of a plugin is empty; name the library's file");
  llvm::SmallString<256> real;
  std::string file = llvm::sys::fs::real_path(path, real) ? path : std::string(real.str());
  std::lock_guard lock(loaded().mutex);
  if (!loaded().files.insert(file).second)
    return absl::OkStatus();
  absl::Status status;
  TakesBack registered;
  try {
    status = load(path.find('/') == std::string::npos && llvm::sys::fs::exists(path) ? "./" + path
                                                                                     : path);
  } catch (...) {
    status = absl::FailedPreconditionError("the plugin " + path + " " + runtime::thrown_text());
  }
  if (status.ok())
    registered.keep();
  else
    loaded().files.erase(file);
  return status;
}

absl::Status loadPluginsFromEnvironment() {
  static std::once_flag once;
  // A plugin that uses Weft while it is loaded comes here again.
  static thread_local bool underWay = false;
  absl::Status result;
  if (underWay)
    return result;
  llvm::SaveAndRestore<bool> mark(underWay, true);
  std::call_once(once, [&] {
    // The first one's code and the text of all: each is somebody else's affair.
    auto note = [&](llvm::StringRef variable, const absl::Status &status) {
      if (!status.ok())
        result = absl::Status(
            result.ok() ? status.code() : result.code(),
            std::string(result.message()) + (result.ok() ? "" : "; ") + variable.str() + ": " +
                std::string(status.message()));
    };
    const char *text = std::getenv("WEFT_PLUGINS");
    llvm::SmallVector<llvm::StringRef> paths;
    llvm::StringRef(text ? text : "").split(paths, ':', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef path : paths)
      note("WEFT_PLUGINS", loadPlugin(path.str()));
    const char *schedules = std::getenv("WEFT_SCHEDULES");
    if (!schedules || !*schedules)
      return;
    absl::StatusOr<std::string> pins = readPins(schedules);
    note("WEFT_SCHEDULES", pins.ok() ? pinSchedules(*pins, schedules) : pins.status());
  });
  return result;
}

} // namespace weft::compiler

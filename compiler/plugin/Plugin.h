// Extensions of users in libraries of their own: passes, providers, fusion rules, a planner,
// dialects, backends and devices (through MLIR's C++ API), kernels and collective layers (plain C).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "compiler/backend/Backend.h"
#include "compiler/claim/ProviderHooks.h"
#include "compiler/codegen/KernelPasses.h"
#include "compiler/fusion/FusionRules.h"
#include "compiler/pipeline/PassHooks.h"
#include "compiler/plan/PlannerHooks.h"
#include "runtime/abi/weft_version.h"
#include "runtime/executor/device.h"

namespace weft::compiler {

// What a plugin registers its parts with. Virtual, so that a plugin that only registers needs no
// symbol of the program that loads it.
class PluginRegistrar : public PassRegistrar {
public:
  // As compiler::registerBackend.
  virtual void registerBackend(llvm::StringRef name, BackendFactory factory) = 0;
  // Inserts dialects that every context gets beside weft's own (dialects/weft/ir/Extensions.h).
  virtual void registerDialects(llvm::StringRef name, llvm::StringRef version,
                                std::function<void(mlir::DialectRegistry &)> insert) = 0;
  // As runtime::register_device_kind. The backend of the kind's name compiles for its devices.
  virtual void registerDevices(runtime::DeviceKind kind) = 0;
  // As compiler::registerProvider. Relative files of its library lie in the plugin's own folder.
  virtual void registerProvider(ProviderRegistration registration) = 0;
  // As compiler::registerPlanner.
  virtual void registerPlanner(llvm::StringRef name, llvm::StringRef version, Planner planner) = 0;
  // As compiler::registerKernelPass.
  virtual void registerKernelPass(KernelStage stage, PassFactory factory, llvm::StringRef name,
                                  llvm::StringRef version) = 0;
  // As compiler::registerFusionRule.
  virtual void registerFusionRule(llvm::StringRef name, llvm::StringRef version,
                                  FusionRule rule) = 0;
};

// A plugin exports `extern "C" weft::compiler::PluginInfo weft_plugin()`. It is built against the
// same MLIR, shared, and headers of Weft of this version, or of a minor one before it. A virtual
// function at the end of PluginRegistrar is a new minor version; any other change of a class that
// plugins derive from, make or are given (Backend, runtime::Executable, DeviceKind, ...) is a new
// major one. (runtime/abi/weft_version.h)
inline constexpr uint32_t kPluginApiVersion = WEFT_VERSION(4, 0);
struct PluginInfo { // returned by value: it never grows
  uint32_t apiVersion;
  const char *name;
  const char *version;
  void (*registerAll)(PluginRegistrar &registrar);
};

// As PluginRegistrar::registerDialects. InvalidArgument where they cannot be loaded, AlreadyExists
// where the name is taken.
absl::Status registerDialects(llvm::StringRef name, llvm::StringRef version,
                              std::function<void(mlir::DialectRegistry &)> insert);

// Loads a library for good, and registers what it brings: weft_plugin, else weft_pass_plugin or
// mlirGetPassPluginInfo (PassHooks.h); weft_kernel_plugin (runtime/abi/weft_custom.h) and
// weft_collective_plugin (runtime/abi/weft_collective.h), alone or beside those. Loading one file
// twice does nothing, also while it is being loaded: a plugin may use Weft in its registerAll, and
// load others. Where it fails, what was registered through PluginRegistrar is taken back (but a
// backend that was used meanwhile); kernels and layers, in C, stay. Errors name the file: NotFound
// where there is none, it does not load or lacks a symbol, InvalidArgument for no plugin,
// FailedPrecondition for another version, for a name that is taken, for an exception of the
// plugin's, and, in the sealed flavour of Weft, for plugins that use MLIR's C++ API.
absl::Status loadPlugin(const std::string &path);
// The plugins that WEFT_PLUGINS names, separated by colons, and the schedules that the file
// WEFT_SCHEDULES pins (compiler/schedule/Pins.h); the first call only. One error for all that
// failed, each with its variable, after the others were tried.
absl::Status loadPluginsFromEnvironment();

// Whether LLVM and MLIR are hidden inside this library.
bool isSealed();

} // namespace weft::compiler

// Passes that users run before or after a phase: registered from C++ or from a plugin .so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/pipeline/Phase.h"
#include "compiler/pipeline/Registrations.h"
#include "mlir/Pass/Pass.h"
#include "runtime/abi/weft_version.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace weft::compiler {

// Makes a pass on builtin.module, or on an op in it, such as func.func.
using PassFactory = std::function<std::unique_ptr<mlir::Pass>()>;

// What a plugin registers its passes with. It is virtual so that a plugin needs no symbol of the
// program that loads it.
class PassRegistrar {
public:
  virtual ~PassRegistrar() = default;
  // The module is verified after the pass; the names and types of its functions stay. What it says
  // as a warning or a remark is among the notes of explain, an error that it emits is its failure.
  // name and version go into the keys of caches. An empty version switches the disk cache off, with
  // a reason that names the pass.
  virtual void registerPass(Phase phase, Position position, PassFactory factory,
                            llvm::StringRef name, llvm::StringRef version) = 0;
};

// A plugin exports `extern "C" weft::compiler::PassPluginInfo weft_pass_plugin()`. It is built
// against the same MLIR, shared. A virtual function at the end of PassRegistrar is a new minor
// version (runtime/abi/weft_version.h).
inline constexpr uint32_t kPassPluginApiVersion = WEFT_VERSION(2, 0);
struct PassPluginInfo { // returned by value: it never grows
  uint32_t apiVersion;
  const char *name;
  const char *version;
  void (*registerPasses)(PassRegistrar &registrar);
};

// All functions may be called from any thread; a compilation that has begun keeps the passes that
// it began with. InvalidArgument without a name, AlreadyExists for the second of a name and a
// version at one place.
absl::Status registerPass(Phase phase, Position position, PassFactory factory, llvm::StringRef name,
                          llvm::StringRef version);
// The same for a textual pipeline over builtin.module, such as "canonicalize,cse": of MLIR's
// general passes, those of plugins, and those that are registered, by their names. It may stand in
// "builtin.module(...)", as tools of MLIR write it. Error: it cannot be parsed, is empty, or is
// registered already.
llvm::Error registerPassPipeline(Phase phase, Position position, llvm::StringRef pipeline,
                                 llvm::StringRef version);
// Loads a plugin. Takes weft_pass_plugin where the library exports it, else MLIR's own
// mlirGetPassPluginInfo, whose passes can then be placed by registerPassPipeline. Loading the same
// file twice does nothing. Errors name the file: it does not load, is no pass plugin, was built for
// another version, or registers what cannot be; then none of its passes is registered.
llvm::Error loadPassPlugin(llvm::StringRef path);
// Forgets every registered pass. For tests and tools; code of plugins stays loaded.
void clearRegisteredPasses();

// What is registered at one place, in the order of registration.
struct RegisteredPass {
  Phase phase;
  Position position;
  PassFactory factory;
  std::string name, version;
};
std::vector<RegisteredPass> registeredPasses();
} // namespace weft::compiler

// What compiles slices for one kind of device.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/backend/CompileOptions.h"
#include "compiler/backend/CompileReport.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/executable/size_table.h"

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

namespace weft::runtime {
class Executable;
} // namespace weft::runtime

namespace weft::compiler {

struct AotOptions; // compiler/link/Aot.h

// What a backend makes of arguments that carry weft.stable.
struct StableUse {
  bool values = false; // computes what depends on them alone once, ahead of runs
  int64_t packedRows =
      0; // packs a stable matrix that float32 products of at most so many rows read; 0: none
  int64_t packedPixels = 0; // packs a stable weight of float32 convolutions that give at most so
                            // many pixels, in all images; 0: none
  int64_t packedBytes = 0;  // both: if it has at least so many bytes

  bool any() const {
    return values || packedRows > 0 || packedPixels > 0;
  }
};

// Thread-safe: several threads may compile at once, each with a module in a context of its own.
class Backend {
public:
  virtual ~Backend() = default;

  // The name it is registered under: "cpu", "reference", ...
  virtual llvm::StringRef name() const = 0;
  // The device whose memory its executables read and write: "cpu".
  virtual llvm::StringRef device() const = 0;
  // The dialects that compile() makes ops of; to be loaded into a context before it is given to
  // compile().
  virtual void registerDialects(mlir::DialectRegistry &registry) const = 0;

  // Compiles a slice module: a func.func @main of weft ops on static shapes; args may carry
  // weft.donatable and weft.stable. The module is consumed: what is left of it is unspecified.
  // report may be null, the executable not. Errors: InvalidArgument for a module that breaks these
  // rules, Unimplemented for an op that the backend cannot run, with the op and its location named,
  // Internal for a failed phase. The module's context serves later modules: what compile()
  // registers with the context, such as a handler of diagnostics, is gone when compile() returns.
  // A module with the attribute weft.sizes is for sizes that vary: types name dims by
  // #weft.dims<n, _> and have the largest size there, 2^40 where nothing bounds it: no memory is
  // taken by it. Its executable has at_sizes(). A backend that has no such programs answers
  // Unimplemented, and is given modules of one size instead; another error may be the user's.
  virtual absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp module, const CompileOptions &options, CompileReport *report) = 0;

  // Callers mark arguments as stable only where the backend makes something of it: for the others a
  // second program would be compiled in vain.
  virtual StableUse stableUse() const {
    return {};
  }

  // All that decides, beside the module, what compile() yields: CPU and features, versions of Weft,
  // LLVM and libraries, the options, registered passes. Part of the key of caches. Empty:
  // executables are not cached on disk.
  virtual std::string targetKey(const CompileOptions &options) const = 0;
  // Why executables must not be cached on disk now; empty where they may.
  virtual std::string whyNotCachable(const CompileOptions &options) const {
    return {};
  }

  // An executable as bytes that load() takes back, in this process or in another one with the same
  // targetKey; nullopt when the backend cannot. load() checks whatever it is given (version,
  // checksum, bounds) and returns DataLoss for a blob that it cannot trust.
  virtual std::optional<std::string> serialize(const runtime::Executable &executable) const {
    return std::nullopt;
  }
  virtual absl::StatusOr<std::shared_ptr<runtime::Executable>>
  load(llvm::ArrayRef<char> blob) const;

  // Compiles ahead of time with the backend's own providers, which options.providers need not name;
  // returns the files that were written, the output first. Unimplemented when the backend cannot.
  virtual absl::StatusOr<std::vector<std::string>> compileAheadOfTime(mlir::ModuleOp module,
                                                                      const AotOptions &options);
};

// The registry. All functions may be called from any thread. A backend is made at its first use and
// lives until the process ends.
using BackendFactory = std::function<std::unique_ptr<Backend>()>;
// AlreadyExists when the name is taken, InvalidArgument without a name or a factory.
absl::Status registerBackend(llvm::StringRef name, BackendFactory factory);
// Of a plugin that fails to load. One that has been made stays.
void unregisterBackend(llvm::StringRef name);
// NotFound, with the known names, when there is none of that name; Internal where its factory gave
// null or threw.
absl::StatusOr<Backend *> findBackend(llvm::StringRef name);
// backend.compile(), checked: Internal for an exception, a null executable, and one whose specs are
// not those of @main or tie an output to what is not there.
absl::StatusOr<std::shared_ptr<runtime::Executable>> compileBy(Backend &backend,
                                                               mlir::ModuleOp module,
                                                               const CompileOptions &options,
                                                               CompileReport *report);
// executable.at_sizes(), checked in the same way; the executable is of the backend of that name.
absl::StatusOr<std::shared_ptr<runtime::Executable>>
atSizes(llvm::StringRef backend, const runtime::Executable &executable,
        const runtime::Sizes &sizes);
std::vector<std::string> backendNames();

// Registers when the program or a plugin is loaded: one static variable of it in a backend's
// library (which needs alwayslink).
struct BackendRegistration {
  BackendRegistration(const char *name, BackendFactory factory);
};

} // namespace weft::compiler

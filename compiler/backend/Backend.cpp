#include "compiler/backend/Backend.h"

#include <map>
#include <mutex>

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {
namespace {

struct Entry {
  BackendFactory factory;
  std::unique_ptr<Backend> backend;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};

// Never destroyed: executables and threads that outlive main() may still use a backend.
Registry &registry() {
  static Registry *registry = new Registry();
  return *registry;
}

} // namespace

absl::StatusOr<std::shared_ptr<runtime::Executable>>
Backend::load(llvm::ArrayRef<char> blob) const {
  return absl::UnimplementedError(
      ("backend '" + name() + "' does not load compiled programs").str());
}

absl::StatusOr<std::vector<std::string>> Backend::compileAheadOfTime(mlir::ModuleOp module,
                                                                     const AotOptions &options) {
  return absl::UnimplementedError(
      ("backend '" + name() + "' does not compile ahead of time").str());
}

absl::Status registerBackend(llvm::StringRef name, BackendFactory factory) {
  if (name.empty() || !factory)
    return absl::InvalidArgumentError(
        ("the backend '" + name + "' needs a name and a factory").str());
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto [it, inserted] =
      registry().entries.try_emplace(name.str(), Entry{std::move(factory), nullptr});
  if (!inserted)
    return absl::AlreadyExistsError(("a backend named '" + name + "' is already registered").str());
  return absl::OkStatus();
}

void unregisterBackend(llvm::StringRef name) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto it = registry().entries.find(name.str());
  if (it != registry().entries.end() && !it->second.backend)
    registry().entries.erase(it);
}

absl::StatusOr<Backend *> findBackend(llvm::StringRef name) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto it = registry().entries.find(name.str());
  if (it == registry().entries.end()) {
    std::string known;
    for (auto &[other, entry] : registry().entries)
      known += (known.empty() ? "" : ", ") + other;
    return absl::NotFoundError(
        ("no backend named '" + name + "'; known: " + (known.empty() ? "none" : known)).str());
  }
  if (!it->second.backend)
    it->second.backend = it->second.factory();
  if (!it->second.backend)
    return absl::InternalError(("the factory of the backend '" + name + "' gave null").str());
  return it->second.backend.get();
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> compileBy(Backend &backend,
                                                               mlir::ModuleOp module,
                                                               const CompileOptions &options,
                                                               CompileReport *report) {
  absl::StatusOr<std::shared_ptr<runtime::Executable>> executable =
      backend.compile(module, options, report);
  if (executable.ok() && !*executable)
    return absl::InternalError(
        ("the backend '" + backend.name() + "' gave a null executable and no error").str());
  return executable;
}

std::vector<std::string> backendNames() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  std::vector<std::string> names;
  for (auto &[name, entry] : registry().entries)
    names.push_back(name);
  return names;
}

BackendRegistration::BackendRegistration(const char *name, BackendFactory factory) {
  absl::Status status = registerBackend(name, std::move(factory));
  // Two libraries under one name is a mistake in how the program was linked; the first one stays.
  if (!status.ok())
    llvm::errs() << "weft: " << status.ToString() << "\n";
}

} // namespace weft::compiler

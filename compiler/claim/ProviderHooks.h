// Providers of users, beside those of a backend: registered from C++ or by a plugin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/claim/Provider.h"
#include "compiler/claim/RuntimeLibrary.h"
#include "compiler/pipeline/Registrations.h"

namespace weft::runtime {
class LibraryEntry; // runtime/executable/library_call.h
} // namespace weft::runtime

namespace weft::compiler {

// A provider, what runs its calls in this process, and what brings that to programs compiled ahead
// of time.
struct ProviderRegistration {
  std::string backend;                      // whose compilations ask it: "cpu"
  std::shared_ptr<const Provider> provider; // stateless and thread-safe
  // Of provider->name(). Lives as long as the process, and is called from any thread.
  const runtime::LibraryEntry *entry = nullptr;
  // Part of the keys of programs, as the name is. Empty: no program is kept on disk.
  std::string version;
  // `entries` may be empty: it is provider->name(). Without a finder the provider claims nothing
  // ahead of time, with the reason `no-library`.
  RuntimeLibrary library = {};
};

// Registered providers are asked before the backend's own, the first that was registered first; a
// compilation that has begun keeps those that it began with. From any thread. InvalidArgument for a
// part that is missing or does not fit; NotFound where no backend of that name takes providers,
// with those that do; AlreadyExists for the name of another provider or of a library of the
// backend's own.
absl::Status registerProvider(ProviderRegistration registration);
// Forgets them; for tests. Programs that call their entries must be gone.
void clearRegisteredProviders();

// Those of a backend, in order. For BackendLibraries.
std::vector<ProviderRegistration> registeredProviders(llvm::StringRef backend);
// Another number after each change.
uint64_t registeredProvidersGeneration();
// From now on the backend takes providers, but none whose names begin with one of `reserved`.
void acceptProviders(std::string backend, std::vector<std::string> reserved);

} // namespace weft::compiler

#include "compiler/claim/ProviderHooks.h"

#include <atomic>
#include <map>
#include <mutex>

#include "runtime/executable/library_call.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {
namespace {

constexpr const char *kKind = "provider"; // of registrations

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> reserved; // by backend
  std::vector<ProviderRegistration> providers;
  std::atomic<uint64_t> generation{0};
};

Registry &registry() {
  static Registry *registry = new Registry;
  return *registry;
}

// Why it cannot be, as far as it alone says.
std::string whyNot(const ProviderRegistration &given) {
  if (!given.entry)
    return "has no entry that runs its calls";
  if (llvm::StringRef(given.entry->name()) != given.provider->name())
    return "has an entry of another name, '" + std::string(given.entry->name()) + "'";
  const RuntimeLibrary &library = given.library;
  if (library.finder.empty() && !(library.files.empty() && library.flags.empty()))
    return "has a library without a finder: no program compiled ahead of time would find its entry";
  return "";
}

} // namespace

absl::Status registerProvider(ProviderRegistration given) {
  if (!given.provider)
    return absl::InvalidArgumentError("a provider is registered that is null");
  std::string name = given.provider->name().str(), what = "the provider '" + name + "' ";
  if (std::string why = whyNot(given); !why.empty())
    return absl::InvalidArgumentError(what + why);
  if (given.library.entries.empty())
    given.library.entries = name;
  {
    std::lock_guard lock(registry().mutex);
    auto backend = registry().reserved.find(given.backend);
    if (backend == registry().reserved.end()) {
      std::string known;
      for (auto &[other, reserved] : registry().reserved)
        known += (known.empty() ? "" : ", ") + other;
      return absl::NotFoundError(
          what + "is for the backend '" + given.backend +
          "', which takes none of users; those that do: " + (known.empty() ? "none" : known));
    }
    for (const std::string &prefix : backend->second)
      if (llvm::StringRef(name).starts_with(prefix))
        return absl::AlreadyExistsError(what + "has a name of the backend's own: names in '" +
                                        prefix + "' are taken");
    for (const ProviderRegistration &other : registry().providers)
      if (other.backend == given.backend && other.provider->name() == name)
        return absl::AlreadyExistsError(what + "is registered already, by this name");
    registry().providers.push_back(given);
    ++registry().generation;
  }
  addRegistration({kKind, name, given.version, given.backend});
  return absl::OkStatus();
}

void clearRegisteredProviders() {
  {
    std::lock_guard lock(registry().mutex);
    registry().providers.clear();
    ++registry().generation;
  }
  removeRegistrations(kKind);
}

std::vector<ProviderRegistration> registeredProviders(llvm::StringRef backend) {
  std::lock_guard lock(registry().mutex);
  std::vector<ProviderRegistration> result;
  for (const ProviderRegistration &each : registry().providers)
    if (each.backend == backend)
      result.push_back(each);
  return result;
}

uint64_t registeredProvidersGeneration() {
  return registry().generation.load(std::memory_order_acquire);
}

void acceptProviders(std::string backend, std::vector<std::string> reserved) {
  std::lock_guard lock(registry().mutex);
  registry().reserved[std::move(backend)] = std::move(reserved);
}

} // namespace weft::compiler

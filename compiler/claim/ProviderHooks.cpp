#include "compiler/claim/ProviderHooks.h"

#include <map>
#include <mutex>

#include "compiler/pipeline/Registry.h"
#include "runtime/core/status.h"
#include "runtime/executable/library_call.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {
namespace {

Registry<ProviderRegistration> &registry() {
  static auto *registry = new Registry<ProviderRegistration>("provider");
  return *registry;
}

// Backends that take providers.
struct Backends {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> reserved; // prefixes of names
};
Backends &backends() {
  static Backends *backends = new Backends;
  return *backends;
}

// Why the backend takes none of this name.
absl::Status refusal(const std::string &name, const std::string &backend, const std::string &what) {
  std::lock_guard lock(backends().mutex);
  auto found = backends().reserved.find(backend);
  if (found == backends().reserved.end()) {
    std::string known;
    for (auto &[other, reserved] : backends().reserved)
      known += (known.empty() ? "" : ", ") + other;
    return absl::NotFoundError(
        what + "is for the backend '" + backend +
        "', which takes none of users; those that do: " + (known.empty() ? "none" : known));
  }
  for (const std::string &prefix : found->second)
    if (llvm::StringRef(name).starts_with(prefix))
      return absl::AlreadyExistsError(what + "has a name of the backend's own: names in '" +
                                      prefix + "' are taken");
  return absl::OkStatus();
}

// Why it cannot be, as far as it alone says.
std::string whyNot(const ProviderRegistration &given) {
  if (given.provider->name().empty())
    return "has no name";
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
  WEFT_RETURN_IF_ERROR(refusal(name, given.backend, what));
  return registry().add(given, name, given.version, given.backend,
                        [&](const std::vector<ProviderRegistration> &others) {
                          for (const ProviderRegistration &other : others)
                            if (other.backend == given.backend && other.provider->name() == name)
                              return absl::AlreadyExistsError(
                                  what + "is registered already, by this name");
                          return absl::OkStatus();
                        });
}

void clearRegisteredProviders() {
  registry().clear();
}

std::vector<ProviderRegistration> registeredProviders(llvm::StringRef backend) {
  std::vector<ProviderRegistration> result = registry().things();
  llvm::erase_if(result,
                 [&](const ProviderRegistration &each) { return each.backend != backend; });
  return result;
}

uint64_t registeredProvidersGeneration() {
  return registry().changes();
}

void acceptProviders(std::string backend, std::vector<std::string> reserved) {
  std::lock_guard lock(backends().mutex);
  backends().reserved[std::move(backend)] = std::move(reserved);
}

} // namespace weft::compiler

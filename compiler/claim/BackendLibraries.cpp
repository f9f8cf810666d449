#include "compiler/claim/BackendLibraries.h"

#include "compiler/claim/ProviderHooks.h"
#include "runtime/executable/library_call.h"

namespace weft::compiler {
namespace {

// A provider whose calls only this process can run: ahead of time it says so, where it would claim.
class WithoutLibrary : public Provider {
public:
  explicit WithoutLibrary(std::shared_ptr<const Provider> provider)
      : provider_(std::move(provider)) {}
  llvm::StringRef name() const override {
    return provider_->name();
  }
  ClaimAnswer match(mlir::Operation *op, MathMode math) const override {
    ClaimAnswer answer = provider_->match(op, math);
    if (std::holds_alternative<Claim>(answer))
      return ClaimRefusal{"no-library", "its provider was registered without a library that "
                                        "programs compiled ahead of time can be linked with"};
    return std::holds_alternative<ClaimRefusal>(answer) ? answer : ClaimAnswer(NotMine{});
  }

private:
  std::shared_ptr<const Provider> provider_;
};

} // namespace

BackendLibraries::BackendLibraries(std::string backend, std::vector<RuntimeLibrary> own,
                                   void (*addOwn)(ProviderSet &, llvm::StringRef))
    : backend_(std::move(backend)), own_(std::move(own)), addOwn_(addOwn) {
  std::vector<std::string> reserved;
  for (const RuntimeLibrary &library : own_)
    reserved.push_back(library.entries);
  acceptProviders(backend_, std::move(reserved));
}

const BackendLibraries::Sets &BackendLibraries::sets(llvm::StringRef machine) {
  std::lock_guard lock(mutex_);
  // Read before the list is: what is registered in between is asked for at the next call.
  uint64_t generation = registeredProvidersGeneration();
  for (const std::unique_ptr<Sets> &known : llvm::reverse(sets_))
    if (known->generation == generation && known->machine == machine)
      return *known;
  auto made = std::make_unique<Sets>();
  made->generation = generation;
  made->machine = machine.str();
  for (const ProviderRegistration &each : registeredProviders(backend_)) {
    made->now.add(each.provider);
    made->aheadOfTime.add(each.library.finder.empty()
                              ? std::make_shared<WithoutLibrary>(each.provider)
                              : each.provider);
  }
  addOwn_(made->now, machine);
  addOwn_(made->aheadOfTime, machine);
  return *sets_.emplace_back(std::move(made));
}

const ProviderSet *BackendLibraries::providers(llvm::StringRef machine) {
  return &sets(machine).now;
}

const ProviderSet *BackendLibraries::providersAheadOfTime() {
  return &sets("").aheadOfTime;
}

std::vector<RuntimeLibrary> BackendLibraries::runtimeLibraries() const {
  std::vector<RuntimeLibrary> result = own_;
  for (const ProviderRegistration &each : registeredProviders(backend_))
    if (!each.library.finder.empty())
      result.push_back(each.library);
  return result;
}

const runtime::LibraryEntry *BackendLibraries::findEntry(std::string_view name) const {
  for (const ProviderRegistration &each : registeredProviders(backend_))
    if (each.entry->name() == name)
      return each.entry;
  return nullptr;
}

} // namespace weft::compiler

#include "compiler/pipeline/Registrations.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {
namespace {

struct Registrations {
  std::mutex mutex;
  std::vector<Registration> all;
  uint64_t changes = 0;
  std::atomic<uint64_t> generation{0};

  void changed() {
    ++changes;
    generation.store(all.empty() ? 0 : changes, std::memory_order_release);
  }
};

// Never destroyed: threads that outlive main() may still compile.
Registrations &registrations() {
  static Registrations *registrations = new Registrations;
  return *registrations;
}

} // namespace

void addRegistration(Registration registration) {
  std::lock_guard lock(registrations().mutex);
  registrations().all.push_back(std::move(registration));
  registrations().changed();
}

void removeRegistrations(llvm::StringRef kind) {
  std::lock_guard lock(registrations().mutex);
  llvm::erase_if(registrations().all, [&](const Registration &each) { return each.kind == kind; });
  registrations().changed();
}

std::string registrationsKey() {
  std::lock_guard lock(registrations().mutex);
  std::string key;
  for (const Registration &each : registrations().all)
    key += each.kind + (each.place.empty() ? "" : " " + each.place) + " " + each.name + " " +
           each.version + "\n";
  return key;
}

std::string whyRegistrationsAreNotCachable() {
  std::lock_guard lock(registrations().mutex);
  for (const Registration &each : registrations().all)
    if (each.version.empty())
      return "the registered " + each.kind + " '" + each.name + "' has no version";
  return "";
}

uint64_t registrationsGeneration() {
  return registrations().generation.load(std::memory_order_acquire);
}

} // namespace weft::compiler

#include "compiler/pipeline/Registrations.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "dialects/weft/ir/Extensions.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {
namespace {

struct Entry : Registration {
  uint64_t number;
};

struct Registrations {
  std::mutex mutex;
  std::vector<Entry> all;
  uint64_t last = 0;                   // Entry::number of the newest, which no other ever has
  uint64_t changes = 0;                // additions and removals
  std::atomic<uint64_t> generation{0}; // `changes`, but 0 while nothing is registered

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

thread_local TakesBack *takesBack = nullptr;

} // namespace

TakesBack::TakesBack() : around_(std::exchange(takesBack, this)) {}

TakesBack::~TakesBack() {
  takesBack = around_;
  for (std::function<void()> &undo : llvm::reverse(undo_))
    undo();
}

void TakesBack::passOn() {
  if (around_)
    llvm::append_range(around_->undo_, undo_);
  undo_.clear();
}

void TakesBack::note(std::function<void()> undo) {
  if (takesBack)
    takesBack->undo_.push_back(std::move(undo));
}

void addRegistration(Registration registration) {
  std::lock_guard lock(registrations().mutex);
  uint64_t number = ++registrations().last;
  registrations().all.push_back({std::move(registration), number});
  registrations().changed();
  TakesBack::note([number] {
    std::lock_guard lock(registrations().mutex);
    llvm::erase_if(registrations().all, [&](const Entry &each) { return each.number == number; });
    registrations().changed();
  });
}

void removeRegistrations(llvm::StringRef kind) {
  std::lock_guard lock(registrations().mutex);
  llvm::erase_if(registrations().all, [&](const Entry &each) { return each.kind == kind; });
  registrations().changed();
}

std::string registeredNames(llvm::StringRef kind) {
  std::lock_guard lock(registrations().mutex);
  std::string names;
  for (const Registration &each : registrations().all)
    if (kind.empty() ? each.kind != "plugin" : each.kind == kind)
      names += (names.empty() ? "" : ", ") + each.kind + " '" + each.name + "'";
  return names;
}

std::string registrationsKey() {
  std::lock_guard lock(registrations().mutex);
  std::string key;
  for (const Registration &each : registrations().all)
    key += each.kind + (each.place.empty() ? "" : " " + each.place) + " " + each.name + " " +
           each.version + "\n";
  return key + ir::extensionsKey();
}

std::string whyRegistrationsAreNotCachable() {
  std::lock_guard lock(registrations().mutex);
  for (const Registration &each : registrations().all)
    if (each.version.empty())
      return "the registered " + each.kind + " '" + each.name + "' has no version";
  return ir::whyExtensionsAreNotCachable();
}

uint64_t registrationsGeneration() {
  return registrations().generation.load(std::memory_order_acquire);
}

} // namespace weft::compiler

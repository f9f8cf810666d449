// The libraries that a backend calls: its own, and those that users registered for it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/claim/Provider.h"
#include "compiler/claim/RuntimeLibrary.h"

namespace weft::runtime {
class LibraryEntry;
} // namespace weft::runtime

namespace weft::compiler {

// A backend that takes providers of users has one, in a static variable: users may register from
// the moment on that it is made. Thread-safe.
class BackendLibraries {
public:
  // own: what programs compiled ahead of time link for the backend's own entries. addOwn: adds its
  // own providers to a set, those for programs that run on `machine`; called when somebody asks for
  // them.
  BackendLibraries(std::string backend, std::vector<RuntimeLibrary> own,
                   void (*addOwn)(ProviderSet &, llvm::StringRef machine));

  // Who may claim ops now, users' providers first. machine: in the words of addOwn; empty: this
  // one. The set does not change, and lives as long as this does: after a registration there is
  // another one.
  const ProviderSet *providers(llvm::StringRef machine = "");
  // The same for programs compiled ahead of time: providers without a library refuse.
  const ProviderSet *providersAheadOfTime();
  std::vector<RuntimeLibrary> runtimeLibraries() const;
  // The entry of a user's provider, or null.
  const runtime::LibraryEntry *findEntry(std::string_view name) const;

private:
  struct Sets {
    uint64_t generation;
    std::string machine;
    ProviderSet now, aheadOfTime;
  };
  const Sets &sets(llvm::StringRef machine);

  const std::string backend_;
  const std::vector<RuntimeLibrary> own_;
  void (*const addOwn_)(ProviderSet &, llvm::StringRef machine);
  std::mutex mutex_;
  std::vector<std::unique_ptr<Sets>> sets_; // the newest last
};

} // namespace weft::compiler

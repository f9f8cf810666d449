// What users registered with the compiler, of whatever kind: what caches of programs have to know.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

// One thing that changes what programs become. Each registry (of passes, providers, ...) enters
// what it is given here, so that no cache knows the registries.
struct Registration {
  std::string kind;    // "pass"
  std::string name;    // "mine-abs"
  std::string version; // its author's; empty: unknown, so that nothing may be kept on disk
  std::string place;   // where it acts, if one name may act at several places: "after graph"
};

// All functions may be called from any thread.
void addRegistration(Registration registration);
// Those of one kind; for tests and tools.
void removeRegistrations(llvm::StringRef kind);

// What is registered, for errors: "pass 'mine-abs', planner 'mine-room'"; of one kind, or of all.
// Empty while nothing is.
std::string registeredNames(llvm::StringRef kind = "");

// Takes back what its thread registers while it lives, the last first, unless told to keep it: of a
// plugin that fails to load nothing stays.
class TakesBack {
public:
  TakesBack();
  ~TakesBack();
  TakesBack(const TakesBack &) = delete;
  TakesBack &operator=(const TakesBack &) = delete;
  void keep() {
    undo_.clear();
  }
  // Leaves it to the one that lived when this one was made, if any.
  void passOn();
  // For registries: how to take back what they were just given.
  static void note(std::function<void()> undo);

private:
  std::vector<std::function<void()>> undo_;
  TakesBack *around_;
};

// A line each, "KIND [PLACE] NAME VERSION", in the order of registration, dialects last: part of
// the keys of programs.
std::string registrationsKey();
// Empty when programs may be kept on disk, else why not: what has no version.
std::string whyRegistrationsAreNotCachable();
// 0 while nothing is registered; another number after each registration. For keys of caches in
// memory.
uint64_t registrationsGeneration();

} // namespace weft::compiler

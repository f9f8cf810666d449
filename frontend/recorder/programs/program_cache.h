// Compiled programs in memory: least recently used first out, bounded in bytes and entries.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_set>

#include "frontend/compile/compiled_program.h"
#include "frontend/compile/generalize.h"
#include "frontend/recorder/programs/recently_used.h"
#include "frontend/recorder/slices/program_key.h"
#include "weft/config.h"
#include "llvm/ADT/BitVector.h"

namespace weft::recorder {

// What a program depends on besides its slice.
struct ProgramContext {
  // A program serves one device: what it keeps of libraries' state is for one executor at a time.
  ProgramContext(const Config &config, uint8_t device);
  std::string backend, dump_dir;
  uint8_t device;
  uint64_t registrations; // compiler::registrationsGeneration()
  bool prepare, tune;
  Math math;
  int64_t memory_limit;
  bool memory_files; // of a program that has that limit
  uint64_t salt() const;
};

// A program, and what it serves of all that has its key.
struct CachedProgram {
  HeldKey key;
  ProgramContext context;
  std::shared_ptr<CompiledProgram> program;
  llvm::BitVector stable = {}; // the leaves that it counts on (stability.h)
  Generalization general = {}; // of kSymbolic; else there is nothing that varies
  // Of those with sizes: at the sizes that were last asked for, the newest first.
  std::deque<std::pair<Ints, std::shared_ptr<CompiledProgram>>> sized = {};

  const ProgramKey &program_key() const {
    return key.key;
  }
  int64_t bytes() const;
};

class ProgramCache : public RecentlyUsed<CachedProgram> {
public:
  using RecentlyUsed::find;
  struct Found {
    CachedProgram *cached = nullptr;
    Generalization::Match values = {};
    bool enough = false; // where there is none, the next one is to count on nothing
  };
  // Of the programs with this key that serve these ints (of kSymbolic) and count on none but the
  // slice's stable leaves, the one that counts on most of them, which is the most recently used one
  // then. Null where there is none, or one that counts on more is worth a compilation: for the same
  // ints and other leaves there are few (PrepareLimits::variants), but for replays, which keep
  // theirs.
  Found find(const ProgramKey &key, const Slice &slice, const Ints &ints = {});
  // After its compilation succeeded.
  void insert(CachedProgram program);
  // Drops the least recently used down to the bounds of the configuration.
  void trim();

  // Single flight: while one lives, whoever finds the key waits.
  class Compiling {
  public:
    Compiling(ProgramCache &cache, const ProgramKey &key) : cache_(cache), hash_(key.hash()) {
      cache_.compiling_.insert(hash_);
    }
    ~Compiling() {
      cache_.compiling_.erase(hash_);
    }

  private:
    ProgramCache &cache_;
    uint64_t hash_;
  };
  bool is_compiling(const ProgramKey &key) const {
    return compiling_.contains(key.hash());
  }
  bool is_compiling() const {
    return !compiling_.empty();
  }

  // For a miss: in which parts of the key the slice differs from the most similar of the recent
  // programs, in words.
  std::string difference(const Slice &slice, const ProgramContext &context) const;

private:
  std::unordered_set<uint64_t> compiling_;
};

// The process's, under the recorder's lock.
ProgramCache &program_cache();

} // namespace weft::recorder

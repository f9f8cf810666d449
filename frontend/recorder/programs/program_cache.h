// Compiled programs in memory: least recently used first out, bounded in bytes and entries.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "frontend/compile/compiled_program.h"
#include "frontend/recorder/programs/recently_used.h"
#include "frontend/recorder/slices/program_key.h"
#include "weft/config.h"

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

class ProgramCache {
public:
  // Null on a miss. Makes the entry the most recently used.
  std::shared_ptr<CompiledProgram> find(const ProgramKey &key, uint64_t salt);
  // After its compilation succeeded.
  void insert(HeldKey key, ProgramContext context, std::shared_ptr<CompiledProgram> program,
              const Config &config);
  // Drops the least recently used down to the bounds.
  void trim(const Config &config);
  int64_t entries() const {
    return entries_.size();
  }
  int64_t bytes() const {
    return bytes_;
  }

  // Single flight: while one lives, whoever finds the key waits.
  class Compiling {
  public:
    Compiling(ProgramCache &cache, const ProgramKey &key, uint64_t salt)
        : cache_(cache), hash_(hash(key, salt)) {
      cache_.compiling_.insert(hash_);
    }
    ~Compiling() {
      cache_.compiling_.erase(hash_);
    }

  private:
    ProgramCache &cache_;
    uint64_t hash_;
  };
  bool is_compiling(const ProgramKey &key, uint64_t salt) const {
    return compiling_.count(hash(key, salt)) > 0;
  }
  bool is_compiling() const {
    return !compiling_.empty();
  }

  // For a miss: in which parts of the key the slice differs from the most similar of the recent
  // programs, in words.
  std::string difference(const Slice &slice, const ProgramContext &context) const;

private:
  struct Entry {
    HeldKey key;
    ProgramContext context;
    uint64_t salt;
    std::shared_ptr<CompiledProgram> program;
    const ProgramKey &program_key() const {
      return key.key;
    }
    int64_t bytes() const {
      return program->bytes + key.bytes();
    }
  };
  static uint64_t hash(const ProgramKey &key, uint64_t salt);

  RecentlyUsed<Entry> entries_;
  std::unordered_set<uint64_t> compiling_;
  int64_t bytes_ = 0;
};

// The process's, under the recorder's lock.
ProgramCache &program_cache();

} // namespace weft::recorder

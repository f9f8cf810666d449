// Compiled programs on disk. Entries are code, so the folder must be the user's own, closed to
// others.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "compiler/backend/Backend.h"
#include "frontend/compile/compiled_program.h"
#include "runtime/core/caches.h"
#include "weft/config.h"

namespace weft::recorder {

// Config::cache_dir, or its default; empty for none.
std::string cache_folder(const Config &config);

// Cheap to make; several processes and threads may use one folder at once.
class DiskCache {
public:
  DiskCache(const Config &config, compiler::Backend &backend);

  // Empty when there is a cache, else "off: REASON".
  const std::string &why_off() const {
    return why_off_;
  }
  // What the folder of this configuration holds, by reading it.
  static runtime::CacheUse use(const Config &config);
  // SHA-256 of the content and of all that decides the code: the sources of this folder, and what
  // the backend says.
  std::string key(const std::string &content) const;

  struct Lookup {
    std::shared_ptr<CompiledProgram> program; // null on a miss
    bool corrupt = false; // there was an entry, damaged or of another make; it is gone now
  };
  Lookup load(const std::string &key);
  // Writes a file beside it and renames it: readers see all of it or nothing. Old entries go when
  // the folder is over its bound, as far as this process knows.
  absl::Status store(const std::string &key, const CompiledProgram &program);

private:
  void trim(int64_t written);

  compiler::Backend &backend_;
  std::string target_key_;
  std::string folder_;
  int64_t bound_;
  std::string why_off_;
};

} // namespace weft::recorder

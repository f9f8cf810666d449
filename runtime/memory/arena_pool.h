// Memory shared by runs that never overlap.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

namespace weft::runtime {

class Buffer;
class Memory;

// The runs of one executor follow each other, so they can all work in one block, as large as the
// largest of them needs: several steps that are queued take no more memory than one.
class ArenaPool {
public:
  ArenaPool();
  ~ArenaPool();
  ArenaPool(const ArenaPool &) = delete;
  ArenaPool &operator=(const ArenaPool &) = delete;

  // A block of at least `bytes` bytes. It is replaced by a larger one when needed; the old one goes
  // when its last run has ended.
  absl::StatusOr<std::shared_ptr<Buffer>> take(Memory &memory, int64_t bytes);
  // Lets the block go.
  void trim();
  int64_t bytes() const;

private:
  mutable std::mutex mutex_;
  std::shared_ptr<Buffer> block_;
};

} // namespace weft::runtime

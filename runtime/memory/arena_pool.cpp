#include "runtime/memory/arena_pool.h"

#include "runtime/core/caches.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {

static const RegisteredCache
    registered("arenas", "a run that needs a larger one; a want of memory; another allocator", [] {
      CacheUse use{0, 0, 0, -1};
      Instances<ArenaPool>::instance().each([&](const ArenaPool *pool) {
        ++use.max_entries;
        int64_t bytes = pool->bytes();
        use.entries += bytes > 0;
        use.bytes += bytes;
      });
      return use;
    });

ArenaPool::ArenaPool() {
  Instances<ArenaPool>::instance().add(this);
}

ArenaPool::~ArenaPool() {
  Instances<ArenaPool>::instance().remove(this);
}

int64_t ArenaPool::bytes() const {
  std::lock_guard lock(mutex_);
  return block_ ? block_->bytes() : 0;
}

absl::StatusOr<std::shared_ptr<Buffer>> ArenaPool::take(Memory &memory, int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (block_ && block_->bytes() >= bytes && block_->memory().get() == &memory)
    return block_;
  block_ = nullptr; // first, so that both need not fit at once
  absl::StatusOr<std::shared_ptr<Buffer>> block = memory.allocate(bytes, "arena");
  if (block.ok())
    block_ = *block;
  return block;
}

void ArenaPool::trim() {
  std::lock_guard lock(mutex_);
  block_ = nullptr;
}

} // namespace weft::runtime

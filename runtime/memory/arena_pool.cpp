#include "runtime/memory/arena_pool.h"

#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {

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

#include "runtime/memory/ordered_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "runtime/memory/buffer.h"

namespace weft::runtime {
namespace {

// Of one size that take() looks at: in a loop the first or the second is free.
constexpr size_t kLooks = 16;

// Not by the purpose's address: one literal may lie at several (AddressSanitizer has it so).
bool is_counted(const std::shared_ptr<Buffer> &buffer) {
  return buffer->bytes() >= OrderedMemory::kOrderedBytes &&
         std::strcmp(buffer->purpose(), OrderedMemory::kPurpose) == 0;
}

} // namespace

void OrderedMemory::hold(const Buffers &buffers) {
  std::unique_lock<std::mutex> lock;
  for (const std::shared_ptr<Buffer> &buffer : buffers) {
    if (!is_counted(buffer))
      continue;
    if (!lock)
      lock = std::unique_lock(mutex_);
    auto [place, is_new] = places_.try_emplace(buffer.get());
    if (is_new) {
      Line &line = lines_[buffer->bytes()];
      place->second = line.insert(line.end(), {buffer, 0});
    }
    ++place->second->times;
  }
}

void OrderedMemory::let_go(Buffers &buffers) {
  Buffers unused; // they end without the lock
  std::unique_lock<std::mutex> lock;
  for (std::shared_ptr<Buffer> &buffer : buffers) {
    if (!is_counted(buffer))
      continue;
    if (!lock)
      lock = std::unique_lock(mutex_);
    auto place = places_.find(buffer.get());
    buffer = nullptr; // under the lock: take() compares how many pointers there are
    if (--place->second->times > 0)
      continue;
    unused.push_back(std::move(place->second->buffer));
    auto line = lines_.find(unused.back()->bytes());
    line->second.erase(place->second);
    if (line->second.empty())
      lines_.erase(line);
    places_.erase(place);
  }
}

std::shared_ptr<Buffer> OrderedMemory::take(const Memory &memory, int64_t bytes) {
  if (bytes < kOrderedBytes)
    return nullptr;
  std::lock_guard lock(mutex_);
  auto found = lines_.find(bytes);
  if (found == lines_.end())
    return nullptr;
  Line &line = found->second;
  for (size_t looks = std::min(line.size(), kLooks); looks > 0; --looks) {
    Held &held = line.front();
    line.splice(line.end(), line, line.begin());
    // Nobody else can make a pointer of none.
    if (held.buffer->memory().get() != &memory || held.buffer.use_count() != held.times + 1)
      continue;
    // What others did with it comes before they let go.
    std::atomic_thread_fence(std::memory_order_acquire);
    ++stats_.buffers;
    stats_.bytes += bytes;
    return held.buffer;
  }
  return nullptr;
}

OrderedMemory::Stats OrderedMemory::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

} // namespace weft::runtime

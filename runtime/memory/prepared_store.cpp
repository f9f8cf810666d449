#include "runtime/memory/prepared_store.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/core/caches.h"
#include "runtime/core/status.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {

static const RegisteredCache registered(
    "prepared results",
    "a write to a source, or its death; a want of memory; the least recently used beyond the bound",
    [] {
      PreparedStats stats = PreparedStore::instance().stats();
      return CacheUse{stats.results, stats.bytes, -1, PreparedStore::instance().max_bytes()};
    });

std::shared_ptr<Buffer> Prepared::block() const {
  std::lock_guard lock(mutex_);
  return block_;
}

bool Prepared::is_of(std::span<Buffer *const> sources) const {
  return std::ranges::equal(key_.second, sources, {}, {}, &Buffer::contents);
}

absl::Status Prepared::compute(Buffer &block, const std::function<absl::Status(void *)> &make,
                               bool &made) {
  made = false;
  if (computed_.load(std::memory_order_acquire))
    return absl::OkStatus();
  std::lock_guard lock(compute_mutex_);
  if (computed_.load(std::memory_order_relaxed))
    return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(make(block.data()));
  made = true;
  computed_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

void Prepared::drop() {
  std::shared_ptr<Prepared> self = shared_from_this(); // the index may hold the last reference
  PreparedStore &store = PreparedStore::instance();
  std::shared_ptr<Buffer> block;
  {
    std::lock_guard lock(store.mutex_);
    if (!is_held_)
      return;
    store.remove(*this);
    ++store.stats_.written;
  }
  std::lock_guard lock(mutex_);
  block = std::move(block_);
}

PreparedStore &PreparedStore::instance() {
  // Never destroyed: buffers in static variables outlive main().
  static PreparedStore *store = new PreparedStore();
  return *store;
}

PreparedStore::PreparedStore() {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  constexpr int64_t kUnknownMachine = int64_t{1} << 30; // a bound where the system does not say
  max_bytes_ = pages > 0 && page > 0 ? pages * page / 4 : kUnknownMachine;
}

void PreparedStore::remove(Prepared &result) {
  // The caller keeps the result alive.
  result.is_held_ = false;
  stats_.bytes -= result.block_ ? result.block_->bytes() : 0;
  --stats_.results;
  order_.erase(result.place_);
  results_.erase(result.key_);
}

std::shared_ptr<Prepared> PreparedStore::use(std::shared_ptr<Prepared> known) {
  order_.splice(order_.begin(), order_, known->place_);
  ++stats_.reused;
  return known;
}

absl::StatusOr<std::shared_ptr<Prepared>>
PreparedStore::take(Memory &memory, const std::string &recipe, std::span<Buffer *const> sources,
                    int64_t bytes, const std::shared_ptr<Prepared> &last) {
  if (last && last->is_of(sources)) {
    std::lock_guard lock(mutex_);
    if (last->is_held_)
      return use(last);
  }
  Prepared::Key key{recipe, {}};
  for (Buffer *source : sources)
    key.second.push_back(source->contents());
  {
    std::lock_guard lock(mutex_);
    if (auto found = results_.find(key); found != results_.end())
      return use(found->second);
    if (bytes > max_bytes_)
      return absl::ResourceExhaustedError(absl::StrCat("a prepared result of ", format_bytes(bytes),
                                                       " is more than the bound of ",
                                                       format_bytes(max_bytes_)));
  }
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> block, memory.allocate(bytes, kPreparedPurpose));
  std::shared_ptr<Prepared> result(new Prepared(std::move(key), std::move(block)));
  std::vector<std::shared_ptr<Prepared>> dropped;
  {
    std::lock_guard lock(mutex_);
    auto [place, fresh] = results_.emplace(result->key_, result);
    if (!fresh)
      return place->second; // another thread was faster
    order_.push_front(result.get());
    result->place_ = order_.begin();
    result->is_held_ = true;
    stats_.bytes += bytes;
    ++stats_.results;
    ++stats_.made;
    while (stats_.bytes > max_bytes_ && order_.back() != result.get()) {
      dropped.push_back(order_.back()->shared_from_this());
      remove(*dropped.back());
      ++stats_.reclaimed;
    }
  }
  free_blocks(dropped);
  for (size_t i = 0; i < sources.size(); ++i)
    sources[i]->add_dependent(result, result->key_.second[i]);
  return result;
}

void PreparedStore::free_blocks(std::span<const std::shared_ptr<Prepared>> dropped) {
  for (const std::shared_ptr<Prepared> &result : dropped) {
    std::shared_ptr<Buffer> block; // its end drops what was made of it, which takes the store's
                                   // mutex: not under the result's
    std::lock_guard lock(result->mutex_);
    block = std::move(result->block_);
  }
}

int64_t PreparedStore::release(const Memory &memory, int64_t bytes) {
  std::vector<std::shared_ptr<Prepared>> dropped;
  int64_t total = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto it = order_.end(); it != order_.begin() && total < bytes;) {
      Prepared &result = **--it;
      std::shared_ptr<Buffer> block = result.block();
      if (!block || block->memory().get() != &memory)
        continue;
      total += block->bytes();
      dropped.push_back(result.shared_from_this());
      auto next = std::next(it);
      remove(result);
      it = next;
      ++stats_.reclaimed;
    }
  }
  free_blocks(dropped);
  return total;
}

PreparedStats PreparedStore::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

int64_t PreparedStore::max_bytes() const {
  std::lock_guard lock(mutex_);
  return max_bytes_;
}

void PreparedStore::set_max_bytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  max_bytes_ = bytes;
}

} // namespace weft::runtime

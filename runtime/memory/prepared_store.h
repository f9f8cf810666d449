// Results that are kept from run to run because their sources seldom change: packed weights, and
// values computed from weights alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/memory/buffer.h"

namespace weft::runtime {

class Memory;

// The purpose under which Memory counts these results.
inline constexpr const char *kPreparedPurpose = "prepared";

// One result: what a recipe makes of the contents of its sources. Made by the first run that needs
// it.
class Prepared : public BufferDependent, public std::enable_shared_from_this<Prepared> {
public:
  // The memory of the result; null once it was dropped. A run that holds the buffer may use it to
  // its end.
  std::shared_ptr<Buffer> block() const;
  // Calls `make` with the block's memory, once, however many threads ask; the others wait. False in
  // `made` for all but the one that did it. After a failure the next one tries again. The caller
  // holds `block`.
  absl::Status compute(Buffer &block, const std::function<absl::Status(void *)> &make, bool &made);
  // Whether the sources still hold what it is made of.
  bool is_of(std::span<Buffer *const> sources) const;
  bool computed() const {
    return computed_.load(std::memory_order_acquire);
  }
  void drop() override;

private:
  friend class PreparedStore;
  using Contents = absl::InlinedVector<uint64_t, 1>; // of the sources
  using Key = std::pair<std::string, Contents>;      // with the recipe
  explicit Prepared(Key key, std::shared_ptr<Buffer> block)
      : key_(std::move(key)), block_(std::move(block)) {}

  const Key key_;
  mutable std::mutex mutex_; // of block_
  std::shared_ptr<Buffer> block_;
  std::mutex compute_mutex_;
  std::atomic<bool> computed_{false};
  // Under the store's mutex:
  bool is_held_ = false;                  // in the store's index
  std::list<Prepared *>::iterator place_; // in its order, then
};

struct PreparedStats {
  int64_t bytes = 0;     // held now
  int64_t results = 0;   // held now
  int64_t made = 0;      // reserved since the start
  int64_t reused = 0;    // found
  int64_t written = 0;   // dropped because a source was written or died
  int64_t reclaimed = 0; // dropped for want of memory, or beyond the bound
};

// All results of the process: found by recipe and by the contents of their sources, so that
// programs of several batch sizes share a packed weight. A result goes when a source is written or
// dies, when an allocation of its memory fails (Memory::allocate asks release()), and, the least
// recently used first, beyond the bound.
class PreparedStore {
public:
  // Holds up to a quarter of the machine's memory. Results are copies of weights in other forms; a
  // machine that the weights alone fill has no room for such copies. Programs that alternate more
  // results compute them again.
  static PreparedStore &instance();

  // The result that `recipe` makes of the sources' contents: a known one, or one of `bytes` bytes
  // that is still to be computed. The sources own their memory (Buffer::memory()).
  // ResourceExhausted when there is no memory, or when it is more than the bound.
  // last: what the caller had of that recipe before, or null: most often it is the result still,
  // and nothing is searched then.
  absl::StatusOr<std::shared_ptr<Prepared>> take(Memory &memory, const std::string &recipe,
                                                 std::span<Buffer *const> sources, int64_t bytes,
                                                 const std::shared_ptr<Prepared> &last = nullptr);
  // Drops results of `memory`, the least recently used first, until the dropped ones held `bytes`
  // bytes. Returns how many bytes they held. A result that a run is using gives its memory back
  // when the run ends.
  int64_t release(const Memory &memory, int64_t bytes);
  PreparedStats stats() const;
  int64_t max_bytes() const;
  // For tests and for machines that are shared.
  void set_max_bytes(int64_t bytes);

private:
  friend class Prepared;
  PreparedStore();
  // Under the mutex: the result as the most recently used one.
  std::shared_ptr<Prepared> use(std::shared_ptr<Prepared> known);
  // Takes it out of the index. Under the mutex; the block is freed by the caller, outside of it.
  void remove(Prepared &result);
  // Of results that were removed. Not under the mutex.
  static void free_blocks(std::span<const std::shared_ptr<Prepared>> removed);

  mutable std::mutex mutex_;
  std::map<Prepared::Key, std::shared_ptr<Prepared>> results_;
  std::list<Prepared *> order_; // most recently used first
  int64_t max_bytes_;
  PreparedStats stats_;
};

} // namespace weft::runtime

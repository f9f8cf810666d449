// Memory of the recorder's small objects. A step of an unrolled network makes some ten thousand of
// them and drops them together, which is the worst case of malloc: it splits and merges what it
// could hand out again as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "frontend/recorder/record/lock.h"

namespace weft::recorder {

// AddressSanitizer is to see each object's life.
#if __has_feature(address_sanitizer)
inline constexpr bool kPools = false;
#else
inline constexpr bool kPools = true;
#endif

struct PoolMemory {
  inline static int64_t bytes = 0; // of all pools
};

// A base of T, whose objects are made and deleted under the recorder's lock: freed ones are kept
// for the next. What the longest record took stays the process's. A thread has up to two batches of
// freed objects for itself, so that threads which record by turns do not hand each other memory
// that the other one's processor has in its cache.
template <typename T> class Pooled {
public:
  static void *operator new(size_t size) {
    if constexpr (!kPools)
      return ::operator new(size);
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && sizeof(T) >= sizeof(Free));
    Mine &mine = mine_;
    if (!mine.free) [[unlikely]]
      refill(mine);
    --mine.count;
    Free *object = std::exchange(mine.free, mine.free->next);
    // What the next record fills was last touched a whole record ago.
    __builtin_prefetch(mine.free, 1);
    return object;
  }
  static void operator delete(void *object) {
    if constexpr (!kPools)
      return ::operator delete(object);
    Mine &mine = mine_;
    if (mine.count == kBatch) [[unlikely]]
      set_aside(mine);
    mine.free = new (object) Free{mine.free};
    ++mine.count;
  }

private:
  static constexpr uint32_t kBatch = 64;
  struct Free {
    Free *next;
    // Of the first of a batch that is everybody's. To count a batch would be to fetch all of its
    // objects into the cache, one after the other.
    Free *next_batch = nullptr;
    uint32_t count = 0;
  };
  struct Mine {
    Free *free = nullptr;
    uint32_t count = kBatch; // so that the first object that the thread frees registers it, too
    Free *full = nullptr;    // a batch, or null
  };
  // At the end of a thread all that it has becomes everybody's. What it frees later stays behind.
  struct Leaving {
    ~Leaving() {
      UnderLock lock;
      Mine &mine = mine_;
      if (mine.full)
        share(std::exchange(mine.full, nullptr), kBatch);
      if (mine.free)
        share(std::exchange(mine.free, nullptr), mine.count);
      mine.count = 0;
    }
  };

  static void share(Free *batch, uint32_t count) {
    batch->count = count;
    batch->next_batch = std::exchange(shared_, batch);
  }
  static void set_aside(Mine &mine) {
    thread_local Leaving leaving;
    if (mine.full && mine.free) {
      UnderLock lock;
      share(mine.full, kBatch);
    }
    if (mine.free)
      mine.full = std::exchange(mine.free, nullptr);
    mine.count = 0;
  }
  static void refill(Mine &mine) {
    if (mine.full) {
      mine.free = std::exchange(mine.full, nullptr);
      mine.count = kBatch;
      return;
    }
    thread_local Leaving leaving;
    UnderLock lock;
    if (shared_) {
      mine.free = std::exchange(shared_, shared_->next_batch);
      mine.count = mine.free->count;
      return;
    }
    PoolMemory::bytes += kBatch * sizeof(T);
    auto *block = static_cast<std::byte *>(::operator new(kBatch * sizeof(T)));
    for (size_t i = kBatch; i-- > 0;)
      mine.free = new (block + i * sizeof(T)) Free{mine.free};
    mine.count = kBatch;
  }

  inline static Free *shared_ = nullptr; // batches
  inline static constinit thread_local Mine mine_{};
};

} // namespace weft::recorder

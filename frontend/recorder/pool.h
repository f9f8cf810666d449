// Memory of the recorder's small objects. A step of an unrolled network makes some ten thousand of
// them and drops them together, which is the worst case of malloc: it splits and merges what it
// could hand out again as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "frontend/recorder/lock.h"

namespace weft::recorder {

// AddressSanitizer is to see each object's life.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kPools = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kPools = false;
#else
inline constexpr bool kPools = true;
#endif
#else
inline constexpr bool kPools = true;
#endif

struct PoolMemory {
  inline static int64_t bytes = 0; // of all pools
};

// A base of T, whose objects are made and deleted under the recorder's lock: freed ones are kept
// for the next. What the longest record took stays the process's.
template <typename T> class Pooled {
public:
  static void *operator new(size_t size) {
    if constexpr (!kPools)
      return ::operator new(size);
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && sizeof(T) >= sizeof(Free));
    UnderLock lock;
    if (!free_)
      grow();
    return std::exchange(free_, free_->next);
  }
  static void operator delete(void *object) {
    if constexpr (!kPools)
      return ::operator delete(object);
    UnderLock lock;
    free_ = new (object) Free{free_};
  }

private:
  struct Free {
    Free *next;
  };
  static void grow() {
    constexpr size_t kObjects = 64;
    PoolMemory::bytes += kObjects * sizeof(T);
    auto *block = static_cast<std::byte *>(::operator new(kObjects * sizeof(T)));
    for (size_t i = kObjects; i-- > 0;)
      free_ = new (block + i * sizeof(T)) Free{free_};
  }
  inline static Free *free_ = nullptr;
};

} // namespace weft::recorder

// Waiting for a moment without giving up the processor.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::runtime {

// How long a thread spins. Long enough to bridge the gap between two submissions of a training
// loop, short enough not to burn a core that has other work.
inline constexpr std::chrono::microseconds kSpin{50};

// Whether a processor is left for a thread that waits while the whole team of threads works; the
// executor sets it. Without one, a spinning thread keeps the thread that it waits for from running,
// for all of kSpin. Sleeping at once then costs two switches on one processor, some 3 us.
inline std::atomic<bool> spinning_pays{false};

// How a thread's last spins ended. A scheduler may put the awaited thread on the processor of the
// thread that woke it, though others are idle. Then each spin is in vain and costs both threads all
// of kSpin (110 us an evaluation instead of 13, on a virtual machine). So after kVain spins in vain
// in a row the thread sleeps at once; each kRetry-th time it tries again.
class SpinHistory {
public:
  static constexpr uint32_t kVain = 4, kRetry = 64;
  bool pays() const {
    return vain_ < kVain || vain_ % kRetry == 0;
  }
  void ended(bool in_time) {
    vain_ = in_time ? 0 : vain_ + 1;
  }

private:
  uint32_t vain_ = 0;
};

// Spins until ready(), for at most kSpin; not at all where spinning does not pay. Returns what
// ready() said last.
template <typename Ready>
bool spin_until(Ready ready, bool pays = spinning_pays.load(std::memory_order_relaxed)) {
  if (ready())
    return true;
  if (!pays)
    return false;
  thread_local SpinHistory history;
  if (!history.pays()) {
    history.ended(false);
    return false;
  }
  auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
#if defined(__x86_64__)
      _mm_pause();
#endif
      if (ready()) {
        history.ended(true);
        return true;
      }
    }
  } while (std::chrono::steady_clock::now() < end);
  history.ended(false);
  return false;
}

} // namespace weft::runtime

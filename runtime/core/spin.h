// Waiting for a moment without giving the processor up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::runtime {

// Long enough to bridge the gap between two submissions of a training loop, short enough not to
// burn a core that has other work.
inline constexpr std::chrono::microseconds kSpin{50};

// Whether there is a processor for a thread that waits while the whole team of threads works; set
// by the executor. Without one, whoever spins keeps the thread that it waits for from running, for
// all of kSpin, where to sleep at once costs two switches on one processor, some 3 us.
inline std::atomic<bool> spinning_pays{false};

// What a thread's spinning has come to. A scheduler may leave the thread that is waited for on the
// processor of the one that woke it, though others are idle: then each spin is in vain, and costs
// both all of kSpin (110 us an evaluation instead of 13, on a virtual machine). So after kVain of
// them in a row the thread sleeps at once, but for each kRetry-th time.
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

// Until ready() or kSpin has passed, or at once where spinning does not pay; what ready() said
// last.
template <typename Ready> bool spin_until(Ready ready) {
  if (ready())
    return true;
  if (!spinning_pays.load(std::memory_order_relaxed))
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

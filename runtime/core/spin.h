// Waiting for a moment without giving the processor up.
#pragma once

#include <atomic>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::runtime {

// Long enough to bridge the gap between two submissions of a training loop, short enough not to burn a core that has other work.
inline constexpr std::chrono::microseconds kSpin{50};

// Whether there is a processor for a thread that waits while the whole team of threads works; set by the executor. Without one, whoever
// spins keeps the thread that it waits for from running, for all of kSpin, where to sleep at once costs two switches on one processor, some
// 3 us.
inline std::atomic<bool> spinning_pays{false};

// Until ready() or kSpin has passed, or at once where spinning does not pay; what ready() said last.
template <typename Ready> bool spin_until(Ready ready) {
  if (ready()) return true;
  if (!spinning_pays.load(std::memory_order_relaxed)) return false;
  auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
#if defined(__x86_64__)
      _mm_pause();
#endif
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

} // namespace weft::runtime

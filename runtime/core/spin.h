// Waiting for a moment without giving the processor up.
#pragma once

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::runtime {

// Long enough to bridge the gap between two submissions of a training loop, short enough not to burn a core that has other work.
inline constexpr std::chrono::microseconds kSpin{50};

// Until ready() or kSpin has passed; what ready() said last.
template <typename Ready> bool spin_until(Ready ready) {
  if (ready()) return true;
  // On a single core whoever is waited for cannot run meanwhile.
  static const bool alone = std::thread::hardware_concurrency() <= 1;
  if (alone) return false;
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

// Waiting for a moment without giving up the processor.
#pragma once

#include <algorithm>
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
// in a row the thread sleeps at once, but for a trial now and then.
//
// Two threads that wait for each other by turns may both sleep, and each has the other wait for the
// time that its wake-up takes, which may be longer than kSpin. Whoever tried alone, or for kSpin,
// would find that spinning does not pay, for ever. So all threads of the process have their trials
// at the same time, by the clock, and spin long enough then for a wake-up.
class SpinHistory {
public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr uint32_t kVain = 4;
  static constexpr std::chrono::milliseconds kTrial{1}, kPeriod{32}; // a trial in each period
  static constexpr std::chrono::microseconds kTrialSpin = 4 * kSpin;
  // How long to spin for what is awaited from now on.
  std::chrono::microseconds patience(Time now) const {
    if (vain_ < kVain)
      return kSpin;
    bool on_trial = now.time_since_epoch() % kPeriod < kTrial;
    return on_trial ? kTrialSpin : std::chrono::microseconds(0);
  }
  // What was awaited came while the thread spun, or not.
  void ended(bool in_time) {
    vain_ = in_time ? 0 : std::min(vain_ + 1, kVain);
  }

private:
  uint32_t vain_ = 0;
};

// Spins until ready(), for as long as the thread's last spins advise; not at all where spinning
// does not pay. Returns what ready() said last.
template <typename Ready>
bool spin_until(Ready ready, bool pays = spinning_pays.load(std::memory_order_relaxed)) {
  if (ready())
    return true;
  if (!pays)
    return false;
  thread_local SpinHistory history;
  auto now = std::chrono::steady_clock::now(), end = now + history.patience(now);
  while (now < end) {
    for (int i = 0; i < 32; ++i) {
#if defined(__x86_64__)
      _mm_pause();
#endif
      if (ready()) {
        history.ended(true);
        return true;
      }
    }
    now = std::chrono::steady_clock::now();
  }
  history.ended(false);
  return false;
}

} // namespace weft::runtime

#include "runtime/threading/spin_limiter.h"

#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "runtime/threading/parallel_for.h"

namespace weft::runtime {

// Where the second team's master waits; its other threads sleep in libgomp, which ends them with their master.
struct SpinLimiter::Parking {
  std::mutex mutex;
  std::condition_variable changed;
  bool parked = false, leave = false;
};

SpinLimiter::~SpinLimiter() { stop(); }

void SpinLimiter::after_run(int threads) {
  auto now = std::chrono::steady_clock::now();
  if (now - last_ < kPeriod) return;
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return;
  int64_t before = preemptions_;
  bool first = last_ == std::chrono::steady_clock::time_point{};
  auto period = now - last_;
  last_ = now;
  preemptions_ = usage.ru_nivcsw;
  // After a pause nothing is known of the time in between.
  if (!first && period < 20 * kPeriod) observe(preemptions_ - before, period, threads);
}

void SpinLimiter::observe(int64_t preemptions, std::chrono::nanoseconds period, int threads) {
  if (threads <= 1) return;
  double per_second = static_cast<double>(preemptions) / std::chrono::duration<double>(period).count();
  if (per_second >= kBusyPerSecond) {
    quiet_ = 0;
    if (!active()) start(threads);
  } else if (per_second > kQuietPerSecond) {
    quiet_ = 0;
  } else if (active() && ++quiet_ >= kQuietPeriods) {
    stop();
  }
}

void SpinLimiter::start(int threads) {
  // With a team of `threads` and this one's, one more than there are processors.
  int processors = available_processors(), others = std::max(processors - threads + 2, 2);
  parking_ = new Parking;
  helper_ = std::thread([parking = parking_, others] {
    parallel_for(others, 1, others, [](void *, int, int64_t, int64_t) { return int32_t{0}; }, nullptr);
    std::unique_lock lock(parking->mutex);
    parking->parked = true;
    parking->changed.notify_all();
    parking->changed.wait(lock, [&] { return parking->leave; });
  });
  std::unique_lock lock(parking_->mutex);
  parking_->changed.wait(lock, [&] { return parking_->parked; });
}

void SpinLimiter::stop() {
  if (!active()) return;
  {
    std::lock_guard lock(parking_->mutex);
    parking_->leave = true;
    parking_->changed.notify_all();
  }
  helper_.join();
  delete parking_;
  parking_ = nullptr;
  quiet_ = 0;
}

} // namespace weft::runtime

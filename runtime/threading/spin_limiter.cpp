#include "runtime/threading/spin_limiter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "runtime/threading/parallel_for.h"

namespace weft::runtime {

// Where the second team's master waits; its other threads sleep in libgomp, which ends them with their master.
struct SpinLimiter::Parking {
  std::mutex mutex;
  std::condition_variable changed;
  bool parked = false, leave = false;
};

namespace {

// The processors' time that was not idle since the machine started, other machines' part of a shared processor included; -1 if not known.
int64_t machine_nanoseconds() {
  std::FILE *file = std::fopen("/proc/stat", "re");
  if (!file) return -1;
  long long user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen;
  int found = std::fscanf(file, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &user, &nice, &system, &idle, &waiting, &interrupts,
                          &soft_interrupts, &stolen);
  std::fclose(file);
  long ticks = sysconf(_SC_CLK_TCK);
  if (found != 8 || ticks <= 0) return -1;
  return (user + nice + system + interrupts + soft_interrupts + stolen) * (1'000'000'000 / ticks);
}

} // namespace

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
  if (now - last_look_ >= kLookPeriod) look_at_others(now, usage, threads);
  // After a pause nothing is known of the time in between.
  if (!first && period < 20 * kPeriod) observe(others_ ? preemptions_ - before : 0, period, threads);
}

void SpinLimiter::look_at_others(std::chrono::steady_clock::time_point now, const rusage &usage, int threads) {
  auto nanoseconds = [](const timeval &time) { return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1'000; };
  int64_t machine = machine_nanoseconds(), own = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
  auto period = std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_look_).count();
  // The other threads of the team are as busy as this one, or less. Where the machine does not say, any preemption counts.
  if (machine < 0) others_ = true;
  else if (last_look_ != std::chrono::steady_clock::time_point{} && now - last_look_ < 20 * kLookPeriod)
    others_ = static_cast<double>(machine - machine_ - threads * (own - own_)) > kOthersShare * static_cast<double>(period);
  last_look_ = now;
  machine_ = machine;
  own_ = own;
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

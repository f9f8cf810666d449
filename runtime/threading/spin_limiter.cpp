#include "runtime/threading/spin_limiter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <utility>

#include "runtime/threading/parallel_for.h"

namespace weft::runtime {

// What the master of the second team waits on. The team's other threads sleep inside libgomp, which
// ends them with their master.
struct SpinLimiter::Parking {
  std::mutex mutex;
  std::condition_variable changed;
  bool parked = false, leave = false;
};

namespace {

// Nanoseconds that processors were not idle since the machine started, time taken by other virtual
// machines included; -1 if not known.
int64_t machine_nanoseconds() {
  std::FILE *file = std::fopen("/proc/stat", "re");
  if (!file)
    return -1;
  long long user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen;
  int found = std::fscanf(file, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &user, &nice,
                          &system, &idle, &waiting, &interrupts, &soft_interrupts, &stolen);
  std::fclose(file);
  long ticks = sysconf(_SC_CLK_TCK);
  if (found != 8 || ticks <= 0)
    return -1;
  return (user + nice + system + interrupts + soft_interrupts + stolen) * (1'000'000'000 / ticks);
}

int64_t nanoseconds(const rusage &usage) {
  auto of = [](const timeval &time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1'000;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

int64_t process_nanoseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return nanoseconds(usage);
}

} // namespace

SpinLimiter::~SpinLimiter() {
  stop();
}

SpinLimiter::Counters SpinLimiter::counters(bool of_process) {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {usage.ru_nivcsw, nanoseconds(usage), of_process ? process_nanoseconds() : -1};
}

void SpinLimiter::before_run() {
  run_start_ = std::chrono::steady_clock::now();
  if (run_start_ - run_end_ > kPause)
    sampling_ = false;
  if (!sampling_ && run_start_ - sample_start_ >= kSampleEvery)
    start_sample(run_start_);
  before_ = counters(long_runs_);
}

void SpinLimiter::after_run(int threads) {
  auto now = std::chrono::steady_clock::now();
  run_end_ = now;
  long_runs_ = now - run_start_ >= kLongRun;
  Counters after = counters(before_.process >= 0);
  preemptions_ += after.preemptions - before_.preemptions;
  if (after.process >= 0) {
    run_ += std::chrono::nanoseconds(now - run_start_).count();
    // An upper bound of the team's time: its other threads are at most as busy as this one.
    beside_ +=
        (after.process - before_.process) - threads * (after.nanoseconds - before_.nanoseconds);
  }
  if (sampling_ && now - sample_start_ >= kSample)
    end_sample(now);
  auto period = now - last_;
  if (period < kPeriod)
    return;
  int64_t preemptions = std::exchange(preemptions_, 0);
  bool first = std::exchange(last_, now) == std::chrono::steady_clock::time_point{};
  // A long pause says nothing about the time in between.
  if (!first && period < 20 * kPeriod)
    observe(others_ ? preemptions : 0, period, threads);
}

void SpinLimiter::start_sample(std::chrono::steady_clock::time_point now) {
  sample_start_ = now;
  machine_ = machine_nanoseconds();
  process_ = process_nanoseconds();
  // If the machine's counters cannot be read, any preemption counts.
  if (machine_ < 0)
    others_ = true;
  sampling_ = machine_ >= 0;
}

void SpinLimiter::end_sample(std::chrono::steady_clock::time_point now) {
  sampling_ = false;
  sampled_ += std::chrono::nanoseconds(now - sample_start_).count();
  by_others_ += (machine_nanoseconds() - machine_) - (process_nanoseconds() - process_);
  auto is_share = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) > kOthersShare * static_cast<double>(whole);
  };
  bool surely = is_share(by_others_ - std::chrono::nanoseconds(kMachineStep).count(), sampled_);
  if (!surely && sampled_ < std::chrono::nanoseconds(kSampled).count())
    return;
  others_ = surely || is_share(by_others_, sampled_) || is_share(beside_, run_);
  sampled_ = by_others_ = run_ = beside_ = 0;
  if (!others_)
    stop();
}

void SpinLimiter::observe(int64_t preemptions, std::chrono::nanoseconds period, int threads) {
  if (threads <= 1)
    return;
  double per_second =
      static_cast<double>(preemptions) / std::chrono::duration<double>(period).count();
  if (per_second >= kBusyPerSecond) {
    quiet_ = 0;
    if (!active())
      start(threads);
  } else if (per_second > kQuietPerSecond) {
    quiet_ = 0;
  } else if (active() && ++quiet_ >= kQuietPeriods) {
    stop();
  }
}

void SpinLimiter::start(int threads) {
  // The second team makes libgomp manage one thread more than there are processors.
  int processors = available_processors(), others = std::max(processors - threads + 2, 2);
  parking_ = new Parking;
  helper_ = std::thread([parking = parking_, others] {
    parallel_for(
        others, 1, others, [](void *, int, int64_t, int64_t) { return int32_t{0}; }, nullptr);
    std::unique_lock lock(parking->mutex);
    parking->parked = true;
    parking->changed.notify_all();
    parking->changed.wait(lock, [&] { return parking->leave; });
  });
  std::unique_lock lock(parking_->mutex);
  parking_->changed.wait(lock, [&] { return parking_->parked; });
}

void SpinLimiter::stop() {
  if (!active())
    return;
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

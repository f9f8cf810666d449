// How long the team of threads spins, on a machine that others use as well.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace weft::runtime {

// libgomp's threads spin for some 15 ms at a barrier (300,000 pauses) before they sleep. That is right where every thread has a processor;
// where another process takes one, whoever spins there keeps the thread that it waits for from running, and a step of 75 ms takes seconds.
// The settings for it (GOMP_SPINCOUNT, OMP_WAIT_POLICY) are read when the library loads, before any code of ours runs, ahead of time or
// not. But libgomp spins for 100 pauses only while it manages more threads than there are processors. So: while this thread is often pushed
// off its processor, a second team stands by, asleep, which makes them more.
class SpinLimiter {
public:
  SpinLimiter() = default;
  // Sends the second team home.
  ~SpinLimiter();
  SpinLimiter(const SpinLimiter &) = delete;
  SpinLimiter &operator=(const SpinLimiter &) = delete;

  // To be called by the thread that owns the team, after each run; looks at the clock, and at the thread's counters every kPeriod.
  void after_run(int threads);
  // Whether spinning is limited now.
  bool active() const { return helper_.joinable(); }

  // What decides, apart from clocks and counters: `preemptions` in `period`, of a thread whose team has `threads`. Tests call it.
  void observe(int64_t preemptions, std::chrono::nanoseconds period, int threads);

  // Long enough to tell, short enough that a disturbed loop is soon better.
  static constexpr std::chrono::milliseconds kPeriod{50};
  // Preemptions a second. A machine of one's own has a few (its daemons); a neighbour on the same processor brings one each few
  // milliseconds.
  static constexpr int64_t kBusyPerSecond = 60, kQuietPerSecond = 10;
  // Threads of a program wake each other, and push each other off a processor for a moment: preemptions count only while others than the
  // team have at least this share of one processor, looked at every so often (the machine counts in steps of 10 ms).
  static constexpr double kOthersShare = 0.25;
  static constexpr std::chrono::milliseconds kLookPeriod{250};
  // Periods that must be quiet before spinning is as usual again.
  static constexpr int kQuietPeriods = 4;

private:
  void look_at_others(std::chrono::steady_clock::time_point now, const rusage &usage, int threads);
  void start(int threads);
  void stop();

  std::chrono::steady_clock::time_point last_{};
  int64_t preemptions_ = 0;
  std::chrono::steady_clock::time_point last_look_{};
  int64_t machine_ = 0, own_ = 0; // nanoseconds of processors, when they were last looked at
  bool others_ = false;
  int quiet_ = 0;
  std::thread helper_;
  struct Parking;
  Parking *parking_ = nullptr;
};

} // namespace weft::runtime

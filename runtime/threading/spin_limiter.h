// How long the team of threads spins, on a machine that others use as well.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace weft::runtime {

// libgomp's threads spin for some 15 ms at a barrier (300,000 pauses) before they sleep. That is
// right where every thread has a processor; where another process takes one, whoever spins there
// keeps the thread that it waits for from running, and a step of 75 ms takes seconds. The settings
// for it (GOMP_SPINCOUNT, OMP_WAIT_POLICY) are read when the library loads, before any code of ours
// runs, ahead of time or not. But libgomp spins for 100 pauses only while it manages more threads
// than there are processors. So: while this thread is often pushed off its processor, a second team
// stands by, asleep, which makes them more.
class SpinLimiter {
public:
  SpinLimiter() = default;
  // Sends the second team home.
  ~SpinLimiter();
  SpinLimiter(const SpinLimiter &) = delete;
  SpinLimiter &operator=(const SpinLimiter &) = delete;

  // To be called by the thread that owns the team, around each run: they look at the thread's
  // counters, and every kPeriod decide.
  void before_run();
  void after_run(int threads);
  // Whether spinning is limited now.
  bool active() const {
    return helper_.joinable();
  }

  // What decides, apart from clocks and counters: `preemptions` in `period`, of a thread whose team
  // has `threads`. Tests call it.
  void observe(int64_t preemptions, std::chrono::nanoseconds period, int threads);

  // Long enough to tell, short enough that a disturbed loop is soon better.
  static constexpr std::chrono::milliseconds kPeriod{50};
  // Preemptions a second, during runs: between them a caller and this thread wake each other. A
  // machine of one's own has a few (its daemons); a neighbour on the same processor brings one each
  // few milliseconds.
  static constexpr int64_t kBusyPerSecond = 60, kQuietPerSecond = 10;
  // Threads of a program push each other off a processor for a moment, too (a team that sleeps at
  // its barriers most of all): preemptions count only while others have at least this share of one
  // processor: a neighbour that never rests has two thirds or more, a program that works in turns
  // with this one spins into its turn for some 15 ms. Others are other processes and, during runs
  // of at least kLongRun, threads of this one that are not of the team.
  static constexpr double kOthersShare = 0.5;
  static constexpr std::chrono::milliseconds kLongRun{1};
  // What others have is seen in samples of at least kSample, at most one each kSampleEvery (the
  // machine counts for some 20 us), and told anew from kSampled of them, or from the first that
  // leaves no doubt: the machine counts in steps. A sample has no pause between runs in it: who
  // works in turns with this program does not disturb it.
  static constexpr std::chrono::milliseconds kSample{40}, kSampleEvery{80}, kSampled{120},
      kPause{5}, kMachineStep{10};
  // Periods that must be quiet before spinning is as usual again, while others are there; at once
  // when they have gone.
  static constexpr int kQuietPeriods = 4;

private:
  void start_sample(std::chrono::steady_clock::time_point now);
  void end_sample(std::chrono::steady_clock::time_point now);
  void start(int threads);
  void stop();

  struct Counters {
    int64_t preemptions = 0, nanoseconds = 0; // of the thread
    int64_t process = -1;                     // nanoseconds of the process; -1 where not looked at
  };
  static Counters counters(bool of_process);

  std::chrono::steady_clock::time_point last_{}, run_start_{}, run_end_{};
  Counters before_;         // the run under way
  bool long_runs_ = false;  // the last one was
  int64_t preemptions_ = 0; // in runs, since last_
  bool sampling_ = false;
  std::chrono::steady_clock::time_point sample_start_{};
  int64_t machine_ = 0, process_ = 0; // nanoseconds of processors, when the sample started
  int64_t sampled_ = 0,
          by_others_ =
              0; // nanoseconds of samples, and what other processes had of processors in them
  int64_t run_ = 0, beside_ = 0; // the same, of long runs and threads beside the team
  bool others_ = false;
  int quiet_ = 0;
  std::thread helper_;
  struct Parking;
  Parking *parking_ = nullptr;
};

} // namespace weft::runtime

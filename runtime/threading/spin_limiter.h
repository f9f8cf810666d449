// How long the team of threads spins, on a machine that others use as well.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace weft::runtime {

// Limits spinning at libgomp's barriers while other processes use the machine. libgomp's threads
// spin for some 15 ms (300,000 pauses) before they sleep. That is right where each thread has a
// processor. Where another process takes one, the spinning threads keep the thread that they wait
// for from running, and a step of 75 ms takes seconds. The settings for it (GOMP_SPINCOUNT,
// OMP_WAIT_POLICY) are read when the library loads, before any code of Weft runs. But libgomp spins
// for 100 pauses only while it manages more threads than there are processors. So while the team's
// thread is often pushed off its processor, a second team stands by, asleep: it makes the threads
// more.
class SpinLimiter {
public:
  SpinLimiter() = default;
  // Ends the second team.
  ~SpinLimiter();
  SpinLimiter(const SpinLimiter &) = delete;
  SpinLimiter &operator=(const SpinLimiter &) = delete;

  // Called around each run by the thread that owns the team. They read the thread's counters, and
  // decide every kPeriod.
  void before_run();
  void after_run(int threads);
  // Whether spinning is limited now.
  bool active() const {
    return helper_.joinable();
  }

  // The decision itself, without clocks and counters: this thread was preempted `preemptions` times
  // in `period`, and its team has `threads`. Tests call it.
  void observe(int64_t preemptions, std::chrono::nanoseconds period, int threads);

  // Long enough to tell, short enough that a disturbed loop is soon better.
  static constexpr std::chrono::milliseconds kPeriod{50};
  // Preemptions a second, counted during runs only: between runs a caller and this thread wake each
  // other. A machine without other load has a few (its daemons); a neighbour on the same processor
  // causes one each few milliseconds.
  static constexpr int64_t kBusyPerSecond = 60, kQuietPerSecond = 10;
  // Threads of one program push each other off a processor at times, too, most of all in a team
  // that sleeps at its barriers. So preemptions count only while others have at least this share of
  // one processor. A neighbour that never rests has two thirds or more; a program that takes turns
  // with this one spins into its turn for some 15 ms. Others are other processes and, during runs
  // of at least kLongRun, threads of this process outside of the team.
  static constexpr double kOthersShare = 0.5;
  static constexpr std::chrono::milliseconds kLongRun{1};
  // What others have is measured in samples of at least kSample, one each kSampleEvery at most, as
  // reading the machine's counters takes some 20 us. It is judged anew after kSampled of samples,
  // or from the first sample that leaves no doubt; the machine counts in steps of kMachineStep. A
  // sample has no pause between runs in it: a program that takes turns with this one does not
  // disturb it.
  static constexpr std::chrono::milliseconds kSample{40}, kSampleEvery{80}, kSampled{120},
      kPause{5}, kMachineStep{10};
  // Quiet periods after which spinning is as usual again, while others are still there; if they
  // have gone, at once.
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

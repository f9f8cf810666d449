// The record of an evaluation, shared by the values that it computed.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "compiler/backend/CompileReport.h"
#include "frontend/recorder/programs/find_program.h"
#include "runtime/executable/executable.h"
#include "weft/explain.h"

namespace weft::recorder {

enum class RunState : uint8_t {
  kUnderWay,
  kDone,
  kFailed,     // the inputs that it keeps are what they were
  kFailedLate, // after it may have written them
  kSkipped,    // it did not start, since an input was lost
};

// A storage that a run gives a new value, and what it goes back to.
struct Undo {
  WeakRef now;
  Before before;
  std::shared_ptr<runtime::Buffer> memory; // of `before`; under the record's mutex
};

// Of the calling thread, and of no other one.
uint64_t number_of_thread();

// run_ms, failure and state are written by the thread that runs the program, everything else before
// it is launched or under the recorder's lock.
class EvaluationRecord {
public:
  Evaluation data;
  bool print = false;
  std::shared_ptr<const compiler::CompileReport> report; // whose remarks become the notes
  const uint64_t thread = number_of_thread();            // that asked for it
  bool may_fail = false; // it checks indices, or reads results of a run that does and has not ended
  MovedPlaces moved_places;
  // Not OK once it has failed and somebody was told: what it computed is lost, unless it went back
  // (undo.h).
  absl::Status loss;
  bool told = false; // a caller was given the failure as its error
  // A failure, and whether somebody was told of it, or is about to be. One for all that it
  // concerns: the runs of one thread that failed, those that were skipped since, and what went
  // back, whose next reader is told.
  struct Notice {
    absl::Status failure;
    bool heard;
  };
  std::shared_ptr<Notice> notice;
  std::vector<Undo> undo; // changes in number before the run and after it only

  using Clock = std::chrono::steady_clock;
  void finish(Clock::time_point began, const absl::Status &status,
              const runtime::PreparedUse &prepared);
  // The run is over, or never was.
  void end();
  RunState state() const {
    return state_.load(std::memory_order_acquire);
  }
  absl::Status failure() const;
  // The memory that goes back to storages if the run fails; none of it once the run has succeeded.
  std::vector<const runtime::Buffer *> kept_memory() const;
  bool failed() const {
    return state() > RunState::kDone;
  }
  // A copy, with what is known of the run by now.
  Evaluation snapshot() const;

private:
  mutable std::mutex mutex_;
  absl::Status failure_; // of a run that has ended
  std::atomic<RunState> state_{RunState::kUnderWay};
};

// Keeps it among the recent ones.
void keep(std::shared_ptr<EvaluationRecord> record);

// What a program's memory holds, as explain and estimates say it.
struct HeldMemory {
  std::vector<MemoryHolder> holders; // at the peak
  std::vector<int64_t> live_bytes;   // over a run
};
// What the plan says; to the holders comes the rest, where a run takes more than the plan
// (`whole`). Empty where it takes less: the plan is one for larger sizes.
HeldMemory held_memory(const compiler::PlanReport &plan, int64_t whole);

} // namespace weft::recorder

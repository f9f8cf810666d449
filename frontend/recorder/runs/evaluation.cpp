#include "frontend/recorder/runs/evaluation.h"

#include <iostream>

#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/runs/memory_holders.h"
#include "runtime/core/caches.h"
#include "runtime/executable/run_failure.h"

namespace weft::recorder {

std::deque<std::shared_ptr<EvaluationRecord>> &recent_records() {
  static auto *records = new std::deque<std::shared_ptr<EvaluationRecord>>;
  return *records;
}

static const runtime::RegisteredCache registered("evaluations", "the next evaluation", [] {
  return runtime::CacheUse{static_cast<int64_t>(recent_records().size()), -1,
                           static_cast<int64_t>(kLimits.evaluations), -1};
});

// An evaluation with what its compilation said, which may be null.
static Evaluation with(const compiler::CompileReport *report, Evaluation data) {
  if (!report)
    return data;
  data.notes.insert(data.notes.end(), report->remarks.begin(), report->remarks.end());
  HeldMemory held = held_memory(report->plan, data.planned_peak_bytes);
  data.peak_holders = std::move(held.holders);
  data.live_bytes = std::move(held.live_bytes);
  return data;
}

void EvaluationRecord::finish(Clock::time_point began, const absl::Status &status,
                              const runtime::PreparedUse &prepared) {
  // What the run kept in case it failed goes after the lock.
  std::vector<std::shared_ptr<runtime::Buffer>> kept;
  std::lock_guard<std::mutex> lock(mutex_);
  RunState ended = status.ok()                        ? RunState::kDone
                   : runtime::has_kept_inputs(status) ? RunState::kFailed
                                                      : RunState::kFailedLate;
  if (status.ok())
    for (Undo &each : undo)
      kept.push_back(std::move(each.memory));
  state_.store(ended, std::memory_order_release);
  data.prepared_results = prepared.results;
  data.prepared_bytes = prepared.bytes;
  data.prepared_computed = prepared.computed;
  data.prepared_waiting = prepared.waiting;
  data.prepared_refused = prepared.refused;
  auto milliseconds = [](Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  static const Clock::time_point origin = began;
  data.began_ms = milliseconds(began - origin);
  data.run_ms = milliseconds(Clock::now() - began);
  data.failure = std::string(status.message());
  failure_ = status;
  // One write, so that lines of several threads do not mix.
  if (print)
    std::cerr << with(report.get(), data).to_string() + "\n";
}

std::vector<const runtime::Buffer *> EvaluationRecord::kept_memory() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const runtime::Buffer *> memory;
  for (const Undo &each : undo)
    memory.push_back(each.memory.get());
  return memory;
}

void EvaluationRecord::end() {
  RunState under_way = RunState::kUnderWay;
  state_.compare_exchange_strong(under_way, RunState::kSkipped, std::memory_order_acq_rel);
}

absl::Status EvaluationRecord::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

Evaluation EvaluationRecord::snapshot() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return with(report.get(), data);
}

void keep(std::shared_ptr<EvaluationRecord> record) {
  recent_records().push_back(std::move(record));
  if (recent_records().size() > kLimits.evaluations)
    recent_records().pop_front();
}

} // namespace weft::recorder

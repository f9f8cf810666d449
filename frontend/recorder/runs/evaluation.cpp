#include "frontend/recorder/runs/evaluation.h"

#include <algorithm>
#include <functional>
#include <iostream>

#include "frontend/recorder/record/state.h"
#include "runtime/core/caches.h"
#include "runtime/executable/run_failure.h"

namespace weft::recorder {

uint64_t number_of_thread() {
  static std::atomic<uint64_t> threads = 0;
  static thread_local const uint64_t number = ++threads;
  return number;
}

static const runtime::RegisteredCache registered("evaluations", "the next evaluation", [] {
  return runtime::CacheUse{std::ssize(recorder().evaluations), -1,
                           static_cast<int64_t>(kLimits.evaluations), -1};
});

HeldMemory held_memory(const compiler::PlanReport &plan, int64_t whole) {
  std::vector<MemoryHolder> holders;
  int64_t sum = 0;
  for (const compiler::PeakPart &part : plan.peakParts) {
    holders.push_back({part.bytes, part.what, part.line, part.module});
    sum += part.bytes;
  }
  if (holders.empty() || sum > whole)
    return {};
  if (sum < whole)
    holders.push_back({whole - sum, "scratch of threads, alignment", "", ""});
  std::ranges::stable_sort(holders, std::greater<>(), &MemoryHolder::bytes);
  return {std::move(holders), plan.liveBytes};
}

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
  auto &recent = recorder().evaluations;
  recent.push_back(std::move(record));
  if (recent.size() > kLimits.evaluations)
    recent.pop_front();
}

} // namespace weft::recorder

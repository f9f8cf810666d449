#include "weft/explain.h"

#include <algorithm>
#include <iostream>

#include "frontend/recorder/evaluation.h"
#include "frontend/recorder/limits.h"
#include "frontend/recorder/memory_holders.h"
#include "frontend/recorder/program_cache.h"
#include "frontend/recorder/state.h"
#include "frontend/tensor/impl.h"
#include "runtime/core/caches.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/prepared_store.h"

namespace weft {

namespace recorder {

static const runtime::RegisteredCache registered("evaluations", "the next evaluation", [] {
  return runtime::CacheUse{static_cast<int64_t>(recorder().evaluations.size()), -1,
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
  Recorder &r = recorder();
  r.evaluations.push_back(std::move(record));
  if (r.evaluations.size() > kLimits.evaluations)
    r.evaluations.pop_front();
}

} // namespace recorder

Evaluation explain(const Tensor &tensor, Location location) {
  recorder::Session session("explain", location);
  recorder::Var x = recorder::read(tensor, "tensor");
  recorder::Value *value = x.value.get();
  recorder::submit({&value, 1}, {CutReason::kEval, location});
  if (!value->evaluation)
    return Evaluation();
  recorder::wait_for(value, location);
  return value->evaluation->snapshot();
}

std::vector<Evaluation> recent_evaluations() {
  recorder::Session session("recent_evaluations", Location::current());
  std::vector<Evaluation> result;
  for (const auto &record : recorder::recorder().evaluations)
    result.push_back(record->snapshot());
  return result;
}

Statistics statistics() {
  recorder::Session session("statistics", Location::current());
  recorder::Recorder &r = recorder::recorder();
  Statistics result = r.statistics;
  result.live_ops = r.live_ops;
  result.cache_entries = r.cache->entries();
  result.cache_bytes = r.cache->bytes();
  runtime::PreparedStats prepared = runtime::PreparedStore::instance().stats();
  result.prepared_results = static_cast<uint64_t>(prepared.results);
  result.prepared_bytes = static_cast<uint64_t>(prepared.bytes);
  result.prepared_made = static_cast<uint64_t>(prepared.made);
  result.prepared_written = static_cast<uint64_t>(prepared.written);
  result.prepared_reclaimed = static_cast<uint64_t>(prepared.reclaimed);
  return result;
}

std::vector<CacheState> caches() {
  recorder::Session session("caches", Location::current());
  std::vector<CacheState> result;
  for (const runtime::Cache &cache : runtime::CacheList::instance().all()) {
    runtime::CacheUse use = cache.use();
    result.push_back(
        {cache.name, use.entries, use.bytes, use.max_entries, use.max_bytes, cache.freed});
  }
  std::sort(result.begin(), result.end(),
            [](const CacheState &a, const CacheState &b) { return a.name < b.name; });
  return result;
}

} // namespace weft

#include "weft/explain.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>

#include "frontend/recorder/evaluation.h"
#include "frontend/recorder/limits.h"
#include "frontend/recorder/memory_holders.h"
#include "frontend/recorder/program_cache.h"
#include "frontend/recorder/state.h"
#include "frontend/tensor/impl.h"
#include "runtime/core/caches.h"
#include "runtime/executable/live_bars.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/prepared_store.h"

namespace weft {

// Of a new program's notes, those that its line has: what the user asked for and did not get, and
// what the user's passes say.
static bool is_for_the_line(const std::string &note) {
  auto has = [&](const char *text) {
    return note.find(text) != std::string::npos;
  };
  return has("pin-not-taken: ") || has("pin-without-kernel: ") || has("; it is not reached: ") ||
         note.starts_with("pass '") || note.starts_with("kernel pass '");
}

const char *name(CutReason reason) {
  static constexpr const char *kNames[] = {"value", "eval",  "step", "init",  "ops",
                                           "bytes", "eager", "jit",  "write", "mask"};
  static_assert(std::size(kNames) == static_cast<size_t>(CutReason::kMask) + 1);
  return kNames[static_cast<size_t>(reason)];
}

std::string Evaluation::to_string() const {
  auto milliseconds = [](double ms) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f ms", ms < 10 ? 2 : 0, ms);
    return std::string(text);
  };
  auto when = [&] {
    std::string text;
    for (uint64_t each : exchanges)
      text += (text.empty() ? " | after #" : " #") + std::to_string(each);
    char began[48];
    std::snprintf(began, sizeof began, " | began %.3f ms", began_ms);
    return run_ms < 0 ? text : text + began;
  };
  // The module that holds most, by what its parts sum to.
  auto most = [&] {
    std::map<std::string, int64_t> modules;
    for (const MemoryHolder &holder : peak_holders)
      if (!holder.module.empty())
        modules[holder.module] += holder.bytes;
    auto largest =
        std::ranges::max_element(modules, {}, [](const auto &each) { return each.second; });
    return largest == modules.end() ? std::string()
                                    : " (" + std::to_string(largest->second) +
                                          " B of it in module " + largest->first + ")";
  };
  std::string text = "weft #" + std::to_string(number) + " " + weft::name(reason) + " " + file +
                     ":" + std::to_string(line) + " | ";
  if (!exchange.empty())
    return text + exchange + " | " + std::to_string(exchanged_bytes) + " B, " +
           (run_ms < 0 ? "under way" : milliseconds(run_ms)) + when() +
           (failure.empty() ? "" : " | FAILED: " + failure);
  if (!device.empty() && device != "cpu:0")
    text += "on " + device + " | ";
  text += std::to_string(ops) + " ops -> " + std::to_string(kernels) + " kernels, " +
          std::to_string(library_calls) + " library calls | " + std::to_string(inputs) + " in, " +
          std::to_string(outputs) + " out, " +
          (temporaries > 0 ? std::to_string(temporaries) + " temporaries, " : "") +
          std::to_string(donated) + " donated | ";
  switch (outcome) {
  case CacheOutcome::kMemoryHit:
    text += symbolic.empty() ? "hit" : "hit (symbolic, " + symbolic + ")";
    break;
  case CacheOutcome::kDiskHit:
    text += "disk hit in " + milliseconds(compile_ms) + " (miss: " + difference + ")";
    break;
  case CacheOutcome::kCompiled:
    text += "MISS: " + difference + ", compiled in " + milliseconds(compile_ms);
    break;
  }
  text += " | slice " + milliseconds(record_ms) + ", run " +
          (run_ms < 0 ? "under way" : milliseconds(run_ms)) + " | " + std::to_string(output_bytes) +
          " B out, peak " + std::to_string(planned_peak_bytes) + " B" + most() +
          (recomputations > 0 ? ", " + std::to_string(recomputations) + " run again" : "") +
          (stored_bytes > 0 ? ", " + std::to_string(stored_bytes) + " B in files" : "") + when();
  if (prepared_results > 0)
    text += std::string(" | prepared: ") +
            (prepared_computed > 0 ? "computed " + std::to_string(prepared_computed) + " of "
                                   : "reused ") +
            std::to_string(prepared_results) + ", " + std::to_string(prepared_bytes) + " B";
  if (prepared_waiting > 0)
    text += " | " + std::to_string(prepared_waiting) + " operands are packed after a few runs";
  if (prepared_refused > 0)
    text += " | no memory to pack " + std::to_string(prepared_refused) + " operands";
  if (outcome != CacheOutcome::kMemoryHit && !disk_cache.empty())
    text += " | disk cache " + disk_cache;
  if (outcome != CacheOutcome::kMemoryHit && !symbolic.empty())
    text += " | symbolic: " + symbolic;
  if (!not_symbolic.empty())
    text += " | not symbolic: " + not_symbolic;
  if (outcome != CacheOutcome::kMemoryHit && live_bytes.size() >= recorder::kLimits.charted_points)
    text += " | live " + runtime::live_bars(live_bytes, recorder::kLimits.chart_columns) + " " +
            runtime::live_range(live_bytes);
  if (outcome != CacheOutcome::kMemoryHit)
    for (const std::string &note : notes)
      if (is_for_the_line(note))
        text += " | " + note;
  if (!failure.empty())
    text += " | FAILED: " + failure;
  return text;
}

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

std::string CacheState::to_string() const {
  auto amount = [](int64_t now, int64_t most, const char *unit) {
    std::string text = now < 0 ? "? " : std::to_string(now) + " ";
    if (most >= 0)
      text += "of " + std::to_string(most) + " ";
    return text + unit;
  };
  return name + ": " + amount(entries, max_entries, "entries") + ", " +
         amount(bytes, max_bytes, "bytes") + "; freed by: " + freed;
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

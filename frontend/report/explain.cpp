#include "weft/explain.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "frontend/report/limits.h"
#include "runtime/executable/live_bars.h"

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
  if (outcome != CacheOutcome::kMemoryHit && live_bytes.size() >= report::kLimits.charted_points)
    text += " | live " + runtime::live_bars(live_bytes, report::kLimits.chart_columns) + " " +
            runtime::live_range(live_bytes);
  if (outcome != CacheOutcome::kMemoryHit)
    for (const std::string &note : notes)
      if (is_for_the_line(note))
        text += " | " + note;
  if (!failure.empty())
    text += " | FAILED: " + failure;
  return text;
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

} // namespace weft

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "runtime/executable/live_bars.h"
#include "weft/explain.h"
#include "weft/jit.h"

namespace weft {

std::string memory_table(const std::vector<MemoryHolder> &holders, int64_t rows) {
  using Row = std::pair<int64_t, std::string>;
  int64_t whole = 0;
  for (const MemoryHolder &holder : holders)
    whole += holder.bytes;
  std::string text;
  auto add = [&](const char *title, std::vector<Row> all) {
    std::ranges::stable_sort(all, std::greater<>(), &Row::first);
    size_t shown = rows > 0 ? std::min(all.size(), static_cast<size_t>(rows)) : all.size();
    int64_t rest = 0;
    for (size_t i = shown; i < all.size(); ++i)
      rest += all[i].first;
    if (shown < all.size())
      all[shown] = {rest, "and " + std::to_string(all.size() - shown) + " more"};
    text += std::string(title) + "\n";
    for (size_t i = 0; i < std::min(shown + 1, all.size()); ++i) {
      char figures[64];
      std::snprintf(figures, sizeof figures, "%14lld B %5.1f %%  ",
                    static_cast<long long>(all[i].first),
                    100.0 * static_cast<double>(all[i].first) / static_cast<double>(whole));
      text += figures + all[i].second + "\n";
    }
  };
  auto sums = [&](const std::function<std::string(const MemoryHolder &)> &key) {
    std::map<std::string, int64_t> by_key;
    for (const MemoryHolder &holder : holders)
      by_key[key(holder)] += holder.bytes;
    std::vector<Row> all;
    for (const auto &[name, bytes] : by_key)
      all.emplace_back(bytes, name);
    return all;
  };
  if (whole == 0)
    return "";
  add("by module", sums([](const MemoryHolder &holder) {
        return holder.module.empty() ? "(outside of named modules)" : holder.module;
      }));
  add("by line", sums([](const MemoryHolder &holder) {
        return holder.line.empty() ? "(no line)" : holder.line;
      }));
  std::vector<Row> parts;
  for (const MemoryHolder &holder : holders)
    parts.emplace_back(holder.bytes, holder.what + (holder.line.empty() ? "" : "  " + holder.line) +
                                         (holder.module.empty() ? "" : " (" + holder.module + ")"));
  add("largest", std::move(parts));
  return text;
}

std::string memory_chart(const std::vector<int64_t> &live_bytes, int64_t columns) {
  if (live_bytes.size() < 2 || columns < 1)
    return "";
  return "over the run: " + runtime::live_range(live_bytes) + "\n" +
         runtime::live_bars(live_bytes, static_cast<size_t>(columns)) + "\n";
}

std::string MemoryEstimate::to_string() const {
  // What is there does not read as 0.0.
  auto text_of = [](int64_t bytes) {
    if (bytes < 1000)
      return std::to_string(bytes) + " B";
    char text[32];
    std::snprintf(text, sizeof text, bytes < 1'000'000 ? "%.1f kB" : "%.1f MB",
                  static_cast<double>(bytes) / (bytes < 1'000'000 ? 1e3 : 1e6));
    return std::string(text);
  };
  return text_of(peak()) + ": inputs " + text_of(inputs) + ", state " + text_of(state) +
         ", outputs " + text_of(outputs) + ", arena " + text_of(arena) +
         (recomputations > 0 ? ", " + std::to_string(recomputations) + " instructions run again"
                             : "") +
         (stored_bytes > 0 ? ", " + text_of(stored_bytes) + " wait in files" : "");
}

} // namespace weft

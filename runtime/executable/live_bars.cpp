#include "runtime/executable/live_bars.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "runtime/core/maxima.h"

namespace weft::runtime {

std::string live_bars(std::span<const int64_t> bytes, size_t columns) {
  static constexpr const char *kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr int kHeights = static_cast<int>(std::size(kBars));
  std::vector<int64_t> row = maxima(bytes, columns);
  int64_t most = row.empty() ? 0 : *std::max_element(row.begin(), row.end());
  std::string text;
  for (int64_t each : row) {
    double share = most > 0 ? static_cast<double>(each) / static_cast<double>(most) : 0;
    text += kBars[std::clamp(static_cast<int>(std::ceil(share * kHeights)), 1, kHeights) - 1];
  }
  return text;
}

std::string live_range(std::span<const int64_t> bytes) {
  if (bytes.empty())
    return "";
  return absl::StrCat(bytes.front(), " B at first, ", *std::max_element(bytes.begin(), bytes.end()),
                      " B at most, ", bytes.back(), " B at the end");
}

} // namespace weft::runtime

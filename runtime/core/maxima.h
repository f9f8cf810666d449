// A long row of numbers as a short one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::runtime {

// The largest number of each of `parts` parts of the row, equally long to within one number; the
// row itself where it has no more of them. Its largest number is in the result, in the same place.
inline std::vector<int64_t> maxima(std::span<const int64_t> row, size_t parts) {
  parts = std::min(parts, row.size());
  std::vector<int64_t> result(parts);
  for (size_t i = 0; i < parts; ++i)
    result[i] = *std::max_element(row.begin() + static_cast<int64_t>(i * row.size() / parts),
                                  row.begin() + static_cast<int64_t>((i + 1) * row.size() / parts));
  return result;
}

} // namespace weft::runtime

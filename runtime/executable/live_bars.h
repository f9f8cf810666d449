// What is live over a run, as text for reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weft::runtime {

// Columns of a chart of its own: it and what stands beside it fit in a terminal.
inline constexpr size_t kLiveColumns = 64;

// A bar of eight heights (UTF-8, "▁" to "█") for each number, or for the largest of each of
// `columns` parts of the row; the full height is its largest number.
std::string live_bars(std::span<const int64_t> bytes, size_t columns);

// "128 B at first, 512 B at most, 64 B at the end"; empty for no numbers.
std::string live_range(std::span<const int64_t> bytes);

} // namespace weft::runtime

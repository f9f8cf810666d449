// How much explain says.
#pragma once

#include <cstddef>

namespace weft::report {

struct ReportLimits {
  // What is live over a run stands in explain's line of a program that is new: it is long already,
  // and fewer instructions have no course worth drawing.
  size_t chart_columns = 24;
  size_t charted_points = 8;
};

inline constexpr ReportLimits kLimits;

} // namespace weft::report

// Numbers that decide what form a program of many sizes has, each with its reason.
#pragma once

#include <cstdint>

namespace weft::recorder {

struct CompileLimits {
  // Of a part of rows whose number varies: rows shorter than a vector are gathered element by
  // element, some 1.2 ns each where a copy takes 0.1.
  int64_t short_row = 16;
  // Elements that are worth it for all that: they take 0.1 ms, a compilation a thousand times that.
  int64_t gathered_elements = int64_t(1) << 16;
};
inline constexpr CompileLimits kCompileLimits;

} // namespace weft::recorder

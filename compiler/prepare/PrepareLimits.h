// What is worth computing ahead of runs: the numbers, with their reasons.
#pragma once

#include <cstdint>

namespace weft::compiler {

struct PrepareLimits {
  // A prepared value takes at most this many times the bytes of what it is computed from. A cast to
  // twice the width still pays; a weight that is broadcast over a batch would read more memory than
  // computing it again costs.
  int64_t growth = 2;
  // Bytes that are always allowed beside: growth is no matter for values of a page.
  int64_t freeBytes = 4096;
  // Stable leaves below this are not marked as such: what can be saved on them is less than a
  // microsecond a run (a quarter of a matrix of 128 x 128), and a program compiled for them would
  // not earn its compile time back. Numbers of a norm that go into a convolution's weight count at
  // any size.
  int64_t minLeafBytes = 16 << 10;
  // Programs for the same slice that differ in what is stable, besides the one in which nothing is.
  // A function that is replayed keeps its program, whatever others count on: it is not limited.
  // Leaves become stable together in most loops, so that one suffices; the second is for a loop
  // that first keeps more of its inputs than later.
  int64_t variants = 2;
};

inline constexpr PrepareLimits kPrepareLimits;

} // namespace weft::compiler

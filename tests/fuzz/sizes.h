// A random program at several sizes and slice starts: the programs that serve many of them must
// compute what a program for each computes.
#pragma once

#include <cstdint>
#include <string>

#include "tests/fuzz/program.h"

namespace weft::fuzz {

// The program with one extent in the place of another, wherever it stands.
Program with_extent(const Program &program, int64_t from, int64_t to);

// Empty, or what differs, bit for bit, on the cpu: each extent of the inputs takes some other
// values, and slices begin at some other places, one evaluation after the other.
std::string check_sizes(const Program &program);

// Whether check() runs every program at many sizes; otherwise some.
inline bool sizes_of_all = false;

// Of the runs where programs may serve many sizes: how many there were, and of how many one served
// the last evaluation.
struct SizeCounts {
  int64_t all = 0, symbolic = 0;
};
SizeCounts size_counts();

} // namespace weft::fuzz

// Every collective with every dtype on one group, against loops that say what it must give. For
// tests; the ranks are threads or processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/collective/communicator.h"

namespace weft::runtime {

// Elements [from, from + count) of an input that follows from dtype, rank and seed.
std::vector<char> sample(DType dtype, int64_t from, int64_t count, int rank, uint64_t seed);

// What rank `me` of `size` gets, if rank r calls `call` with the input sample(..., r, seed).
std::vector<char> expected(const CollectiveCall &call, int me, int size, uint64_t seed);

// Calls it so, waits, and compares the bits; NaNs are equal. Empty, or what went wrong. `in_place`
// where the collective may be.
std::string check_call(Group &group, CollectiveCall call, uint64_t seed, bool in_place);

// All collectives, dtypes, reductions and sizes: none, few, some that no number of ranks divides,
// around what fits into a first message, several pieces.
std::string check_collectives(Group &group);

} // namespace weft::runtime

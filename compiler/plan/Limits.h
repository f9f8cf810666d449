// Limits and heuristics of planning, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::compiler {

// Packings other than the one in program order visit each pair of values that live at the same
// time. Past this many pairs (about a second of work) only the one in program order is tried: such
// programs hold tens of thousands of values at once.
inline constexpr int64_t kMaxPackingConflicts = 20'000'000;

// The local search that follows ends after this many rounds, or pairs visited in all of them (some
// 20 ms): what it gains it gains early.
inline constexpr int64_t kPackingRefinementRounds = 1'000;
inline constexpr int64_t kPackingRefinementPairs = 2'000'000;

// Two checks of indices count as one where the same few ops compute both; of longer chains each
// check counts for itself.
inline constexpr size_t kMaxIndexValues = 64;

// A launch that takes less than this stays on one thread: a fork and join of the team takes 0.5 us
// when its threads are awake, and ten times that when they sleep.
inline constexpr double kSerialMicroseconds = 8;
// What one thread does in a microsecond, for that estimate: bytes of memory traffic at the speed of
// L2, floating-point operations of vectorized code with some transcendental functions among them.
// Low on purpose: a wrong "parallel" costs more than a wrong "serial".
inline constexpr double kBytesPerMicrosecond = 20'000;
inline constexpr double kFlopsPerMicrosecond = 10'000;

} // namespace weft::compiler

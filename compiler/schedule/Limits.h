// Limits and heuristics of measured and pinned schedules, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::compiler {

//===-- Measuring -----------------------------------------------------------------------------===//

// Bytes of a kernel's memory: more would leave no room for a second one.
inline constexpr int64_t kMostTunedBytes = int64_t(1) << 30;
// What part of the best time a candidate must stay below: above it, the times of one kernel differ
// from run to run.
inline constexpr double kTuneGain = 0.97;
// Rounds by turns, and the nanoseconds of each: a candidate that is slower in the first rounds is
// given up after them.
inline constexpr int kTuneRounds = 6, kFirstTuneRounds = 2;
inline constexpr double kTuneRoundNanoseconds = 2e6;
// A candidate that is slower by this after the first rounds does not get better.
inline constexpr double kHopeless = 1.1;
// Tried choices that a line about a kernel names: all those of most kernels.
inline constexpr size_t kMostShownChoices = 24;

// Kernels whose measured choices are kept. Some 100 bytes each: the kernels of a hundred large
// networks. Of a file with more lines the last ones count.
inline constexpr size_t kMostMeasuredKernels = 20'000;

//===-- Pins ----------------------------------------------------------------------------------===//

// Pins without a kernel that a remark names: it stays a line, and their number says the rest.
inline constexpr int64_t kMostNamedPins = 3;

} // namespace weft::compiler

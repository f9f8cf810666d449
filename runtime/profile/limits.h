// The bounds of a trace.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft::runtime::profile {

// Events that a thread holds until they are written: 1 MiB. Instructions of 1 us each fill it in
// 30 ms, of which the writer needs some 10.
inline constexpr uint64_t kEventsOfThread = uint64_t{1} << 15;
// Threads with a buffer at one time: with all of them 256 MiB.
inline constexpr int64_t kThreads = 256;
// How long an event lies in a buffer at most before it is written; a buffer that is half full is
// written at once.
inline constexpr std::chrono::milliseconds kPeriod{50};
// Text of labels: some 100,000 kernels and lines.
inline constexpr int64_t kLabelBytes = int64_t{64} << 20;
// The file. Perfetto in a browser opens traces up to about this size.
inline constexpr int64_t kFileBytes = int64_t{1} << 30;

} // namespace weft::runtime::profile

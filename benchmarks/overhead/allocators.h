// What programs take from the system beyond what they use at a time.
#pragma once

#include "benchmarks/common/report.h"

namespace weft::benchmarks {

// Of programs whose sizes vary: bytes that a caching allocator holds at most, over those that were
// live at most, with large blocks that are cut and with a block for each request; and what a call
// takes. Of a training loop: its peak where it reads nothing, over that where it reads each loss.
void allocators(Report &report, int rounds, int threads);

} // namespace weft::benchmarks

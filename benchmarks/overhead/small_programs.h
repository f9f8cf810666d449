// Many threads, each of which evaluates small programs of its own: plain calls, calls of a jitted
// function that all share, and runs of one traced network.
#pragma once

#include "benchmarks/common/report.h"

namespace weft::benchmarks {

// Programs a second of one thread, and of 8 together.
void small_programs(Report &report, int rounds, int threads);

} // namespace weft::benchmarks

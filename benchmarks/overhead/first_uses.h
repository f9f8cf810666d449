// What a process waits for when it does a thing for the first time.
#pragma once

#include <string>

#include "benchmarks/common/report.h"

namespace weft::benchmarks {

// In a process of its own without a disk cache: makes the network, then runs one image through it,
// then reads the norm of each parameter's gradient. Prints the seconds of each, and the number of
// parameters.
int first_uses_of(const std::string &network);

// Runs this program as above for each network.
void first_uses(Report &report, const std::string &program, int threads);

} // namespace weft::benchmarks

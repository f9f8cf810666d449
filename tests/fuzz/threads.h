// Random programs on two threads at once.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/program.h"

namespace weft::fuzz {

// Empty, or what differs between these programs recorded and evaluated by two threads at once and
// by one thread, on this backend. Half of the programs run on both threads; where one of those
// writes no input, both read the same tensors. The random generator is one for all threads, so that
// programs that draw from it are left out.
std::string check_threads(const std::vector<Program> &programs, const std::string &backend);

} // namespace weft::fuzz

// A backend for tests: the cpu without fusion, where every op of a program is compared with
// reference evaluation.
#pragma once

#include <set>
#include <string>

namespace weft::fuzz {

// Registered when the program starts. A program compiled by it has all its values as results; each
// run evaluates every op by reference on the very operands that the cpu computed, and fails (naming
// the op) where a result lies outside of the op's error budget. So no bound has to hold for a whole
// program, and a comparison or a rounding to integers sees the same numbers on both sides.
inline constexpr const char *kCheckedBackend = "cpu-checked";

// The ops ("weft.matmul") that it has seen in this process.
const std::set<std::string> &checked_ops();

} // namespace weft::fuzz

// What others than its kernels need to know of attention.
#pragma once

#include <cstdint>

namespace weft::compiler {

// Queries and keys of a block, at most. Both are part of what a sum's value is. A block of scores
// takes 16 KiB in float32.
inline constexpr int64_t kQueryBlock = 64, kKeyBlock = 64;
// Matrices of the leading dims below which the derivative's keys are cut into parts, so that there
// are about as many pieces.
inline constexpr int64_t kLeastMatrices = 8;

} // namespace weft::compiler

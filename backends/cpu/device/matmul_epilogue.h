// Bias and post-ops of a matmul where oneDNN has only its reference implementation for them
// together (a bias along M, batches of addends).
#pragma once

#include <span>

#include "backends/cpu/device/onednn_matmul.h"

namespace weft::backends::cpu {

// c = post_ops(c + bias), in place, on a team of that many threads. `addends` points to the bias,
// where there is one, then to the second operands of the post-ops; a dim of 1 repeats. A NaN stays
// one.
void apply_epilogue(const MatmulProblem &problem, float *c, std::span<void *const> addends,
                    int threads);

} // namespace weft::backends::cpu

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

// A part of the result: rows (of all dims but the last, in order) and elements of each.
struct ResultPart {
  int64_t first_row, last_row, first_column, last_column;
};
// The same for a part, on the caller's thread: while it is still in its caches.
void apply_epilogue_to(const ResultPart &part, const MatmulProblem &problem, float *c,
                       std::span<void *const> addends);

} // namespace weft::backends::cpu

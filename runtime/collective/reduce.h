// Reductions over the contributions of ranks.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/collective/kinds.h"
#include "runtime/core/dtype.h"

namespace weft::runtime {

const char *name(Reduction reduction);

// output[i] = parts[0][i] op parts[1][i] op ..., from left to right, so that the bits depend on the
// order of `parts` alone. 16-bit floats are reduced in float32 and rounded once; integers wrap; of
// bools sum and max are "or", product and min are "and". NaN goes through min and max. A mean is
// the sum divided by the number of parts, before it is rounded; of floating dtypes only. `output`
// may be one of `parts`.
void reduce(DType dtype, Reduction reduction, std::span<const void *const> parts, void *output,
            int64_t count);

} // namespace weft::runtime

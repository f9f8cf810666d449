// Tensors that travel together: rows of their elements.
#pragma once

#include <string>
#include <vector>

#include "weft/tensor.h"

namespace weft::distributed {

// Tensors [first, last) of one dtype and device, all of which require a gradient or none of which
// does, of at most some bytes; a larger one is alone.
struct Bucket {
  size_t first, last;
};
std::vector<Bucket> buckets_of(const std::vector<Tensor> &tensors, int64_t bytes);

// Their elements as one row, with zeros behind them up to a multiple of `parts`.
Tensor row_of(const std::vector<Tensor> &tensors, Bucket bucket, int64_t parts = 1);
// What the row has for each of them, in its shape.
std::vector<Tensor> parts_of(const Tensor &row, const std::vector<Tensor> &tensors, Bucket bucket);
// Writes that into the tensors.
void copy_parts(const Tensor &row, std::vector<Tensor> &tensors, Bucket bucket);

// What ranks compare of parameters [first, last): "parameters 0 to 4: [2, 3] [3] ...".
std::string describe_values(const std::vector<Tensor> &parameters, Bucket range);
// Of their gradients: "gradients of parameters 0 to 2, 4; none of 3 (float32 [2, 3])".
std::string describe_gradients(const std::vector<Tensor> &parameters, Bucket range);

} // namespace weft::distributed

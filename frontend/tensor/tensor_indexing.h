// Indexing by tensors: integer positions and boolean masks among the entries of an index. Private
// to the library.
#pragma once

#include <span>

#include "frontend/tensor/impl.h"

namespace weft::recorder {

// Called with a tensor that an index has made, so that an assignment to it, x[i] = y, is recorded
// at the caller's line.
void note_assignable(const Tensor &made);

bool has_tensors(std::span<const Index> indices);
// Tensor::index and Tensor::index_put_ where has_tensors(indices).
Tensor index_by_tensors(const Tensor &x, std::span<const Index> indices, Location location);
void put_by_tensors(const Tensor &x, std::span<const Index> indices, const TensorArg &value,
                    bool accumulate, Location location);

} // namespace weft::recorder

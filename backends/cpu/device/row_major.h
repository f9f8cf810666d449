// Tensors of library calls whose elements follow each other.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/executable/program.h"

namespace weft::backends::cpu {

// One that lies nowhere yet.
inline runtime::TensorRef row_major(std::vector<int64_t> dims, DType dtype = DType::kFloat32) {
  runtime::TensorRef tensor;
  tensor.dtype = dtype;
  tensor.strides.resize(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    tensor.strides[i] = stride;
  tensor.dims = std::move(dims);
  return tensor;
}

// Strides of dims of size 1, and of what has no elements, do not count.
inline bool is_row_major(const runtime::TensorRef &tensor) {
  int64_t stride = 1;
  for (size_t i = tensor.dims.size(); i-- > 0; stride *= tensor.dims[i]) {
    if (tensor.dims[i] == 0)
      return true;
    if (tensor.dims[i] != 1 && tensor.strides[i] != stride)
      return false;
  }
  return true;
}

} // namespace weft::backends::cpu

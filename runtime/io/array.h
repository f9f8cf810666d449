// An array as files hold it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/dtype.h"

namespace weft::runtime {

// Row-major elements that lie somewhere else.
struct ArrayView {
  std::string name; // may be empty
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes; // the product of dims times the size of an element
};

// The product of dims times the size of an element, or -1 when a dim is negative or the product
// exceeds int64.
int64_t array_bytes(DType dtype, std::span<const int64_t> dims);

} // namespace weft::runtime

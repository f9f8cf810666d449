#include "runtime/io/array.h"

namespace weft::runtime {

int64_t array_bytes(DType dtype, std::span<const int64_t> dims) {
  int64_t bytes = byte_size(dtype);
  bool is_empty = false;
  for (int64_t dim : dims) {
    if (dim < 0)
      return -1;
    is_empty |= dim == 0;
  }
  if (is_empty)
    return 0;
  for (int64_t dim : dims)
    if (__builtin_mul_overflow(bytes, dim, &bytes))
      return -1;
  return bytes;
}

} // namespace weft::runtime

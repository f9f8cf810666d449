// weft::TensorAccessor: the elements of a tensor by their positions, on the host.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/error.h"

namespace weft {

namespace recorder {
// Throws kIndex: the `dims`-th dim from the end has this size, and no such position.
[[noreturn]] void refuse_position(int64_t position, int64_t size, int64_t dims, Location location);
} // namespace recorder

// N dims of row-major elements of type T, const ones where they are to be read: an index for each
// dim leads to an element, a[i][j]. Each is checked. As the pointer that it holds, it is valid
// until the tensor is written or dies (Tensor::data(), Tensor::mutable_data()).
template <typename T, int64_t N> class TensorAccessor {
public:
  static_assert(N > 0, "a tensor without dims has one element: item()");

  // The i of a[i], which knows the caller's line.
  struct At {
    template <std::integral I>
    At(I i, Location location = Location::current())
        : position(static_cast<int64_t>(i)), location(location) {}
    int64_t position;
    Location location;
  };

  TensorAccessor(T *data, const std::array<int64_t, N> &sizes) : data_(data), sizes_(sizes) {}

  // What lies at position i of the first dim: an element where it is the only one, else an accessor
  // of the dims behind it. Error kIndex: i is negative, or not below the size.
  decltype(auto) operator[](At i) const {
    if (i.position < 0 || i.position >= sizes_[0])
      recorder::refuse_position(i.position, sizes_[0], N, i.location);
    if constexpr (N == 1) {
      return (data_[i.position]);
    } else {
      std::array<int64_t, N - 1> inner;
      int64_t step = 1;
      for (size_t dim = 1; dim < N; ++dim)
        step *= inner[dim - 1] = sizes_[dim];
      return TensorAccessor<T, N - 1>(data_ + i.position * step, inner);
    }
  }
  // The size of a dim, from 0 to N - 1. Error kIndex: another one.
  int64_t size(int64_t dim, Location location = Location::current()) const {
    if (dim < 0 || dim >= N)
      throw Error(ErrorKind::kIndex,
                  "accessor: there is no dim " + std::to_string(dim) + " of " + std::to_string(N),
                  location);
    return sizes_[static_cast<size_t>(dim)];
  }
  // The first element.
  T *data() const {
    return data_;
  }

private:
  T *data_;
  std::array<int64_t, N> sizes_;
};

} // namespace weft

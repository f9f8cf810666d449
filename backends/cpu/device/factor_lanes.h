// Factorizations and triangular systems of small matrices side by side: each lane of a vector works
// on a matrix of its own, since a small one fills no vector. An element is a panel
// (factor_kernels.h), elements are row-major. Bits are those of a matrix alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cpu/device/factor_kernels.h"

namespace weft::backends::cpu {

// As wide as T, so that a panel of them has as many lanes.
template <typename T> using LaneCount = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <typename T> struct LaneKernels {
  // R with R^T R = w, of which only the upper triangle is read and written. failed: a panel of 0,
  // or the order of the first leading minor that is not positive.
  void (*cholesky)(int64_t size, T *w, LaneCount<T> *failed);
  // w becomes L and U, permutation the order of its rows. failed: a panel of 0 or, counted from 1,
  // the first column without a pivot.
  void (*lu)(int64_t size, T *w, LaneCount<T> *permutation, LaneCount<T> *failed);
  // x [size, columns] becomes the solution for the right side that it holds. t is lower with
  // `forward`, else upper.
  void (*solve)(int64_t size, int64_t columns, bool forward, bool unit, const T *t, T *x);
};

template <typename T> const LaneKernels<T> &lane_kernels();

} // namespace weft::backends::cpu

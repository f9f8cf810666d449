// The inner loops of factorizations and triangular systems, each written once and compiled for each
// kind of processor. They work on panels: kPanelBytes of each row of a matrix, one after another,
// as one vector of AVX-512 or two of AVX2.
//
// Terms are added up one by one, by fused multiply-adds where the processor has them: bits depend
// neither on panels nor on the width of vectors.
#pragma once

#include <cstdint>

namespace weft::backends::cpu {

inline constexpr int64_t kPanelBytes = 64;
template <typename T> inline constexpr int64_t kPanelLanes = kPanelBytes / sizeof(T);
// Rows that a factorization eliminates at a time: a panel of them is 4 KiB, and the triangle that
// they are solved with fits in half of an L1 cache.
inline constexpr int64_t kFactorRows = 64;

// Element (i, k) lies at at[i * row + k * column].
template <typename T> struct Strided {
  const T *at;
  int64_t row, column;
};

template <typename T> struct FactorKernels {
  // panel [size][lanes] becomes the x with t x = panel, t triangular: lower and from the first row
  // on with `forward`, else upper and from the last one.
  void (*solve)(Strided<T> t, bool forward, bool unit, int64_t size, T *panel);
  // c [rows, columns] -= a panel, with a [rows, terms], panel [terms][lanes], columns <= lanes.
  void (*subtract)(int64_t rows, int64_t terms, Strided<T> a, const T *panel, T *c, int64_t c_row,
                   int64_t columns);
  // R with R^T R = w [size, size], of which only the upper triangle is read and written. The number
  // of rows that there are, where the next diagonal element is not positive; else size.
  int64_t (*cholesky)(int64_t size, T *w, int64_t w_row);
  // Rows below row `at` of w [rows, columns], columns <= lanes, lose multiples of it, so that their
  // elements in column `at` vanish, in whose place the factors are left; where row `at` has 0
  // there, those elements are the factors. The row below it whose element in the next column is
  // then the largest, the first of several; `rows` without one.
  int64_t (*eliminate)(int64_t rows, int64_t columns, int64_t at, T *w, int64_t w_row);
};

template <typename T> const FactorKernels<T> &factor_kernels();

} // namespace weft::backends::cpu

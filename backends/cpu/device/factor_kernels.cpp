#include "backends/cpu/device/factor_kernels.h"

#include <cmath>

#include "backends/cpu/device/factor_panels.h"

namespace weft::backends::cpu {
namespace {

template <typename T, bool kFused>
WEFT_INLINE void solve(Strided<T> t, bool forward, bool unit, int64_t size, T *panel) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  int64_t step = forward ? 1 : -1, first = forward ? 0 : size - 1;
  for (int64_t done = 0; done < size; ++done) {
    int64_t i = first + step * done;
    const T *row = t.at + i * t.row;
    Panel<T> sum = load_panel(panel + i * kLanes);
    for (int64_t k = first; k != i; k += step)
      sum = less<kFused>(Panel<T>(row[k * t.column]), load_panel(panel + k * kLanes), sum);
    if (!unit)
      sum /= Panel<T>(row[i * t.column]);
    store_panel<T>(panel + i * kLanes, sum);
  }
}

// So many rows at a time, whose sums stay in registers.
template <typename T, bool kFused, int kRows>
WEFT_INLINE void subtract_rows(int64_t terms, Strided<T> a, const T *panel, T *c, int64_t c_row,
                               int64_t columns) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  Panel<T> sums[kRows];
  for (int r = 0; r < kRows; ++r) {
    if (columns == kLanes) {
      sums[r] = load_panel(c + r * c_row);
      continue;
    }
    sums[r] = Panel<T>(T(0));
    std::memcpy(&sums[r], c + r * c_row, sizeof(T) * static_cast<size_t>(columns));
  }
  for (int64_t k = 0; k < terms; ++k) {
    Panel<T> term = load_panel(panel + k * kLanes);
    for (int r = 0; r < kRows; ++r)
      sums[r] = less<kFused>(Panel<T>(a.at[r * a.row + k * a.column]), term, sums[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    if (columns == kLanes)
      store_panel<T>(c + r * c_row, sums[r]);
    else
      std::memcpy(c + r * c_row, &sums[r], sizeof(T) * static_cast<size_t>(columns));
  }
}

template <typename T, bool kFused, int kRows>
WEFT_INLINE void subtract(int64_t rows, int64_t terms, Strided<T> a, const T *panel, T *c,
                          int64_t c_row, int64_t columns) {
  auto from = [&](int64_t row) {
    return Strided<T>{a.at + row * a.row, a.row, a.column};
  };
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows)
    subtract_rows<T, kFused, kRows>(terms, from(row), panel, c + row * c_row, c_row, columns);
  for (; row + 2 <= rows; row += 2)
    subtract_rows<T, kFused, 2>(terms, from(row), panel, c + row * c_row, c_row, columns);
  for (; row < rows; ++row)
    subtract_rows<T, kFused, 1>(terms, from(row), panel, c + row * c_row, c_row, columns);
}

template <typename T, bool kFused>
WEFT_INLINE int64_t cholesky(int64_t size, T *w, int64_t w_row) {
  for (int64_t k = 0; k < size; ++k) {
    T *row = w + k * w_row;
    if (!(row[k] > 0))
      return k;
    T root = std::sqrt(row[k]);
    row[k] = root;
    for (int64_t j = k + 1; j < size; ++j)
      row[j] /= root;
    for (int64_t i = k + 1; i < size; ++i)
      for (int64_t j = i; j < size; ++j)
        w[i * w_row + j] = less<kFused>(row[i], row[j], w[i * w_row + j]);
  }
  return size;
}

template <typename T, bool kFused>
WEFT_INLINE void eliminate(int64_t rows, int64_t columns, T *w, int64_t w_row) {
  for (int64_t i = 1; i < rows; ++i) {
    T *row = w + i * w_row, factor = row[0] / w[0];
    row[0] = factor;
    for (int64_t j = 1; j < columns; ++j)
      row[j] = less<kFused>(factor, w[j], row[j]);
  }
}

// One table a kind of processor. kRows: as many sums as there are registers for.
#define WEFT_FACTOR_KERNELS(name, attribute, fused, rows)                                          \
  template <typename T> struct name {                                                              \
    attribute static void solve_(Strided<T> t, bool forward, bool unit, int64_t size, T *panel) {  \
      solve<T, fused>(t, forward, unit, size, panel);                                              \
    }                                                                                              \
    attribute static void subtract_(int64_t n, int64_t terms, Strided<T> a, const T *panel, T *c,  \
                                    int64_t c_row, int64_t columns) {                              \
      subtract<T, fused, rows>(n, terms, a, panel, c, c_row, columns);                             \
    }                                                                                              \
    attribute static int64_t cholesky_(int64_t size, T *w, int64_t w_row) {                        \
      return cholesky<T, fused>(size, w, w_row);                                                   \
    }                                                                                              \
    attribute static void eliminate_(int64_t n, int64_t columns, T *w, int64_t w_row) {            \
      eliminate<T, fused>(n, columns, w, w_row);                                                   \
    }                                                                                              \
    static constexpr FactorKernels<T> kTable = {solve_, subtract_, cholesky_, eliminate_};         \
  };
WEFT_FACTOR_KERNELS(Plain, , false, 2)
WEFT_FACTOR_KERNELS(Avx2, WEFT_AVX2, true, 6)
WEFT_FACTOR_KERNELS(Avx512, WEFT_AVX512, true, 12)

} // namespace

template <typename T> const FactorKernels<T> &factor_kernels() {
  return of_processor(Plain<T>::kTable, Avx2<T>::kTable, Avx512<T>::kTable);
}
template const FactorKernels<float> &factor_kernels<float>();
template const FactorKernels<double> &factor_kernels<double>();

} // namespace weft::backends::cpu

#include "backends/cpu/device/factor_kernels.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/device/factor_lanes.h"
#include "backends/cpu/device/factor_panels.h"

namespace weft::backends::cpu {
namespace {

// So many rows at a time, whose sums stay in registers.
template <typename T, bool kFused, int kRows>
WEFT_INLINE void subtract_rows(int64_t terms, Strided<T> a, const T *panel, int64_t panel_row, T *c,
                               int64_t c_row, int64_t columns) {
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
    Panel<T> term = load_panel(panel + k * panel_row);
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
WEFT_INLINE void subtract(int64_t rows, int64_t terms, Strided<T> a, const T *panel,
                          int64_t panel_row, T *c, int64_t c_row, int64_t columns) {
  auto from = [&](int64_t row) {
    return Strided<T>{a.at + row * a.row, a.row, a.column};
  };
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows)
    subtract_rows<T, kFused, kRows>(terms, from(row), panel, panel_row, c + row * c_row, c_row,
                                    columns);
  for (; row + 2 <= rows; row += 2)
    subtract_rows<T, kFused, 2>(terms, from(row), panel, panel_row, c + row * c_row, c_row,
                                columns);
  for (; row < rows; ++row)
    subtract_rows<T, kFused, 1>(terms, from(row), panel, panel_row, c + row * c_row, c_row,
                                columns);
}

// Some rows at a time: what is solved comes off all of them at once, in sums that do not wait for
// each other.
template <typename T, bool kFused, int kRows>
WEFT_INLINE void solve(Strided<T> t, bool forward, bool unit, int64_t size, T *panel) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  const int64_t step = forward ? 1 : -1, first = forward ? 0 : size - 1;
  // The rows and columns of t in the order in which they are solved.
  const Strided<T> a{t.at + first * (t.row + t.column), step * t.row, step * t.column};
  T *const x = panel + first * kLanes;
  for (int64_t begin = 0; begin < size; begin += kRows) {
    int64_t end = std::min(begin + kRows, size);
    subtract<T, kFused, kRows>(end - begin, begin, {a.at + begin * a.row, a.row, a.column}, x,
                               step * kLanes, x + begin * step * kLanes, step * kLanes, kLanes);
    for (int64_t i = begin; i < end; ++i) {
      const T *row = a.at + i * a.row;
      Panel<T> sum = load_panel(x + i * step * kLanes);
      for (int64_t k = begin; k < i; ++k)
        sum = less<kFused>(Panel<T>(row[k * a.column]), load_panel(x + k * step * kLanes), sum);
      if (!unit)
        sum /= Panel<T>(row[i * a.column]);
      store_panel<T>(x + i * step * kLanes, sum);
    }
  }
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

// kFull: w has as many columns as a panel has lanes.
template <typename T, bool kFused, bool kFull>
WEFT_INLINE int64_t eliminate_rows(int64_t rows, int64_t columns, int64_t at, T *w, int64_t w_row) {
  const size_t bytes = kFull ? size_t(kPanelBytes) : sizeof(T) * static_cast<size_t>(columns);
  // -1 in the lanes of the columns behind.
  LaneCount<T> behind __attribute__((ext_vector_type(kPanelLanes<T>)));
  for (int64_t lane = 0; lane < kPanelLanes<T>; ++lane)
    behind[lane] = lane > at ? -1 : 0;
  Panel<T> pivot{};
  std::memcpy(&pivot, w + at * w_row, bytes);
  const T by = pivot[at];
  int64_t next = rows;
  T most = 0;
  for (int64_t i = at + 1; i < rows; ++i) {
    T *const to = w + i * w_row;
    const T factor = by == 0 ? to[at] : to[at] / by;
    if (at + 1 < columns) {
      // Computed twice: what a masked store has written cannot be read at once.
      T size = std::abs(less<kFused>(factor, pivot[at + 1], to[at + 1]));
      if (i == at + 1 || size > most) {
        most = size;
        next = i;
      }
    }
    Panel<T> row{};
    std::memcpy(&row, to, bytes);
    row = behind ? less<kFused>(Panel<T>(factor), pivot, row) : row;
    std::memcpy(to, &row, bytes);
    to[at] = factor;
  }
  return next;
}

template <typename T, bool kFused>
WEFT_INLINE int64_t eliminate(int64_t rows, int64_t columns, int64_t at, T *w, int64_t w_row) {
  return columns == kPanelLanes<T> ? eliminate_rows<T, kFused, true>(rows, columns, at, w, w_row)
                                   : eliminate_rows<T, kFused, false>(rows, columns, at, w, w_row);
}

// One table a kind of processor. kRows: as many sums as there are registers for.
#define WEFT_FACTOR_KERNELS(name, attribute, fused, rows)                                          \
  template <typename T> struct name {                                                              \
    attribute static void solve_(Strided<T> t, bool forward, bool unit, int64_t size, T *panel) {  \
      solve<T, fused, rows>(t, forward, unit, size, panel);                                        \
    }                                                                                              \
    attribute static void subtract_(int64_t n, int64_t terms, Strided<T> a, const T *panel, T *c,  \
                                    int64_t c_row, int64_t columns) {                              \
      subtract<T, fused, rows>(n, terms, a, panel, kPanelLanes<T>, c, c_row, columns);             \
    }                                                                                              \
    attribute static int64_t cholesky_(int64_t size, T *w, int64_t w_row) {                        \
      return cholesky<T, fused>(size, w, w_row);                                                   \
    }                                                                                              \
    attribute static int64_t eliminate_(int64_t n, int64_t columns, int64_t at, T *w,              \
                                        int64_t w_row) {                                           \
      return eliminate<T, fused>(n, columns, at, w, w_row);                                        \
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

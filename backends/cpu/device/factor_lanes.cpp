#include "backends/cpu/device/factor_lanes.h"

#include <utility>

#include "backends/cpu/device/factor_panels.h"

namespace weft::backends::cpu {
namespace {

template <typename T> using Counts = LaneCount<T> __attribute__((ext_vector_type(kPanelLanes<T>)));

// Element `at` of a panel's matrices.
template <typename T> WEFT_INLINE Panel<T> get(const T *w, int64_t at) {
  return load_panel(w + at * kPanelLanes<T>);
}
template <typename T> WEFT_INLINE void put(T *w, int64_t at, const Panel<T> &value) {
  store_panel<T>(w + at * kPanelLanes<T>, value);
}
template <typename T> WEFT_INLINE Counts<T> get_counts(const LaneCount<T> *w, int64_t at) {
  Counts<T> value;
  std::memcpy(&value, w + at * kPanelLanes<T>, sizeof value);
  return value;
}
template <typename T>
WEFT_INLINE void put_counts(LaneCount<T> *w, int64_t at, const Counts<T> &value) {
  std::memcpy(w + at * kPanelLanes<T>, &value, sizeof value);
}

template <typename T, bool kFused>
WEFT_INLINE void cholesky(int64_t n, T *w, LaneCount<T> *failed) {
  Counts<T> first = Counts<T>(LaneCount<T>(0));
  for (int64_t k = 0; k < n; ++k) {
    Panel<T> root = get(w, k * n + k);
    first = first == 0 && !(root > 0) ? Counts<T>(LaneCount<T>(k + 1)) : first;
    root = __builtin_elementwise_sqrt(root);
    put(w, k * n + k, root);
    for (int64_t j = k + 1; j < n; ++j)
      put<T>(w, k * n + j, get(w, k * n + j) / root);
    for (int64_t i = k + 1; i < n; ++i) {
      Panel<T> factor = get(w, k * n + i);
      for (int64_t j = i; j < n; ++j)
        put(w, i * n + j, less<kFused>(factor, get(w, k * n + j), get(w, i * n + j)));
    }
  }
  put_counts<T>(failed, 0, first);
}

// Row `pivot` of each matrix becomes row j, and the other way round.
template <typename T>
WEFT_INLINE void swap_rows(int64_t n, int64_t j, const Counts<T> &pivot, T *w,
                           LaneCount<T> *permutation) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    int64_t row = pivot[lane];
    if (row == j)
      continue;
    std::swap(permutation[j * kLanes + lane], permutation[row * kLanes + lane]);
    for (int64_t k = 0; k < n; ++k)
      std::swap(w[(j * n + k) * kLanes + lane], w[(row * n + k) * kLanes + lane]);
  }
}

// Column j by its pivots; where a matrix has 0 there, the elements below it are the factors.
template <typename T, bool kFused>
WEFT_INLINE void eliminate(int64_t n, int64_t j, const Panel<T> &head, T *w) {
  for (int64_t i = j + 1; i < n; ++i) {
    Panel<T> from = get(w, i * n + j), factor = head != 0 ? from / head : from;
    put(w, i * n + j, factor);
    for (int64_t k = j + 1; k < n; ++k)
      put(w, i * n + k, less<kFused>(factor, get(w, j * n + k), get(w, i * n + k)));
  }
}

template <typename T, bool kFused>
WEFT_INLINE void lu(int64_t n, T *w, LaneCount<T> *permutation, LaneCount<T> *failed) {
  Counts<T> first = Counts<T>(LaneCount<T>(0));
  for (int64_t i = 0; i < n; ++i)
    put_counts<T>(permutation, i, Counts<T>(LaneCount<T>(i)));
  for (int64_t j = 0; j < n; ++j) {
    Panel<T> largest = __builtin_elementwise_abs(get(w, j * n + j));
    Counts<T> pivot = Counts<T>(LaneCount<T>(j));
    for (int64_t i = j + 1; i < n; ++i) {
      Panel<T> size = __builtin_elementwise_abs(get(w, i * n + j));
      Counts<T> larger = size > largest;
      largest = larger ? size : largest;
      pivot = larger ? Counts<T>(LaneCount<T>(i)) : pivot;
    }
    swap_rows<T>(n, j, pivot, w, permutation);
    Panel<T> head = get(w, j * n + j);
    first = first == 0 && head == 0 ? Counts<T>(LaneCount<T>(j + 1)) : first;
    eliminate<T, kFused>(n, j, head, w);
  }
  put_counts<T>(failed, 0, first);
}

template <typename T, bool kFused>
WEFT_INLINE void solve(int64_t n, int64_t columns, bool forward, bool unit, const T *t, T *x) {
  int64_t step = forward ? 1 : -1, first = forward ? 0 : n - 1;
  for (int64_t done = 0; done < n; ++done) {
    int64_t i = first + step * done;
    for (int64_t c = 0; c < columns; ++c) {
      Panel<T> sum = get(x, i * columns + c);
      for (int64_t k = first; k != i; k += step)
        sum = less<kFused>(get(t, i * n + k), get(x, k * columns + c), sum);
      put<T>(x, i * columns + c, unit ? sum : sum / get(t, i * n + i));
    }
  }
}

// One table a kind of processor.
#define WEFT_LANE_KERNELS(name, attribute, fused)                                                  \
  template <typename T> struct name {                                                              \
    attribute static void cholesky_(int64_t n, T *w, LaneCount<T> *failed) {                       \
      cholesky<T, fused>(n, w, failed);                                                            \
    }                                                                                              \
    attribute static void lu_(int64_t n, T *w, LaneCount<T> *permutation, LaneCount<T> *failed) {  \
      lu<T, fused>(n, w, permutation, failed);                                                     \
    }                                                                                              \
    attribute static void solve_(int64_t n, int64_t columns, bool forward, bool unit, const T *t,  \
                                 T *x) {                                                           \
      solve<T, fused>(n, columns, forward, unit, t, x);                                            \
    }                                                                                              \
    static constexpr LaneKernels<T> kTable = {cholesky_, lu_, solve_};                             \
  };
WEFT_LANE_KERNELS(Plain, , false)
WEFT_LANE_KERNELS(Avx2, WEFT_AVX2, true)
WEFT_LANE_KERNELS(Avx512, WEFT_AVX512, true)

} // namespace

template <typename T> const LaneKernels<T> &lane_kernels() {
  return of_processor(Plain<T>::kTable, Avx2<T>::kTable, Avx512<T>::kTable);
}
template const LaneKernels<float> &lane_kernels<float>();
template const LaneKernels<double> &lane_kernels<double>();

} // namespace weft::backends::cpu

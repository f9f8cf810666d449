#include "backends/cpu/device/factors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "backends/cpu/device/factor_kernels.h"
#include "backends/cpu/device/factor_lanes.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Work that is worth a piece of its own, in multiplications.
constexpr int64_t kPieceWork = 1 << 16;
// Matrices go side by side where there are as many, which is faster than one by one,
constexpr int64_t kLaneMatrices = 4;
// and their elements, with those of their right side, are at most so many: 32 rows, of which most
// have half. These panels stay in an L2 cache.
constexpr int64_t kLaneElements = 1088;
// A right side of as many columns fills panels by itself.
constexpr int64_t kLaneColumns = 12;
// Where there are pivots, matrices of more rows go alone: rows are exchanged lane by lane.
constexpr int64_t kLanePivotRows = 16;

// body(thread, i) for each i below count, of so much work each.
template <typename Body> void for_each(int64_t count, int64_t work, int threads, Body body) {
  if (threads <= 1 || count * work < 2 * kPieceWork) {
    for (int64_t i = 0; i < count; ++i)
      body(0, i);
    return;
  }
  auto part = [](void *data, int thread, int64_t begin, int64_t end) -> int32_t {
    for (int64_t i = begin; i < end; ++i)
      (*static_cast<Body *>(data))(thread, i);
    return 0;
  };
  runtime::parallel_for(count, std::max<int64_t>(1, kPieceWork / std::max<int64_t>(1, work)),
                        threads, part, &body);
}

// body(matrix, threads for it).
template <typename Body> void for_matrices(const FactorProblem &p, Body body) {
  bool apart = p.matrices >= p.threads;
  auto one = [&](int, int64_t matrix) {
    body(matrix, apart ? 1 : p.threads);
  };
  for_each(p.matrices, p.size * p.size * p.size / 3, apart ? p.threads : 1, one);
}

bool go_side_by_side(const FactorProblem &p) {
  return p.matrices >= kLaneMatrices && p.columns < kLaneColumns &&
         p.size * (p.size + p.columns) <= kLaneElements;
}

// body(the first matrix, how many) for as many matrices as a panel has lanes.
template <typename T, typename Body> void for_lanes(const FactorProblem &p, Body body) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  int64_t work = kLanes * p.size * p.size * (p.size + p.columns) / 3;
  for_each((p.matrices + kLanes - 1) / kLanes, work, p.threads, [&](int, int64_t group) {
    body(group * kLanes, std::min(kLanes, p.matrices - group * kLanes));
  });
}
// Matrices of `elements` as panels, and back. Lanes without a matrix get the first one again.
template <typename T> void pack_lanes(const T *from, int64_t elements, int64_t matrices, T *to) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    const T *matrix = from + (lane < matrices ? lane : 0) * elements;
    for (int64_t i = 0; i < elements; ++i)
      to[i * kLanes + lane] = matrix[i];
  }
}
template <typename T, typename To>
void unpack_lanes(const T *from, int64_t elements, int64_t matrices, To *to) {
  for (int64_t lane = 0; lane < matrices; ++lane)
    for (int64_t i = 0; i < elements; ++i)
      to[lane * elements + i] = from[i * kPanelLanes<T> + lane];
}

// copy(row, columns) for each row. Copies of a known length are a move each, so that of a whole panel
// is one.
template <typename T, typename Copy> void copy_rows(int64_t rows, int64_t columns, Copy copy) {
  constexpr std::integral_constant<int64_t, kPanelLanes<T>> kAll;
  for (int64_t i = 0; i < rows; ++i)
    if (columns == kAll)
      copy(i, kAll);
    else
      copy(i, columns);
}
template <typename T>
void pack(const T *from, int64_t from_row, int64_t rows, int64_t columns, T *panel) {
  copy_rows<T>(rows, columns, [&](int64_t i, auto copied) {
    T *row = panel + i * kPanelLanes<T>;
    std::fill_n(std::copy_n(from + i * from_row, copied, row), kPanelLanes<T> - copied, T(0));
  });
}
template <typename T>
void unpack(const T *panel, int64_t rows, int64_t columns, T *to, int64_t to_row) {
  copy_rows<T>(rows, columns, [&](int64_t i, auto copied) {
    std::copy_n(panel + i * kPanelLanes<T>, copied, to + i * to_row);
  });
}

// body(column, columns) for the panels of columns [begin, end), each of which takes so much work.
template <typename T, typename Body>
void for_panels(int64_t begin, int64_t end, int64_t work, int threads, Body body) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  for_each((end - begin + kLanes - 1) / kLanes, work, threads, [&](int, int64_t panel) {
    int64_t column = begin + panel * kLanes;
    body(column, std::min(kLanes, end - column));
  });
}

// body(i, j) for each j <= i < n, by squares: their rows stay in the cache, both ways.
template <typename Body> void for_lower_triangle(int64_t n, Body body) {
  constexpr int64_t kSide = 16;
  for (int64_t row = 0; row < n; row += kSide)
    for (int64_t column = 0; column <= row; column += kSide)
      for (int64_t i = row; i < std::min(row + kSide, n); ++i)
        for (int64_t j = column; j < std::min(column + kSide, i + 1); ++j)
          body(i, j);
}

// R with R^T R = w, of whose upper triangle: R^T is L. 0, or the order of the minor that fails.
template <typename T> int64_t upper_cholesky(int64_t n, T *w, int threads) {
  const FactorKernels<T> &kernels = factor_kernels<T>();
  for (int64_t begin = 0; begin < n; begin += kFactorRows) {
    int64_t rows = std::min(kFactorRows, n - begin), next = begin + rows;
    T *block = w + begin * n + begin;
    if (int64_t done = kernels.cholesky(rows, block, n); done < rows)
      return begin + done + 1;
    // The rest of these rows, and then of the rows below what they explain of it.
    for_panels<T>(next, n, rows * rows * kPanelLanes<T>, threads, [&](int64_t at, int64_t width) {
      T panel[kFactorRows * kPanelLanes<T>];
      pack(w + begin * n + at, n, rows, width, panel);
      kernels.solve({block, 1, n}, true, false, rows, panel);
      unpack(panel, rows, width, w + begin * n + at, n);
    });
    for_panels<T>(next, n, rows * (n - next) * kPanelLanes<T> / 2, threads,
                  [&](int64_t at, int64_t width) {
                    T panel[kFactorRows * kPanelLanes<T>];
                    pack(w + begin * n + at, n, rows, width, panel);
                    kernels.subtract(at + width - next, rows, {w + begin * n + next, 1, n}, panel,
                                     w + next * n + at, n, width);
                  });
  }
  return 0;
}

// The row at or below `column` whose element in it is the largest; the first of several.
template <typename T> int64_t pivot_of(int64_t n, int64_t column, const T *w) {
  int64_t pivot = column;
  T most = std::abs(w[column * n + column]);
  for (int64_t i = column + 1; i < n; ++i)
    if (T size = std::abs(w[i * n + column]); size > most) {
      most = size;
      pivot = i;
    }
  return pivot;
}

// By kFactorRows columns, and these by panels: what is eliminated column by column is small.
template <typename T>
int64_t factor_lu(int64_t n, T *w, int64_t *permutation, int threads) {
  const FactorKernels<T> &kernels = factor_kernels<T>();
  int64_t failed = 0;
  std::iota(permutation, permutation + n, 0);
  // Columns [end, last) lose what those of [begin, end), which are done, explain of them.
  auto update = [&](int64_t begin, int64_t end, int64_t last, int workers) {
    int64_t rows = end - begin;
    for_panels<T>(end, last, rows * (n - begin) * kPanelLanes<T>, workers,
                  [&](int64_t at, int64_t width) {
                    T panel[kFactorRows * kPanelLanes<T>];
                    pack(w + begin * n + at, n, rows, width, panel);
                    kernels.solve({w + begin * n + begin, n, 1}, true, true, rows, panel);
                    unpack(panel, rows, width, w + begin * n + at, n);
                    kernels.subtract(n - end, rows, {w + end * n + begin, n, 1}, panel,
                                     w + end * n + at, n, width);
                  });
  };
  for (int64_t begin = 0; begin < n; begin += kFactorRows) {
    int64_t next = std::min(begin + kFactorRows, n);
    for (int64_t j = begin, columns; j < next; j += columns) {
      columns = std::min(kPanelLanes<T>, next - j);
      int64_t pivot = pivot_of(n, j, w);
      for (int64_t k = j; k < j + columns; ++k) {
        if (pivot != k) {
          std::swap(permutation[k], permutation[pivot]);
          std::swap_ranges(w + k * n, w + k * n + n, w + pivot * n);
        }
        if (w[k * n + k] == 0 && !failed)
          failed = k + 1;
        pivot = j + kernels.eliminate(n - j, columns, k - j, w + j * n + j, n);
      }
      update(j, j + columns, next, 1);
    }
    update(begin, next, n, threads);
  }
  return failed;
}

// Only the lower triangle of x is read, as the upper one of panels.
template <typename T>
void cholesky_lanes(const FactorProblem &p, const T *x, T *l, int64_t *failed) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  int64_t n = p.size;
  for_lanes<T>(p, [&](int64_t first, int64_t matrices) {
    T w[kLaneElements * kLanes];
    LaneCount<T> order[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const T *from = x + (first + (lane < matrices ? lane : 0)) * n * n;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j <= i; ++j)
          w[(j * n + i) * kLanes + lane] = from[i * n + j];
    }
    lane_kernels<T>().cholesky(n, w, order);
    unpack_lanes(order, 1, matrices, failed + first);
    for (int64_t lane = 0; lane < matrices; ++lane) {
      T *to = l + (first + lane) * n * n;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          to[i * n + j] = j <= i ? w[(j * n + i) * kLanes + lane] : T(0);
    }
  });
}

template <typename T>
void lu_lanes(const FactorProblem &p, const T *x, T *factors, int64_t *permutation,
              int64_t *failed) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  int64_t n = p.size;
  for_lanes<T>(p, [&](int64_t first, int64_t matrices) {
    T w[kLanePivotRows * kLanePivotRows * kLanes];
    LaneCount<T> rows[kLanePivotRows * kLanes], column[kLanes];
    pack_lanes(x + first * n * n, n * n, matrices, w);
    lane_kernels<T>().lu(n, w, rows, column);
    unpack_lanes(w, n * n, matrices, factors + first * n * n);
    unpack_lanes(rows, n, matrices, permutation + first * n);
    unpack_lanes(column, 1, matrices, failed + first);
  });
}

template <typename T>
void solve_lanes(const FactorProblem &p, const T *matrix, const T *rhs, T *x) {
  constexpr int64_t kLanes = kPanelLanes<T>;
  int64_t n = p.size, side = n * p.columns;
  bool forward = p.upper == p.transposed;
  for_lanes<T>(p, [&](int64_t first, int64_t matrices) {
    T w[kLaneElements * kLanes];
    T *panels = w + n * n * kLanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const T *from = matrix + (first + (lane < matrices ? lane : 0)) * n * n;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t k = forward ? 0 : i; k < (forward ? i + 1 : n); ++k)
          w[(i * n + k) * kLanes + lane] = from[p.transposed ? k * n + i : i * n + k];
    }
    pack_lanes(rhs + first * side, side, matrices, panels);
    lane_kernels<T>().solve(n, p.columns, forward, p.unit, w, panels);
    unpack_lanes(panels, side, matrices, x + first * side);
  });
}

} // namespace

template <typename T>
void cholesky_factors(const FactorProblem &p, const T *x, T *l, int64_t *failed) {
  if (go_side_by_side(p))
    return cholesky_lanes(p, x, l, failed);
  int64_t n = p.size;
  for_matrices(p, [&](int64_t matrix, int threads) {
    const T *from = x + matrix * n * n;
    T *w = l + matrix * n * n;
    for_lower_triangle(n, [&](int64_t i, int64_t j) { w[j * n + i] = from[i * n + j]; });
    failed[matrix] = upper_cholesky(n, w, threads);
    for_lower_triangle(n, [&](int64_t i, int64_t j) {
      w[i * n + j] = w[j * n + i];
      if (i != j)
        w[j * n + i] = 0;
    });
  });
}

template <typename T>
void lu_factors(const FactorProblem &p, const T *x, T *factors, int64_t *permutation,
                int64_t *failed) {
  if (p.size <= kLanePivotRows && go_side_by_side(p))
    return lu_lanes(p, x, factors, permutation, failed);
  int64_t n = p.size;
  for_matrices(p, [&](int64_t matrix, int threads) {
    T *w = factors + matrix * n * n;
    std::copy_n(x + matrix * n * n, n * n, w);
    failed[matrix] = factor_lu(n, w, permutation + matrix * n, threads);
  });
}

int64_t solve_room(const FactorProblem &p) {
  return std::max(p.threads, 1) * p.size * kPanelBytes;
}

template <typename T>
void solve_triangular(const FactorProblem &p, const T *matrix, const T *rhs, T *x, void *room) {
  if (go_side_by_side(p))
    return solve_lanes(p, matrix, rhs, x);
  constexpr int64_t kLanes = kPanelLanes<T>;
  const FactorKernels<T> &kernels = factor_kernels<T>();
  int64_t n = p.size, panels = (p.columns + kLanes - 1) / kLanes;
  int64_t blocks = (n + kFactorRows - 1) / kFactorRows;
  bool forward = p.upper == p.transposed;
  // A panel of the right side is solved as a whole.
  for_each(p.matrices * panels, n * n / 2 * kLanes, p.threads, [&](int thread, int64_t i) {
    int64_t column = i % panels * kLanes, width = std::min(kLanes, p.columns - column);
    int64_t at = i / panels * n * p.columns + column;
    Strided<T> t{matrix + i / panels * n * n, p.transposed ? 1 : n, p.transposed ? n : 1};
    T *panel = static_cast<T *>(room) + thread * n * kLanes;
    pack(rhs + at, p.columns, n, width, panel);
    for (int64_t done = 0; done < blocks; ++done) {
      int64_t begin = (forward ? done : blocks - 1 - done) * kFactorRows;
      int64_t rows = std::min(kFactorRows, n - begin);
      auto part = [&](int64_t row) {
        return Strided<T>{t.at + row * t.row + begin * t.column, t.row, t.column};
      };
      kernels.solve(part(begin), forward, p.unit, rows, panel + begin * kLanes);
      int64_t first = forward ? begin + rows : 0, last = forward ? n : begin;
      kernels.subtract(last - first, rows, part(first), panel + begin * kLanes,
                       panel + first * kLanes, kLanes, kLanes);
    }
    unpack(panel, n, width, x + at, p.columns);
  });
}

#define WEFT_FACTORS(T)                                                                            \
  template void cholesky_factors<T>(const FactorProblem &, const T *, T *, int64_t *);             \
  template void lu_factors<T>(const FactorProblem &, const T *, T *, int64_t *, int64_t *);        \
  template void solve_triangular<T>(const FactorProblem &, const T *, const T *, T *, void *);
WEFT_FACTORS(float)
WEFT_FACTORS(double)

} // namespace weft::backends::cpu

// Factorizations of square matrices and triangular systems, row-major and one behind another. Small
// matrices go side by side in the lanes of vectors (factor_lanes.h). Of many larger ones each is
// one thread's; of few, threads share the panels of each (factor_kernels.h). Bits depend on none of
// it.
#pragma once

#include <cstdint>

namespace weft::backends::cpu {

struct FactorProblem {
  int64_t matrices = 1, size = 0;
  int64_t columns = 0; // of a system's right side
  bool upper = false, unit = false, transposed = false;
  int threads = 1;
};

// L with L L^T = x, of whose lower triangle alone is read. failed: for each matrix 0, or the order
// of the first leading minor that is not positive. x and l are different memory.
template <typename T>
void cholesky_factors(const FactorProblem &problem, const T *x, T *l, int64_t *failed);

// L and U in one matrix, the order in which x's rows come, and for each matrix 0 or, counted from
// 1, the first column without a pivot.
template <typename T>
void lu_factors(const FactorProblem &problem, const T *x, T *factors, int64_t *permutation,
                int64_t *failed);

// The x with matrix x = rhs [size, columns], by one triangle of matrix. room: solve_room() bytes.
int64_t solve_room(const FactorProblem &problem);
template <typename T>
void solve_triangular(const FactorProblem &problem, const T *matrix, const T *rhs, T *x,
                      void *room);

} // namespace weft::backends::cpu

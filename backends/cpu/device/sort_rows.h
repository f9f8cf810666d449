// Sorting along a dim: where the elements of each row stand once the row is in order.
#pragma once

#include <cstdint>

#include "runtime/core/dtype.h"

namespace weft::backends::cpu {

// Element k of row (o, i) of x, [outer, size, inner], stands at (o * size + k) * inner + i; the
// row's result of `count` indices lies in [outer, count, inner] alike. NaN is the largest, -0
// equals 0, equal elements keep their order, descending ones as well.
struct SortProblem {
  DType dtype = DType::kFloat32;
  int64_t outer = 1, size = 0, inner = 1;
  int64_t count = 0; // from 0 to size
  bool descending = false;
};

// The numbers behind the choices; times from one core with AVX-512 at 2.1 to 3.8 GHz.
struct SortLimits {
  // Rows up to this length are sorted by insertion: quadratic, but without the counters of a radix
  // sort, for which a row of up to some hundred elements takes 1.2 us (int64, with twice the
  // counters: 2.1 us). By insertion 40 float32 take 0.74 us, 64 int64 1.6 us.
  static constexpr int64_t kInsertion = 48, kWideInsertion = 72;
  // As many as this many times `count` elements or more are searched for the `count` first ones;
  // fewer are sorted.
  static constexpr int64_t kSelectFactor = 8;
  // Candidates that a search holds beside twice the `count` best that it knows: so many more are
  // looked at before its bound is a better one. (1024 rows of 1024 float32, the 5 largest: 5.9 ms
  // with 512.)
  static constexpr int64_t kCandidates = 32;
  // Elements that an element is alike in all digits so far, from which on a radix sort takes one
  // digit more: a pass over all elements takes as long as to sort so many of them in pairs.
  static constexpr double kFewAlike = 0.5;
  // Rows along a dim that is not the last one are copied in groups of so many: a cache line of
  // float32, two of indices.
  static constexpr int64_t kColumns = 16;
  // Elements worth a thread of their own.
  static constexpr int64_t kGrain = 8192;
};

// Memory that sort_rows() needs on so many threads.
int64_t sort_scratch_bytes(const SortProblem &problem, int threads);

// Several threads share the rows, or, where there are fewer rows than threads, a row. To be called
// where runtime::parallel_for may be.
void sort_rows(const SortProblem &problem, const void *x, int64_t *indices, void *scratch,
               int threads);

} // namespace weft::backends::cpu

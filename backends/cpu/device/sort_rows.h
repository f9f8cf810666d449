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
  int64_t first = 0, count = 0; // places [first, first + count) of the order, within [0, size]
  bool descending = false;
};

// The numbers behind the choices; times from one core with AVX-512 at 2.1 to 3.8 GHz.
struct SortLimits {
  // Rows up to this length are sorted by insertion: quadratic, but without the counters of a radix
  // sort, for which a row of up to some hundred elements takes 1.2 us (int64, with twice the
  // counters: 2.1 us). By insertion 40 float32 take 0.74 us, 64 int64 1.6 us.
  static constexpr int64_t kInsertion = 48, kWideInsertion = 72;
  // Rows of this length or more have digits of kMostDigitBits where a few places are asked for,
  // shorter ones of 8: 2,048 counters take as long as some 1,000 elements. Of the long ones, with
  // kSelectFactor times `count` elements or more, the first places are searched for instead: one
  // pass, which looks at few elements twice, but has no good bound before it has seen some
  // thousand. (1024 rows of 1024 float32, the 10 largest: 2.2 ms by places, 2.7 by a search; 64
  // rows of 16384: 1.6 and 1.0.)
  static constexpr int64_t kLongRow = 8192;
  static constexpr int kMostDigitBits = 11;
  static constexpr int64_t kSelectFactor = 8;
  // Elements for each place that is asked for, from which on these are found without a sort.
  static constexpr int64_t kPlacesFactor = 4;
  // Keys that are made at a time: few enough to stay in the L1 cache until they are used.
  static constexpr int64_t kKeyBlock = 256;
  // Where no more elements are left, they are put in order without a look at further digits.
  static constexpr int64_t kFewLeft = 64;
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

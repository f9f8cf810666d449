// How far a result of an op may be from reference evaluation: the budget of the op's record.
#pragma once

#include "tests/support/OpModule.h"

namespace weft::tests {

// Units in the last place, or an absolute bound (one for all elements or one for each);
// compareWithin() takes the larger one.
struct Budget {
  double ulps = 0;
  std::vector<double> bound = {};
};

// An f64 result of `op` on x may be off by this many times 2^-53, relatively, because an exponent
// that it computes is rounded before exp magnifies it; 0 where there is no such exponent.
double exponentRoundings(mlir::Operation *op, double x);

// How many terms are added up to one element of the op's results, at most. In float64 the reference
// adds them in order, so that its own sum is off by as many roundings.
double termsOf(OpModule &made);

// The budget of a result of made.op, run in `dtype` on made.inputs; `expected` is the result by
// reference evaluation. Ops whose records are Untested have no budget of their own: such a result
// is compared exactly.
Budget budgetOf(OpModule &made, DType dtype, const ir::HostTensor &expected);

} // namespace weft::tests

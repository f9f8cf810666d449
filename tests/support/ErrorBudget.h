// How far a result of an op may be from reference evaluation: the budget of the op's record.
#pragma once

#include "dialects/weft/ir/OpTable.h"
#include "tests/support/OpModule.h"

namespace weft::tests {

// Units in the last place, or an absolute bound (one for all elements or one for each); compareWithin() takes the larger one.
struct Budget {
  double ulps = 0;
  std::vector<double> bound = {};
};

// The op's row in the table of records: "weft.matmul". Every op that has values of its own has one.
const ir::OpRow &rowOf(llvm::StringRef op);

// The budget of a result of made.op, run in `dtype` on made.inputs; `expected` is the result by reference evaluation.
Budget budgetOf(OpModule &made, DType dtype, const ir::HostTensor &expected);

} // namespace weft::tests

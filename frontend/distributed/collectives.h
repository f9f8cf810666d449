// Functions on tensors that all ranks of a group call together. They are recorded like any call,
// run in the order of recording, and have derivatives; a result is waited for where it is read.
#pragma once

#include "runtime/collective/kinds.h"
#include "weft/distributed/group.h"
#include "weft/tensor.h"

namespace weft::distributed {

// kSum, kMean, kMin, kMax or kProduct of the elements of all ranks. Sums are added up in rank
// order, so that the bits do not depend on timing; a mean is of floating-point dtypes.
using Reduction = runtime::Reduction;

// Errors of all of them: kValue for what no rank may call (a mean of integers), kShape for a dim 0
// that does not divide; kDevice for memory that the host does not read; kRun, where a result is
// read, for ranks that are gone, late, or call something else, with their lines.

// The reduction of all ranks' x, on all ranks. The derivative is that of a loss that is the sum of
// all ranks' losses; max, min and products have none.
Tensor all_reduce(const Tensor &x, Reduction reduction = Reduction::kSum,
                  const Group &group = world(), Location location = Location::current());
// All ranks' x [n, ...] below each other in rank order: [ranks * n, ...].
Tensor all_gather(const Tensor &x, const Group &group = world(),
                  Location location = Location::current());
// This rank's rows of what all_reduce gives: [ranks * n, ...] becomes [n, ...].
Tensor reduce_scatter(const Tensor &x, Reduction reduction = Reduction::kSum,
                      const Group &group = world(), Location location = Location::current());
// x [ranks * n, ...]: rows r n to (r + 1) n go to rank r, and those of the result come from there.
Tensor all_to_all(const Tensor &x, const Group &group = world(),
                  Location location = Location::current());
// x of rank `root`, on all ranks; the others' x says shape and dtype.
Tensor broadcast(const Tensor &x, int root = 0, const Group &group = world(),
                 Location location = Location::current());
// x of each rank goes to rank `to`, and what rank `from` sent comes back, of x's shape and dtype;
// -1: to none, and zeros from none. What one rank sends to another, that one takes from it; a rank
// that is alone may send to itself, which is a copy. The derivative goes the way back, and is a
// call of all ranks, too: x requires a gradient on each, and each one's result is part of its loss.
Tensor send_receive(const Tensor &x, int to, int from, const Group &group = world(),
                    Location location = Location::current());
// Waits until all ranks have come, and until what they recorded before has run.
void barrier(const Group &group = world(), Location location = Location::current());

} // namespace weft::distributed

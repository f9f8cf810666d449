// One model on all ranks, whose optimizer's state is cut among them.
#pragma once

#include <vector>

#include "weft/distributed/collectives.h"

namespace weft::distributed {

// Each rank updates a part of the parameters, and keeps moments for that part alone.
//
//   distributed::ShardedParameters sharded(model.parameters());
//   optim::AdamW optimizer(sharded.shards());
//   ...
//   loss.backward();
//   sharded.reduce_gradients();
//   optimizer.step();
//   sharded.gather();
//
// A step gives what DataParallel's gives, if the update of an element depends on that element's
// gradient alone (not on a norm over all of them).
class ShardedParameters {
public:
  // Sends rank 0's values to all.
  explicit ShardedParameters(std::vector<Tensor> parameters, const Group &group = world(),
                             Location location = Location::current());

  // This rank's parts, rows of elements, to be trained instead of the parameters.
  const std::vector<Tensor> &shards() const {
    return shards_;
  }
  // Gives the shards this rank's part of the mean of all ranks' gradients, and drops the
  // parameters' own. A parameter without a gradient counts as one of zeros, on each rank by itself.
  // Error kState: no parameter has a gradient.
  void reduce_gradients(Location location = Location::current());
  // Gives the parameters the values of all ranks' shards.
  void gather(Location location = Location::current());

private:
  std::vector<Tensor> parameters_, shards_;
  Group group_;
};

} // namespace weft::distributed

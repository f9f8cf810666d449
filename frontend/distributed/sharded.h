// One model on all ranks, whose optimizer's state is cut among them.
#pragma once

#include <memory>
#include <vector>

#include "weft/distributed/collectives.h"
#include "weft/optim/optimizer.h"

namespace weft::distributed {

struct Shards;

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
  const std::vector<Tensor> &shards() const;
  // Gives the shards this rank's part of the mean of all ranks' gradients, and drops the
  // parameters' own. A parameter without a gradient counts as one of zeros, on each rank by itself.
  // Error kState: no parameter has a gradient.
  void reduce_gradients(Location location = Location::current());
  // Gives the parameters the values of all ranks' shards.
  void gather(Location location = Location::current());

  // For checkpoints, of an optimizer over shards(): what state() of one over the whole parameters
  // gives, so that any number of ranks, one without shards included, takes it. All ranks call it;
  // rank 0 gets it, the others nothing.
  nn::NamedTensors whole_state(const optim::Optimizer &optimizer,
                               Location location = Location::current()) const;
  // Gives such an optimizer this rank's part of what whole_state() gave, or state() of an optimizer
  // over the whole parameters; each rank has all of it, mapped from a file at best. Errors: kValue
  // for a name that is missing or unknown, and for parameters of one shard that took different
  // numbers of steps; kShape.
  void load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                        Location location = Location::current()) const;

private:
  std::shared_ptr<Shards> shards_;
};

} // namespace weft::distributed

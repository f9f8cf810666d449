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
// A step gives what DataParallel's gives, if all trained parameters have gradients, and the update
// of an element depends on that element's gradient alone (not on a norm over all of them). A
// trained parameter that no forward uses counts as one with a gradient of zeros, so that weight
// decay and momentum move it, where DataParallel leaves it alone: those that are never used are to
// be frozen.
class ShardedParameters {
public:
  // Sends rank 0's values to all. Parameters that require no gradient now lie in no shard: they
  // stay whole, bit for bit what they are, with no moments. Error kValue: one is given twice.
  explicit ShardedParameters(std::vector<Tensor> parameters, const Group &group = world(),
                             Location location = Location::current());

  // This rank's parts, rows of elements, to be trained instead of the parameters; none where all
  // are frozen.
  const std::vector<Tensor> &shards(Location location = Location::current()) const;
  // Gives the shards this rank's part of the mean of all ranks' gradients, and drops the
  // parameters' own. A trained parameter without a gradient counts as one of zeros, on each rank by
  // itself. Error kState: no parameter has a gradient, or one was frozen or thawed since they were
  // cut.
  void reduce_gradients(Location location = Location::current());
  // optim::clip_grad_norm() by the norm of all ranks' gradients, of which each rank's shards have
  // a part: between reduce_gradients() and the optimizer's step. All ranks call it, and get the
  // same norm. Error kValue unless max_norm > 0.
  Tensor clip_grad_norm(double max_norm, Location location = Location::current());
  // Gives the parameters the values of all ranks' shards.
  void gather(Location location = Location::current());

  // For checkpoints, of an optimizer over shards(): what state() of one over the whole parameters
  // gives, so that any number of ranks, one without shards included, takes it; frozen parameters
  // have moments of zeros and took no step. All ranks call it; rank 0 gets it, the others nothing.
  nn::NamedTensors whole_state(const optim::Optimizer &optimizer,
                               Location location = Location::current()) const;
  // Gives such an optimizer this rank's part of what whole_state() gave, or state() of an optimizer
  // over the whole parameters; each rank has all of it, mapped from a file at best. A parameter
  // that took no step goes by the count of the others of its shard, as one with gradients of zeros;
  // what there is of frozen parameters is dropped. Errors: kValue for a name that is missing or
  // unknown, and for parameters of one shard that took different numbers of steps; kShape.
  void load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                        Location location = Location::current()) const;

private:
  Shards &held(const char *call, Location location) const;
  std::shared_ptr<Shards> shards_;
};

} // namespace weft::distributed

// One model on all ranks, each of which has a part of the parameters, and a layer's whole ones only
// while it computes that layer.
#pragma once

#include <memory>
#include <vector>

#include "weft/distributed/collectives.h"
#include "weft/nn/sequential.h"
#include "weft/optim/optimizer.h"

namespace weft::distributed {

// Layers one after the other, whose parameters, gradients and moments are cut among the ranks. A
// layer's parameters are gathered for its forward and again for its backward, while the layer
// before it is computed; two layers' are there at most.
//
//   distributed::ShardedLayers layers({embed, first, second, head}); // of a Sequential: layers()
//   optim::AdamW optimizer(layers.shards());
//   ...
//   cross_entropy(layers(x), target).backward();
//   layers.reduce_gradients();
//   optimizer.step();
//
// A step gives what DataParallel's gives, but for rounding, under the conditions that
// ShardedParameters states: a trained parameter that its layer does not use counts as one with a
// gradient of zeros. What a layer computes between its input and its result is not kept
// either: backward computes it again, with the same random numbers of the default generator and the
// same buffers.
class ShardedLayers {
public:
  // Sends rank 0's values to all. The modules' parameters read as NaN from then on. Those that
  // require no gradient now are shared out like the others but lie in no shard: they stay bit for
  // bit what they are. Error kValue: a parameter that two layers have.
  explicit ShardedLayers(std::vector<nn::AnyLayer> layers, const Group &group = world(),
                         Location location = Location::current());
  ~ShardedLayers();
  ShardedLayers(ShardedLayers &&) noexcept;
  ShardedLayers &operator=(ShardedLayers &&) noexcept;

  // This rank's parts, rows of elements, to be trained; none where all parameters are frozen.
  const std::vector<Tensor> &shards(Location location = Location::current()) const;
  // All layers. All ranks call it. The result's history ends here: backward() from what was made of
  // it gives it a gradient, which waits for reduce_gradients(). Without history (NoGrad) the layers
  // just run.
  Tensor operator()(const Tensor &x, Location location = Location::current());
  // Goes back through the layers, for all calls since the last time together, and gives the shards
  // this rank's part of the mean of all ranks' gradients; then on through the history of what the
  // layers were given. Error kState: no result of a call has a gradient, or a parameter was frozen
  // or thawed since they were cut. After an error, also of a layer's function, buffers and the
  // generator are what they were before, and all ranks can call it again: the calls wait for that.
  void reduce_gradients(Location location = Location::current());
  // As ShardedParameters::clip_grad_norm().
  Tensor clip_grad_norm(double max_norm, Location location = Location::current());

  // For checkpoints: the parameters as the modules would have them, by the order of layers. All
  // ranks call it; rank 0 gets them, the others nothing.
  std::vector<Tensor> whole_parameters(Location location = Location::current()) const;
  // As ShardedParameters::whole_state().
  nn::NamedTensors whole_state(const optim::Optimizer &optimizer,
                               Location location = Location::current()) const;
  // As ShardedParameters::load_whole_state().
  void load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                        Location location = Location::current()) const;

private:
  struct Impl;
  Impl &held(const char *call, Location location) const;
  std::unique_ptr<Impl> impl_;
};

} // namespace weft::distributed

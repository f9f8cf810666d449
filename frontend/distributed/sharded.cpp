#include "weft/distributed/sharded.h"

#include "frontend/distributed/group_state.h"
#include "frontend/distributed/shards.h"
#include "weft/autograd.h"
#include "weft/eval.h"

namespace weft::distributed {

ShardedParameters::ShardedParameters(std::vector<Tensor> parameters, const Group &group,
                                     Location location) {
  CallerScope scope(location);
  checked(group, "ShardedParameters", location);
  shards_ = std::make_shared<Shards>(std::vector<std::vector<Tensor>>{std::move(parameters)},
                                     /*keep=*/true, group);
}

const std::vector<Tensor> &ShardedParameters::shards() const {
  return shards_->shards;
}

void ShardedParameters::reduce_gradients(Location location) {
  CallerScope scope(location);
  shards_->check_trained("reduce_gradients", location);
  bool any = false;
  for (const Tensor &parameter : shards_->parameters)
    any = any || parameter.grad().defined();
  if (!any)
    throw Error(ErrorKind::kState,
                "reduce_gradients: no parameter has a gradient; call backward() first",
                CallerScope::resolve(location));
  shards_->reduce(0);
}

Tensor ShardedParameters::clip_grad_norm(double max_norm, Location location) {
  CallerScope scope(location);
  return shards_->clip_grad_norm(max_norm, location);
}

void ShardedParameters::gather(Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  size_t next = 0;
  for (const Tensor &values : shards_->gathered(0)) {
    Tensor &parameter = shards_->parameters[next++];
    if (values.defined())
      parameter.copy_(values);
  }
  submit_step(shards_->parameters, location);
}

nn::NamedTensors ShardedParameters::whole_state(const optim::Optimizer &optimizer,
                                                Location location) const {
  CallerScope scope(location);
  return shards_->whole_state(optimizer, location);
}

void ShardedParameters::load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                                         Location location) const {
  CallerScope scope(location);
  shards_->load_whole_state(optimizer, state, location);
}

} // namespace weft::distributed

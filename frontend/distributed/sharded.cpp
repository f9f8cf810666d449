#include "weft/distributed/sharded.h"

#include <unordered_map>

#include "frontend/distributed/group_state.h"
#include "frontend/distributed/shards.h"
#include "weft/autograd.h"
#include "weft/eval.h"

namespace weft::distributed {

ShardedParameters::ShardedParameters(std::vector<Tensor> parameters, const Group &group,
                                     Location location) {
  CallerScope scope(location);
  checked(group, "ShardedParameters", location);
  // The second one's shard would have no gradient, and give back what the first one's was.
  std::unordered_map<const recorder::TensorImpl *, size_t> known;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (auto [first, is_new] = known.try_emplace(parameters[i].impl(), i);
        !is_new && parameters[i].defined())
      fail_at(location, ErrorKind::kValue,
              "ShardedParameters: parameter " + std::to_string(i) + " is parameter " +
                  std::to_string(first->second) +
                  ", too; give each once, as Module::parameters() does");
  shards_ = std::make_shared<Shards>(std::vector<std::vector<Tensor>>{std::move(parameters)},
                                     /*keep=*/true, group);
}

Shards &ShardedParameters::held(const char *call, Location location) const {
  return recorder::held(shards_, call, "ShardedParameters", location);
}

const std::vector<Tensor> &ShardedParameters::shards(Location location) const {
  return held("shards", location).shards;
}

void ShardedParameters::reduce_gradients(Location location) {
  CallerScope scope(location);
  Shards &shards = held("reduce_gradients", location);
  shards.check_trained("reduce_gradients", location);
  bool any = false;
  for (const Tensor &parameter : shards.parameters)
    any = any || parameter.grad().defined();
  if (!any)
    fail_at(location, ErrorKind::kState,
            "reduce_gradients: no parameter has a gradient; call backward() first");
  shards.reduce(0);
}

Tensor ShardedParameters::clip_grad_norm(double max_norm, Location location) {
  CallerScope scope(location);
  return held("clip_grad_norm", location).clip_grad_norm(max_norm, location);
}

void ShardedParameters::gather(Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  Shards &shards = held("gather", location);
  size_t next = 0;
  for (const Tensor &values : shards.gathered(0)) {
    Tensor &parameter = shards.parameters[next++];
    if (values.defined())
      parameter.copy_(values);
  }
  submit_step(shards.parameters, location);
}

nn::NamedTensors ShardedParameters::whole_state(const optim::Optimizer &optimizer,
                                                Location location) const {
  CallerScope scope(location);
  return held("whole_state", location).whole_state(optimizer, location);
}

void ShardedParameters::load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                                         Location location) const {
  CallerScope scope(location);
  held("load_whole_state", location).load_whole_state(optimizer, state, location);
}

} // namespace weft::distributed

#include "weft/distributed/sharded.h"

#include "frontend/distributed/buckets.h"
#include "frontend/distributed/group_state.h"
#include "weft/autograd.h"
#include "weft/eval.h"
#include "weft/ops.h"

namespace weft::distributed {
namespace {

// A row of this size is cut and gathered while the next one is computed.
constexpr int64_t kBucketBytes = int64_t(8) << 20;

} // namespace

ShardedParameters::ShardedParameters(std::vector<Tensor> parameters, const Group &group,
                                     Location location)
    : parameters_(std::move(parameters)), group_(group) {
  CallerScope scope(location);
  checked(group, "ShardedParameters", location);
  NoGrad no_grad;
  std::vector<Tensor> made;
  for (Bucket bucket : buckets_of(parameters_, kBucketBytes)) {
    Tensor row = broadcast(row_of(parameters_, bucket, group_.size()), 0, group_);
    size_t next = bucket.first;
    for (const Tensor &values : parts_of(row, parameters_, bucket))
      parameters_[next++].copy_(values);
    int64_t part = row.numel() / group_.size();
    shards_.push_back(row.narrow(0, group_.rank() * part, part).clone());
  }
  made = shards_;
  made.insert(made.end(), parameters_.begin(), parameters_.end());
  eval(made);
  for (Tensor &shard : shards_) {
    // In memory of its own: the row goes.
    shard = shard.detach().clone();
    shard.set_requires_grad();
  }
}

void ShardedParameters::reduce_gradients(Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  std::vector<Tensor> gradients;
  bool any = false;
  for (const Tensor &parameter : parameters_) {
    Tensor gradient = parameter.grad();
    any = any || gradient.defined();
    gradients.push_back(gradient.defined() ? gradient : zeros_like(parameter));
  }
  if (!any)
    throw Error(ErrorKind::kState,
                "reduce_gradients: no parameter has a gradient; call backward() first",
                CallerScope::resolve(location));
  size_t next = 0;
  for (Bucket bucket : buckets_of(parameters_, kBucketBytes))
    shards_[next++].set_grad(
        reduce_scatter(row_of(gradients, bucket, group_.size()), Reduction::kMean, group_));
  for (Tensor &parameter : parameters_)
    parameter.zero_grad();
}

void ShardedParameters::gather(Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  size_t next_shard = 0;
  for (Bucket bucket : buckets_of(parameters_, kBucketBytes)) {
    Tensor row = all_gather(shards_[next_shard++], group_);
    size_t next = bucket.first;
    for (const Tensor &values : parts_of(row, parameters_, bucket))
      parameters_[next++].copy_(values);
  }
  submit_step(parameters_, location);
}

} // namespace weft::distributed

#include "frontend/distributed/shards.h"

#include "frontend/distributed/group_state.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/distributed/collectives.h"
#include "weft/eval.h"
#include "weft/nn/init.h"
#include "weft/ops.h"
#include "weft/optim/clip.h"

namespace weft::distributed {
namespace {

// A row of this size is cut and gathered while the next one is computed.
constexpr int64_t kBucketBytes = int64_t(8) << 20;

} // namespace

Shards::Shards(const std::vector<std::vector<Tensor>> &runs, bool keep, const Group &of)
    : group(of) {
  NoGrad no_grad;
  first_bucket.push_back(0);
  for (const std::vector<Tensor> &run : runs) {
    for (Bucket bucket : buckets_of(run, kBucketBytes))
      buckets.push_back({parameters.size() + bucket.first, parameters.size() + bucket.last});
    parameters.insert(parameters.end(), run.begin(), run.end());
    first_bucket.push_back(buckets.size());
  }
  for (Bucket bucket : buckets) {
    bool trained = parameters[bucket.first].requires_grad();
    is_trained.push_back(trained);
    // Ranks that train other parameters would make other exchanges later.
    Tensor row = broadcast_of((trained ? "" : "frozen ") + describe_values(parameters, bucket),
                              row_of(parameters, bucket, group.size()), 0, group);
    int64_t part = row.numel() / group.size();
    // In memory of its own: the row goes.
    parts.push_back(trained || !keep ? nn::init::copy_of(row.narrow(0, group.rank() * part, part))
                                     : Tensor());
    if (trained) {
      shards.push_back(parts.back().set_requires_grad());
      bucket_of_shard.push_back(parts.size() - 1);
    }
    if (keep) {
      copy_parts(row, parameters, bucket);
      eval(std::span(parameters).subspan(bucket.first, bucket.last - bucket.first));
    } else {
      for (size_t i = bucket.first; i < bucket.last; ++i)
        recorder::replace(parameters[i], {});
    }
  }
}

void Shards::check_trained(const char *op, Location location) const {
  for (size_t i = 0; i < buckets.size(); ++i)
    for (size_t p = buckets[i].first; p < buckets[i].last; ++p)
      if (parameters[p].requires_grad() != is_trained[i])
        fail_at(location, ErrorKind::kState,
                std::string(op) + ": parameter " + std::to_string(p) + ", " +
                    name(parameters[p].dtype()) + " " + to_string(parameters[p].shape()) +
                    ", requires " +
                    (is_trained[i] ? "no gradient now, and required one"
                                   : "a gradient now, and required none") +
                    " when the parameters were cut; call set_requires_grad() before, or cut "
                    "them and make the optimizer again");
}

void Shards::reduce(size_t run) {
  NoGrad no_grad;
  for (size_t i = first_bucket[run]; i < first_bucket[run + 1]; ++i) {
    if (!is_trained[i])
      continue;
    Bucket bucket = buckets[i];
    std::vector<Tensor> gradients;
    std::string operand = "gradients of " + describe_values(parameters, bucket);
    for (size_t p = bucket.first; p < bucket.last; ++p) {
      Tensor gradient = parameters[p].grad();
      gradients.push_back(gradient.defined() ? gradient : zeros_like(parameters[p]));
      parameters[p].zero_grad();
    }
    parts[i].set_grad(reduce_scatter_of(
        operand, row_of(gradients, {0, gradients.size()}, group.size()), Reduction::kMean, group));
  }
}

Tensor Shards::clip_grad_norm(double max_norm, Location location) {
  return optim::clip_by_norm(
      shards, max_norm,
      [&](const Tensor &squares) {
        return all_reduce_of("squares of gradients", squares, Reduction::kSum, group);
      },
      location);
}

std::vector<Tensor> Shards::gathered(size_t run) const {
  NoGrad no_grad;
  std::vector<Tensor> values;
  for (size_t i = first_bucket[run]; i < first_bucket[run + 1]; ++i) {
    if (!parts[i].defined()) {
      values.resize(values.size() + buckets[i].last - buckets[i].first);
      continue;
    }
    for (Tensor &each : parts_of(all_gather(parts[i], group), parameters, buckets[i]))
      values.push_back(std::move(each));
  }
  return values;
}

} // namespace weft::distributed

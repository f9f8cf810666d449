#include "frontend/distributed/shards.h"

#include "frontend/distributed/group_state.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/distributed/collectives.h"
#include "weft/eval.h"
#include "weft/nn/init.h"
#include "weft/ops.h"

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
    Tensor row = broadcast_of(describe_values(parameters, bucket),
                              row_of(parameters, bucket, group.size()), 0, group);
    int64_t part = row.numel() / group.size();
    // In memory of its own: the row goes.
    shards.push_back(nn::init::copy_of(row.narrow(0, group.rank() * part, part)));
    shards.back().set_requires_grad();
    if (keep) {
      copy_parts(row, parameters, bucket);
      eval(std::span(parameters).subspan(bucket.first, bucket.last - bucket.first));
    } else {
      for (size_t i = bucket.first; i < bucket.last; ++i)
        recorder::replace(parameters[i], {});
    }
  }
}

void Shards::reduce(size_t run) {
  NoGrad no_grad;
  for (size_t i = first_bucket[run]; i < first_bucket[run + 1]; ++i) {
    Bucket bucket = buckets[i];
    std::vector<Tensor> gradients;
    std::string operand = "gradients of " + describe_values(parameters, bucket);
    for (size_t p = bucket.first; p < bucket.last; ++p) {
      Tensor gradient = parameters[p].grad();
      gradients.push_back(gradient.defined() ? gradient : zeros_like(parameters[p]));
      parameters[p].zero_grad();
    }
    shards[i].set_grad(reduce_scatter_of(
        operand, row_of(gradients, {0, gradients.size()}, group.size()), Reduction::kMean, group));
  }
}

std::vector<Tensor> Shards::gathered(size_t run) const {
  NoGrad no_grad;
  std::vector<Tensor> values;
  for (size_t i = first_bucket[run]; i < first_bucket[run + 1]; ++i)
    for (Tensor &part : parts_of(all_gather(shards[i], group), parameters, buckets[i]))
      values.push_back(std::move(part));
  return values;
}

} // namespace weft::distributed

// Parameters as rows of elements that are cut into one part a rank: what ShardedParameters and
// ShardedLayers have in common.
#pragma once

#include <vector>

#include "frontend/distributed/buckets.h"
#include "weft/distributed/group.h"
#include "weft/optim/optimizer.h"

namespace weft::distributed {

struct Shards {
  // The parameters one run of them after the other: no shard has some of two runs. Sends rank 0's
  // values to all. keep: the parameters keep them, else they give their memory back, a bucket at a
  // time. Which parameters require a gradient now says which ones are trained.
  Shards(const std::vector<std::vector<Tensor>> &runs, bool keep, const Group &group);

  // Gives the shards of a run this rank's part of the mean of all ranks' gradients of its
  // parameters, which lose theirs.
  void reduce(size_t run);
  // Error kState: a parameter requires a gradient now and did not at construction, or the other way
  // round. `op` is what the user calls.
  void check_trained(const char *op, Location location) const;
  // clip_grad_norm() of the whole gradients.
  Tensor clip_grad_norm(double max_norm, Location location);
  // The values of a run's parameters, from all ranks' parts; undefined for those that are whole on
  // each rank.
  std::vector<Tensor> gathered(size_t run) const;

  // ShardedParameters says what these do.
  nn::NamedTensors whole_state(const optim::Optimizer &optimizer, Location location) const;
  void load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                        Location location) const;
  // What rank 0 gets of tensors that are cut as the buckets are: one for each parameter, in its
  // shape, of zeros where the bucket's is undefined; the other ranks get none.
  std::vector<Tensor> whole(const std::vector<Tensor> &cut) const;
  // This rank's part of the tensors' elements, as they lie in a bucket.
  Tensor part_of(const std::vector<Tensor> &tensors, Bucket bucket) const;

  size_t runs() const {
    return first_bucket.size() - 1;
  }

  Group group;
  std::vector<Tensor> parameters;
  std::vector<Bucket> buckets;
  std::vector<size_t> first_bucket; // of each run, and the end
  // This rank's part of each bucket; undefined where frozen parameters are kept whole.
  std::vector<Tensor> parts;
  // The parts that are trained, and their buckets. A frozen parameter lies in no shard, since
  // weight decay and moments move whatever an optimizer is given.
  std::vector<Tensor> shards;
  std::vector<size_t> bucket_of_shard;
  std::vector<bool> is_trained; // by bucket
};

} // namespace weft::distributed

// One model on all ranks, each with a part of every batch.
#pragma once

#include <vector>

#include "weft/distributed/collectives.h"

namespace weft::distributed {

struct DataParallelOptions {
  // Gradients of one dtype and device travel together, in pieces of about so many bytes: small ones
  // cost a message each, large ones begin late. 0: a quarter of the parameters' bytes, so that most
  // of them travel behind the backward, but 1 MiB at least and 8 MiB at most.
  int64_t bucket_bytes = 0;
};

// Keeps replicas of parameters the same: they start as rank 0's, and gradients become the mean over
// the ranks.
//
//   distributed::DataParallel replicas(model.parameters());
//   ...
//   loss.backward();
//   replicas.reduce_gradients();
//   optimizer.step();
//
// Gradients that add up over several backwards are reduced once, after the last.
class DataParallel {
public:
  // Sends rank 0's values to all. A model's buffers are no parameters: where ranks must have the
  // same ones, they stand among these tensors, and are left alone later, since they have no
  // gradients.
  explicit DataParallel(std::vector<Tensor> parameters, const Group &group = world(),
                        DataParallelOptions options = {}, Location location = Location::current());

  // Gives each parameter that has a gradient the mean of all ranks' gradients. The last parameters'
  // come first, as a backward makes them, so that they travel while it goes on. All ranks must have
  // gradients for the same parameters. Errors: kState, no parameter has a gradient; kRun on all
  // ranks, where a gradient is read, if a parameter has one on some ranks alone, with its number.
  void reduce_gradients(Location location = Location::current());

  // The ranks that have replicas.
  const Group &group() const {
    return group_;
  }

private:
  std::vector<Tensor> parameters_;
  Group group_;
  DataParallelOptions options_;
};

} // namespace weft::distributed

#include "weft/distributed/data_parallel.h"

#include "frontend/distributed/buckets.h"
#include "frontend/distributed/group_state.h"
#include "weft/autograd.h"
#include "weft/eval.h"

namespace weft::distributed {
DataParallel::DataParallel(std::vector<Tensor> parameters, const Group &group,
                           DataParallelOptions options, Location location)
    : parameters_(std::move(parameters)), group_(group), options_(options) {
  CallerScope scope(location);
  checked(group, "DataParallel", location);
  if (options.bucket_bytes < 1)
    throw Error(ErrorKind::kValue,
                "DataParallel: bucket_bytes is " + std::to_string(options.bucket_bytes) +
                    "; it must be positive",
                CallerScope::resolve(location));
  NoGrad no_grad;
  for (Bucket bucket : buckets_of(parameters_, options_.bucket_bytes))
    copy_parts(broadcast(row_of(parameters_, bucket), 0, group_), parameters_, bucket);
  eval(parameters_);
}

void DataParallel::reduce_gradients(Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  std::vector<Tensor> gradients;
  std::vector<size_t> owners;
  // The last layers' gradients are made first.
  for (size_t i = parameters_.size(); i-- > 0;)
    if (Tensor gradient = parameters_[i].grad(); gradient.defined()) {
      gradients.push_back(gradient);
      owners.push_back(i);
    }
  if (gradients.empty())
    throw Error(ErrorKind::kState,
                "reduce_gradients: no parameter has a gradient; call backward() first",
                CallerScope::resolve(location));
  for (Bucket bucket : buckets_of(gradients, options_.bucket_bytes)) {
    Tensor row = all_reduce(row_of(gradients, bucket), Reduction::kMean, group_);
    size_t next = bucket.first;
    for (const Tensor &values : parts_of(row, gradients, bucket))
      parameters_[owners[next++]].set_grad(values);
  }
}

} // namespace weft::distributed

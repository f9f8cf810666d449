#include "weft/distributed/data_parallel.h"

#include "frontend/autograd/gradient_rows.h"
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
  if (options.bucket_bytes < 0)
    fail_at(location, ErrorKind::kValue,
            "DataParallel: bucket_bytes is " + std::to_string(options.bucket_bytes) +
                "; it must be positive, or 0 for one that follows from the parameters");
  if (options.bucket_bytes == 0) {
    int64_t bytes = 0;
    for (const Tensor &parameter : parameters_)
      bytes += parameter.nbytes();
    options_.bucket_bytes = recorder::gradient_row_bytes(bytes);
  }
  NoGrad no_grad;
  for (Bucket bucket : buckets_of(parameters_, options_.bucket_bytes))
    copy_parts(
        broadcast_of(describe_values(parameters_, bucket), row_of(parameters_, bucket), 0, group_),
        parameters_, bucket);
  eval(parameters_);
}

void DataParallel::reduce_gradients(Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  // The last layers' gradients are made first. Buckets follow from what is trained, not from what
  // has a gradient now: so they are the same on all ranks, and a gradient that one rank lacks is
  // named.
  std::vector<Tensor> trained;
  std::vector<size_t> numbers;
  bool any = false;
  for (size_t i = parameters_.size(); i-- > 0;) {
    bool has_gradient = parameters_[i].grad().defined();
    any = any || has_gradient;
    if (has_gradient || parameters_[i].requires_grad()) {
      trained.push_back(parameters_[i]);
      numbers.push_back(i);
    }
  }
  if (!any)
    fail_at(location, ErrorKind::kState,
            "reduce_gradients: no parameter has a gradient; call backward() first");
  for (Bucket bucket : buckets_of(trained, options_.bucket_bytes)) {
    std::vector<Tensor> gradients, owners;
    for (size_t i = bucket.first; i < bucket.last; ++i)
      if (Tensor gradient = trained[i].grad(); gradient.defined()) {
        gradients.push_back(gradient);
        owners.push_back(trained[i]);
      }
    // Called all the same: the others may have them.
    if (gradients.empty()) {
      DeviceScope its_device(trained[bucket.first].device());
      gradients.push_back(zeros({1}, trained[bucket.first].dtype()));
    }
    Bucket all{0, gradients.size()};
    std::string operand =
        describe_gradients(parameters_, {numbers[bucket.last - 1], numbers[bucket.first] + 1});
    Tensor row = all_reduce_of(operand, row_of(gradients, all), Reduction::kMean, group_);
    std::vector<Tensor> means = parts_of(row, gradients, all);
    for (size_t i = 0; i < owners.size(); ++i)
      owners[i].set_grad(means[i]);
  }
}

} // namespace weft::distributed

#include "frontend/distributed/buckets.h"

#include "weft/composites.h"
#include "weft/ops.h"

namespace weft::distributed {
namespace {

// "0 to 2, 4" of ascending numbers.
std::string describe_numbers(const std::vector<size_t> &numbers) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;)
      ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[begin]);
    if (end - begin > 1)
      text += " to " + std::to_string(numbers[end - 1]);
  }
  return text;
}

} // namespace

std::vector<Bucket> buckets_of(const std::vector<Tensor> &tensors, int64_t bytes) {
  std::vector<Bucket> buckets;
  int64_t used = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &x = tensors[i];
    bool fits = !buckets.empty() && used + x.nbytes() <= bytes &&
                x.dtype() == tensors[i - 1].dtype() && x.device() == tensors[i - 1].device() &&
                x.requires_grad() == tensors[i - 1].requires_grad();
    if (!fits) {
      buckets.push_back({i, i});
      used = 0;
    }
    buckets.back().last = i + 1;
    used += x.nbytes();
  }
  return buckets;
}

Tensor row_of(const std::vector<Tensor> &tensors, Bucket bucket, int64_t parts) {
  std::vector<Tensor> rows;
  int64_t elements = 0;
  for (size_t i = bucket.first; i < bucket.last; ++i) {
    rows.push_back(tensors[i].detach().reshape({-1}));
    elements += tensors[i].numel();
  }
  if (int64_t missing = (parts - elements % parts) % parts) {
    DeviceScope scope(rows[0].device());
    rows.push_back(zeros({missing}, rows[0].dtype()));
  }
  return rows.size() == 1 ? rows[0] : cat(rows);
}

std::vector<Tensor> parts_of(const Tensor &row, const std::vector<Tensor> &tensors, Bucket bucket) {
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (size_t i = bucket.first; i < bucket.last; ++i) {
    parts.push_back(row.narrow(0, at, tensors[i].numel()).reshape(tensors[i].shape()));
    at += tensors[i].numel();
  }
  return parts;
}

void copy_parts(const Tensor &row, std::vector<Tensor> &tensors, Bucket bucket) {
  size_t next = bucket.first;
  for (const Tensor &values : parts_of(row, tensors, bucket))
    tensors[next++].copy_(values);
}

std::string describe_values(const std::vector<Tensor> &parameters, Bucket range) {
  std::vector<size_t> numbers;
  std::string shapes;
  for (size_t i = range.first; i < range.last; ++i) {
    numbers.push_back(i);
    shapes += " " + to_string(parameters[i].shape());
  }
  return "parameters " + describe_numbers(numbers) + ":" + shapes;
}

std::string describe_gradients(const std::vector<Tensor> &parameters, Bucket range) {
  std::vector<size_t> there, missing;
  for (size_t i = range.first; i < range.last; ++i)
    if (parameters[i].grad().defined())
      there.push_back(i);
    else if (parameters[i].requires_grad())
      missing.push_back(i);
  std::string text = "gradients of parameters " + describe_numbers(there);
  if (!missing.empty()) {
    const Tensor &first = parameters[missing[0]];
    text += "; none of " + describe_numbers(missing) + " (" + name(first.dtype()) + " " +
            to_string(first.shape()) + ")";
  }
  return text;
}

} // namespace weft::distributed

#include "frontend/distributed/buckets.h"

#include "weft/composites.h"
#include "weft/ops.h"

namespace weft::distributed {

std::vector<Bucket> buckets_of(const std::vector<Tensor> &tensors, int64_t bytes) {
  std::vector<Bucket> buckets;
  int64_t used = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &x = tensors[i];
    bool fits = !buckets.empty() && used + x.nbytes() <= bytes &&
                x.dtype() == tensors[i - 1].dtype() && x.device() == tensors[i - 1].device();
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

} // namespace weft::distributed

#include "weft/nn/embedding.h"

#include "weft/autograd.h"
#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::nn {

Embedding::Embedding(int64_t count, int64_t size, EmbeddingOptions options, Location location) {
  CallerScope scope(location);
  if (count < 1 || size < 1)
    fail_at(location, ErrorKind::kValue,
            "Embedding: count and size must be at least 1, they are " + std::to_string(count) +
                " and " + std::to_string(size));
  Tensor drawn = init::normal({count, size}, 0, options.deviation);
  if (std::optional<int64_t> row = options.padding_idx) {
    if (*row < -count || *row >= count)
      fail_at(location, ErrorKind::kValue,
              "Embedding: padding_idx is " + std::to_string(*row) + "; it must be in [" +
                  std::to_string(-count) + ", " + std::to_string(count) + "), a row of the weight");
    padding_ = *row < 0 ? *row + count : *row;
    NoGrad no_grad;
    drawn[*padding_].zero_();
  }
  weight = parameter("weight", std::move(drawn));
}

Tensor Embedding::operator()(const Tensor &indices, Location location) const {
  ModuleCall scope(*this, location);
  Tensor rows = weft::embedding(indices, weight);
  if (!padding_)
    return rows;
  Tensor at = where(indices < 0, indices + weight.shape()[0], indices);
  return where((at == *padding_).unsqueeze(-1), rows.detach(), rows);
}

} // namespace weft::nn

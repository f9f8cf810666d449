#include "weft/nn/embedding.h"

#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::nn {

Embedding::Embedding(int64_t count, int64_t size, EmbeddingOptions options, Location location) {
  CallerScope scope(location);
  if (count < 1 || size < 1)
    throw Error(ErrorKind::kValue,
                "Embedding: count and size must be at least 1, they are " + std::to_string(count) + " and " + std::to_string(size),
                CallerScope::resolve(location));
  weight = parameter("weight", init::normal({count, size}, 0, options.deviation));
}

Tensor Embedding::operator()(const Tensor &indices, Location location) const {
  CallerScope scope(location);
  return weft::embedding(indices, weight);
}

} // namespace weft::nn

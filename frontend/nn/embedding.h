// A table of vectors, looked up by number.
#pragma once

#include "weft/nn/module.h"

namespace weft::nn {

struct EmbeddingOptions {
  double deviation = 1; // of the normal distribution that the vectors start from; 1 as in PyTorch
  // Stands for no word: its vector starts as 0 and gets no gradient. Negative: counts from the end.
  std::optional<int64_t> padding_idx = {};
};

// indices: [..], int32 or int64, in [-count, count) -> [.., size]; weight: [count, size].
class Embedding : public Module {
public:
  // Throws Error when a size is below 1, or padding_idx is no row.
  Embedding(int64_t count, int64_t size, EmbeddingOptions options = {},
            Location location = Location::current());

  Tensor operator()(const Tensor &indices, Location location = Location::current()) const;

  Parameter weight;

private:
  std::optional<int64_t> padding_; // counted from the front
};

} // namespace weft::nn

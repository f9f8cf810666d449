// A table of vectors, looked up by number.
#pragma once

#include "weft/nn/module.h"

namespace weft::nn {

struct EmbeddingOptions {
  double deviation = 1; // of the normal distribution that the vectors start from; 1 as in PyTorch
};

// indices: [..], int32 or int64, in [-count, count) -> [.., size]; weight: [count, size].
class Embedding : public Module {
public:
  // Throws Error when a size is below 1.
  Embedding(int64_t count, int64_t size, EmbeddingOptions options = {}, Location location = Location::current());

  Tensor operator()(const Tensor &indices, Location location = Location::current()) const;

  Parameter weight;
};

} // namespace weft::nn

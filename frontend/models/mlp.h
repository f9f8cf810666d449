// A multilayer perceptron: linear layers with relu between (Rumelhart et al. 1986, "Learning
// representations by back-propagating errors"). Names are those of torchvision's ops.MLP.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// Layers between inputs and the last of sizes; there is no relu behind the last one.
struct MlpConfig {
  int64_t inputs = 8192;
  std::vector<int64_t> sizes = {8192, 8192, 8192}; // of each layer's result
  double dropout = 0;                              // after each layer

  static MlpConfig mlp_3x8192(); // the defaults: 201 million parameters
};

// x: [.., inputs] -> [.., the last size].
class Mlp : public nn::Sequential {
public:
  // Throws Error when there is no layer, or a size is below 1.
  explicit Mlp(const MlpConfig &config = {}, Location location = Location::current());
};

} // namespace weft::models

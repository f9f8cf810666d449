#include "weft/models/mlp.h"

#include "weft/models/registry.h"

namespace weft::models {

MlpConfig MlpConfig::mlp_3x8192() {
  return {};
}

Mlp::Mlp(const MlpConfig &config, Location location) {
  require(!config.sizes.empty(), "Mlp", "there must be at least one layer", location);
  int64_t in = config.inputs;
  for (size_t i = 0; i < config.sizes.size(); ++i) {
    append(nn::Linear(in, config.sizes[i], {}, location), location);
    if (i + 1 < config.sizes.size())
      append(nn::ReLU(), location);
    append(nn::Dropout(config.dropout, location), location);
    in = config.sizes[i];
  }
}

namespace {
const Registration<Mlp> mlp_3x8192({.name = "mlp_3x8192",
                                    .kind = "perceptron",
                                    .source = "Rumelhart et al. 1986, Learning representations by "
                                              "back-propagating errors",
                                    .inputs = {{.sample = {8192}}}},
                                   MlpConfig::mlp_3x8192());
} // namespace

} // namespace weft::models

// The training run of this model on these images (examples/common/classifier.h).
#pragma once

#include <string>

#include "examples/common/classifier.h"
#include "examples/digits/model.h"
#include "weft/data/idx.h"

namespace digits {

// What a run is, apart from its data.
struct RunOptions {
  ModelSizes sizes;
  int64_t epochs = 20;
  int64_t batch = 64;
  double lr = 3e-3;
  uint64_t seed = 1;
};

using examples::Confusion;

class Trainer {
public:
  Trainer(const RunOptions &options, weft::data::IdxDataset train, weft::data::IdxDataset test);

  // As ClassifierTrainer's.
  void resume(const std::string &path) {
    trainer_.resume(path);
  }
  void run(const std::string &folder) {
    trainer_.run(folder);
  }
  Confusion test() {
    return trainer_.test().confusion;
  }
  int64_t epochs_done() const {
    return trainer_.epochs_done();
  }
  DigitsNet &model() {
    return model_;
  }

private:
  DigitsNet model_;
  examples::ClassifierTrainer trainer_;
};

} // namespace digits

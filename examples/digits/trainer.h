// The training run: epochs, test accuracy, checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examples/digits/model.h"
#include "weft/data/idx.h"
#include "weft/data/loader.h"
#include "weft/optim/optim.h"

namespace digits {

// What a run is, apart from its data.
struct RunOptions {
  ModelSizes sizes;
  int64_t epochs = 20;
  int64_t batch = 64;
  double lr = 3e-3;
  uint64_t seed = 1;
};

// How often each class was taken for each: row: what it is, column: what it was taken for.
struct Confusion {
  int64_t classes = 0;
  std::vector<int64_t> counts;

  int64_t at(int64_t is, int64_t taken) const {
    return counts[static_cast<size_t>(is * classes + taken)];
  }
  int64_t total() const;
  double accuracy() const; // 0 to 1
};

class Trainer {
public:
  Trainer(RunOptions options, weft::data::IdxDataset train, weft::data::IdxDataset test);

  // Takes up the run that the file holds. Throws weft::Error when it is missing, damaged, or of
  // another model or other options.
  void resume(const std::string &path);
  // Runs the epochs that are left, with a progress bar; after each, folder/checkpoint.safetensors
  // is replaced in one step. folder/curve.csv has the loss of every step and the test accuracy
  // after each epoch. A run that is killed at any moment and resumed leaves the same two files as
  // if it had not been. Throws weft::Error when a file cannot be written or the loss is not finite.
  void run(const std::string &folder);
  // Of the test images, in evaluation.
  Confusion test();

  DigitsNet &model() {
    return model_;
  }
  int64_t epochs_done() const {
    return epoch_;
  }

private:
  void save(const std::string &path);

  RunOptions options_;
  weft::data::IdxDataset test_;
  DigitsNet model_;
  weft::optim::AdamW optimizer_;
  weft::data::DataLoader loader_;
  int64_t epoch_ = 0; // done
};

} // namespace digits

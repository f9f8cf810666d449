// The training run of an image classifier: epochs, tests, checkpoints, the curve.
#pragma once

#include <functional>
#include <string>

#include "examples/common/confusion.h"
#include "weft/data/loader.h"
#include "weft/nn/module.h"
#include "weft/optim/optim.h"

namespace examples {

struct ClassifierOptions {
  int64_t classes = 0;
  int64_t epochs = 20;
  int64_t batch = 64;
  double lr = 3e-3; // the highest one
  uint64_t seed = 1;
  int64_t checkpoint_every = 0; // steps within an epoch, whose end always has one; 0: none there
  weft::DType precision = weft::float32; // of products and convolutions; the loss is scaled in
                                         // float16
  std::string format;                    // of the checkpoint: names the program
  std::string run; // everything of a run that a checkpoint must agree with, as text
};

// Of the images that a classifier is tested on.
struct Tested {
  Confusion confusion;
  int64_t in_top = 0; // whose class is among the five likeliest, or all of them

  double top_share() const; // 0 to 1
};

class ClassifierTrainer {
public:
  // images [N, ..] -> logits [N, classes], with the module's parameters.
  using Model = std::function<weft::Tensor(const weft::Tensor &images)>;
  static constexpr int64_t kTop = 5;

  // Throws weft::Error when the set to train on has fewer items than a batch, or the other none.
  ClassifierTrainer(ClassifierOptions options, weft::nn::Module module, Model model,
                    weft::data::DatasetPtr train, weft::data::DatasetPtr test);

  // Takes up the run that the file holds. Throws weft::Error when it is missing, damaged, or of
  // another model or other options.
  void resume(const std::string &path);
  // Runs what is left, with a progress bar; after each epoch, and within it as often as the options
  // say, folder/checkpoint.safetensors is replaced in one step. folder/curve.csv has the loss of
  // every step and the test accuracy after each epoch. A run that is killed at any moment and
  // resumed leaves the same two files as if it had not been. Throws weft::Error when a file cannot
  // be written or read, or the loss is not finite.
  void run(const std::string &folder);
  // Of the test images, in evaluation. Throws weft::Error when a logit is no finite number.
  Tested test();

  int64_t epochs_done() const {
    return epoch_;
  }
  int64_t steps_done() const {
    return epoch_ * loader_.batches() + batch_;
  }

private:
  weft::Tensor step(const weft::data::Batch &batch);
  // Under the scope of the precision.
  weft::Tensor logits(const weft::Tensor &images);
  void save(const std::string &path);

  ClassifierOptions options_;
  weft::nn::Module module_;
  Model model_;
  weft::data::DatasetPtr test_;
  weft::optim::AdamW optimizer_;
  weft::optim::LossScaler scaler_;
  weft::data::DataLoader loader_;
  int64_t epoch_ = 0, batch_ = 0; // done, and of the epoch after them
};

} // namespace examples

// Models of the library as benchmarks run them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/models/registry.h"
#include "weft/weft.h"

namespace weft::benchmarks {

// Cases are named MODEL_BATCH: "resnet50_8".
struct ModelName {
  explicit ModelName(const std::string &name)
      : model(name.substr(0, name.rfind('_'))),
        batch(std::atoll(name.c_str() + name.rfind('_') + 1)) {}
  std::string model;
  int64_t batch;
};

// All models with one sample, and with the batch that they are trained with here: activations take
// some 100 MB to 1 GB.
std::vector<std::string> inference_cases();
std::vector<std::string> training_cases();

// A model with random parameters, inputs, and SGD with momentum; models.py has the same.
class ModelCase {
public:
  // lower: what forward is cast to in training (weft/autocast.h). Throws Error where there is no
  // such model.
  explicit ModelCase(const std::string &name, std::optional<DType> lower = {});

  // Results for one of two batches, which take turns: in use, they are new each time. For a model
  // in eval().
  std::vector<Tensor> infer();
  // From here on infer() calls the network as one jit function.
  void jit_forward();
  // A step of training as users write it; gradients stay until the next one. The loss is a number
  // that each parameter has a gradient of: that with which the model's kind is trained, or the mean
  // square of its first result.
  // labels: the classes of images; undefined: all are of class 0.
  Tensor step(const std::vector<Tensor> &given, const Tensor &labels = {});
  bool is_classifier() const {
    return kind_ == models::kImageClassifier;
  }

  const std::vector<Tensor> &inputs() const {
    return inputs_;
  }
  nn::Module &module() {
    return model_.module();
  }
  optim::SGD &optimizer() {
    return optimizer_;
  }

private:
  Tensor loss_of(const std::vector<Tensor> &results, const std::vector<Tensor> &given,
                 const Tensor &labels) const;

  std::string kind_;
  models::AnyModel model_;
  std::function<std::vector<Tensor>(const std::vector<Tensor> &)> forward_;
  optim::SGD optimizer_;
  std::vector<Tensor> inputs_, others_;
  std::optional<DType> lower_;
};

} // namespace weft::benchmarks

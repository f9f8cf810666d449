#include "benchmarks/train/model_step.h"

#include <memory>

#include "weft/models/registry.h"

namespace weft::benchmarks {
namespace {

struct Training {
  models::Record record;
  models::AnyModel model;
  optim::SGD optimizer;
  std::vector<Tensor> inputs;
  Tensor target;
  std::optional<DType> lower;

  // The loss that the model's kind is trained with, or the mean square of its first result.
  Tensor loss() const {
    Autocast scope(lower.value_or(bfloat16), lower.has_value());
    Tensor out = model(inputs)[0];
    if (record.kind == models::kImageClassifier)
      return nn::cross_entropy(out, target);
    if (record.kind == "language model")
      return nn::cross_entropy(out.reshape({-1, out.size(-1)}), inputs[0].reshape({-1}));
    return (out * out).mean();
  }
};

} // namespace

std::function<Tensor()> make_model_step(const std::string &name, int64_t batch,
                                        std::optional<DType> lower) {
  manual_seed(1);
  models::Record record = models::find(name);
  models::AnyModel model = record.make();
  optim::SGD optimizer(model.module().parameters(), {.lr = 1e-3, .momentum = 0.9});
  auto training = std::make_shared<Training>(
      Training{record, model, optimizer, record.example(batch), randint(0, 10, {batch}), lower});
  eval(training->inputs);
  training->target.eval();
  return [training] {
    training->optimizer.zero_grad();
    Tensor loss = training->loss();
    loss.backward();
    training->optimizer.step();
    return loss;
  };
}

} // namespace weft::benchmarks

#include "benchmarks/models/model_case.h"

#include <map>

namespace weft::benchmarks {
namespace {

constexpr int64_t kBatch = 8; // but for
const std::map<std::string, int64_t> kBatches = {
    {"alexnet", 16}, {"convnext_tiny", 4}, {"gpt2", 4},  {"mlp_3x8192", 32}, {"resnet18", 16},
    {"unet", 2},     {"vae", 128},         {"vgg11", 4}, {"vgg16", 4},       {"vgg19", 4}};

// All contestants have a case at the same time: this one takes 4 GB in each, 13 in training.
const std::string kTooLarge = "tinyllama";

models::Record record_of(const std::string &name) {
  return models::find(ModelName(name).model);
}

} // namespace

std::vector<std::string> inference_cases() {
  std::vector<std::string> names;
  for (const models::Record &record : models::all())
    if (record.name != kTooLarge)
      names.push_back(record.name + "_1");
  return names;
}

std::vector<std::string> training_cases() {
  std::vector<std::string> names;
  for (const models::Record &record : models::all()) {
    if (record.name == kTooLarge)
      continue;
    auto found = kBatches.find(record.name);
    names.push_back(record.name + "_" +
                    std::to_string(found == kBatches.end() ? kBatch : found->second));
  }
  return names;
}

ModelCase::ModelCase(const std::string &name, std::optional<DType> lower)
    : kind_(record_of(name).kind), model_([&] {
        manual_seed(1);
        return record_of(name).make();
      }()),
      forward_(model_), optimizer_(model_.module().parameters(), {.lr = 1e-3, .momentum = 0.9}),
      lower_(lower) {
  inputs_ = record_of(name).example(ModelName(name).batch);
  eval(inputs_);
}

std::vector<Tensor> ModelCase::infer() {
  NoGrad no_history;
  if (others_.empty())
    for (const Tensor &input : inputs_)
      others_.push_back(input.clone().eval());
  std::swap(inputs_, others_);
  std::vector<Tensor> results = forward_(inputs_);
  eval(results);
  return results;
}

void ModelCase::jit_forward() {
  forward_ = jit([model = model_](const std::vector<Tensor> &given) { return model(given); });
}

Tensor ModelCase::step(const std::vector<Tensor> &given, const Tensor &labels) {
  optimizer_.zero_grad();
  Tensor loss;
  {
    Autocast scope(lower_.value_or(bfloat16), lower_.has_value());
    loss = loss_of(model_(given), given, labels);
  }
  loss.backward();
  optimizer_.step();
  return loss;
}

Tensor ModelCase::loss_of(const std::vector<Tensor> &results,
                          const std::vector<Tensor> &given, const Tensor &labels) const {
  const Tensor &out = results[0];
  if (is_classifier())
    return nn::cross_entropy(out, labels.defined() ? labels : zeros({out.size(0)}, int64));
  if (kind_ == "language model")
    return nn::cross_entropy(out.reshape({-1, out.size(-1)}), given[0].reshape({-1}));
  return (out * out).mean();
}

} // namespace weft::benchmarks

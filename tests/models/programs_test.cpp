// The library's models in programs: a training step is one program, which may be called, jitted or
// traced; state goes through a file; a batch may be a range of sizes.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "tests/models/formula.h"
#include "tests/programs/three_ways.h"
#include "tests/support/compiles.h"
#include "weft/models/models.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using namespace models;

// Trains on one batch: the loss falls, all steps but the first find their program, and a step that
// is jitted or traced has the same bits as one that is called.
template <typename M>
void expect_trains(M model, const std::function<Tensor(const M &)> &loss_of, double lr) {
  optim::SGD optimizer(model.parameters(), {.lr = lr, .momentum = 0.9});
  auto step = [&] {
    Tensor loss = loss_of(model);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  double first = step().template item<float>();
  Compiles compiles;
  double last = first;
  for (int i = 0; i < 6; ++i)
    last = step().template item<float>();
  EXPECT_LT(last, 0.9 * first);
  EXPECT_LE(compiles.count(), 1u) << "each step finds the program of the one before";
  ThreeWays ways{.written = written_by(optimizer)};
  for (const auto &[name, buffer] : model.named_buffers())
    ways.written.push_back(buffer);
  ways.compare(step);
}

TEST(Programs, AResNetTrains) {
  manual_seed(3);
  ResNet model({.blocks = {1, 1}, .width = 8, .classes = 4});
  Tensor images = unit("images", {6, 3, 24, 24}), classes = indices("classes", {6}, 4);
  expect_trains<ResNet>(
      model, [&](const ResNet &m) { return nn::cross_entropy(m(images), classes); }, 0.05);
}

TEST(Programs, AnEfficientNetTrainsWithBranchesLeftOut) {
  manual_seed(4);
  EfficientNet model({.stages = {{1, 3, 1, 8, 1}, {3, 3, 2, 8, 2}},
                      .stem = 8,
                      .last = 16,
                      .drop_rate = 0.2,
                      .dropout = 0.1,
                      .classes = 3});
  Tensor images = unit("images", {6, 3, 16, 16}), classes = indices("classes", {6}, 3);
  expect_trains<EfficientNet>(
      model, [&](const EfficientNet &m) { return nn::cross_entropy(m(images), classes); }, 0.1);
}

TEST(Programs, ALanguageModelTrains) {
  manual_seed(5);
  Gpt2 model({.vocabulary = 17, .positions = 12, .size = 16, .layers = 2, .heads = 2});
  Tensor ids = indices("ids", {4, 11}, 17);
  expect_trains<Gpt2>(
      model,
      [&](const Gpt2 &m) {
        return nn::cross_entropy(m(ids.narrow(1, 0, 10)), ids.narrow(1, 1, 10));
      },
      0.5);
}

TEST(Programs, StateGoesThroughAFile) {
  manual_seed(6);
  const MobileNetV2Config config = {.stages = {{1, 8, 1, 1}, {6, 8, 1, 1}}, .classes = 5};
  MobileNetV2 model(config), other(config);
  Tensor images = unit("images", {2, 3, 16, 16});
  model(images); // moves the running statistics
  std::string path = std::filesystem::temp_directory_path() /
                     ("weft_models_" + std::to_string(::getpid()) + ".safetensors");
  io::save_safetensors(path, model.state());
  other.load_state(io::load_safetensors(path).tensors);
  std::filesystem::remove(path);
  model.eval();
  other.eval();
  NoGrad no_grad;
  EXPECT_EQ(model(images).to_vector<float>(), other(images).to_vector<float>());
  for (const auto &[name, buffer] : other.named_buffers())
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(buffer.item<int64_t>(), 1) << name;
    }
}

// One program for batches of 1 to 8, as a compiled model has it.
template <typename M> void expect_takes_any_batch(M model, const std::vector<Tensor> &largest) {
  model.eval();
  NoGrad no_grad;
  Program program = trace(model, largest, {}, BatchRange{.min = 1, .max = 8});
  for (int64_t batch : {1, 3, 8}) {
    std::vector<Tensor> inputs;
    for (const Tensor &input : largest)
      inputs.push_back(input.narrow(0, 0, batch));
    EXPECT_EQ(program.run(inputs)[0].to_vector<float>(),
              model(inputs[0]).template to_vector<float>())
        << "batch " << batch;
  }
}

TEST(Programs, ABatchMayBeARange) {
  expect_takes_any_batch(
      ShuffleNetV2({.blocks = {1, 2}, .stage_channels = {8, 16, 32, 64}, .classes = 4}),
      {unit("images", {8, 3, 32, 32})});
  expect_takes_any_batch(VisionTransformer({.image = 16,
                                            .patch = 8,
                                            .layers = 1,
                                            .heads = 2,
                                            .size = 16,
                                            .hidden = 24,
                                            .classes = 4}),
                         {unit("images", {8, 3, 16, 16})});
  expect_takes_any_batch(
      Llama({.vocabulary = 17, .size = 16, .hidden = 24, .layers = 1, .heads = 4, .key_heads = 2}),
      {indices("ids", {8, 5}, 17)});
}

} // namespace
} // namespace weft::tests

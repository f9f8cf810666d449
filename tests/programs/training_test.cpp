// Whole training programs through the public API.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/programs/process.h"
#include "tests/programs/three_ways.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

// One step, called, jitted and traced.
void compare_step(optim::Optimizer &optimizer,
                  const std::function<Tensor(const Tensor &, const Tensor &)> &loss_of,
                  const Tensor &x, const Tensor &y) {
  ThreeWays{.written = written_by(optimizer), .calls = 3}.compare(
      [&](const Tensor &x, const Tensor &y) {
        Tensor loss = loss_of(x, y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        return loss;
      },
      x, y);
}

float spread(const Tensor &tensor) {
  std::vector<float> values = tensor.to_vector<float>();
  return *std::max_element(values.begin(), values.end()) -
         *std::min_element(values.begin(), values.end());
}

TEST(Training, SgdFindsTheLine) {
  manual_seed(1);
  Tensor x = uniform({64, 3}, -1, 1), y = matmul(x, tensor({{2.f}, {-1.f}, {0.5f}})) + 0.25f;
  nn::Linear model(3, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  float loss = 0;
  for (int step = 0; step < 300; ++step) {
    Tensor value = nn::mse(model(x), y);
    optimizer.zero_grad();
    value.backward();
    optimizer.step();
    if (step == 299)
      loss = value.item<float>();
  }
  EXPECT_LT(loss, 1e-8f);
  std::vector<float> weight = model.weight.to_vector<float>();
  EXPECT_NEAR(weight[0], 2, 1e-3);
  EXPECT_NEAR(weight[1], -1, 1e-3);
  EXPECT_NEAR(weight[2], 0.5, 1e-3);
  EXPECT_NEAR(model.bias.item<float>(), 0.25, 1e-3);
  compare_step(
      optimizer, [&](const Tensor &x, const Tensor &y) { return nn::mse(model(x), y); }, x, y);
}

TEST(Training, ALayeredNetworkLearnsXor) {
  manual_seed(2);
  Tensor x = tensor({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}}),
         y = tensor<int64_t>({0, 1, 1, 0});
  nn::Sequential model(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 2));
  optim::AdamW optimizer(model.parameters(), {.lr = 0.05});
  for (int step = 0; step < 200; ++step) {
    Tensor loss = nn::cross_entropy(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  EXPECT_LT(nn::cross_entropy(model(x), y).item<float>(), 0.02f);
  EXPECT_EQ(argmax(model(x), 1).to_vector<int64_t>(), y.to_vector<int64_t>());
  compare_step(
      optimizer, [&](const Tensor &x, const Tensor &y) { return nn::cross_entropy(model(x), y); },
      x, y);
}

// A transformer learns to repeat what stood `lag` positions before: attention has to look back.
TEST(Training, ATransformerLearnsToLookBack) {
  manual_seed(3);
  constexpr int64_t kBatch = 16, kLength = 12, kSymbols = 6, kLag = 3, kWidth = 32;
  struct Model : nn::Module {
    nn::Embedding tokens = child("tokens", nn::Embedding(kSymbols, kWidth));
    nn::Embedding positions = child("positions", nn::Embedding(kLength, kWidth));
    nn::TransformerBlock block =
        child("block", nn::TransformerBlock(kWidth, 4, {.dropout = 0.0, .causal = true}));
    nn::Linear head = child("head", nn::Linear(kWidth, kSymbols));
    Tensor operator()(const Tensor &ids) const {
      return head(block(tokens(ids) + positions.weight));
    }
  } model;
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  data::SplitMix64 random(5);
  auto batch = [&] {
    std::vector<int64_t> input(kBatch * kLength), target(kBatch * kLength, -100);
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t t = 0; t < kLength; ++t) {
        input[b * kLength + t] = static_cast<int64_t>(random.below(kSymbols));
        if (t >= kLag)
          target[b * kLength + t] = input[b * kLength + t - kLag];
      }
    return std::pair(Tensor::from(input, {kBatch, kLength}),
                     Tensor::from(target, {kBatch, kLength}));
  };
  auto learn = [&](const Tensor &input, const Tensor &target) {
    Tensor loss = nn::cross_entropy(model(input), target);
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    return loss;
  };
  float loss = 0;
  for (int step = 0; step < 400; ++step) {
    auto [input, target] = batch();
    Tensor value = learn(input, target);
    if (step == 399)
      loss = value.item<float>();
  }
  EXPECT_LT(loss, 0.2f) << "guessing costs " << std::log(6.0);
  auto [input, target] = batch();
  ThreeWays{.written = written_by(optimizer), .calls = 3}.compare(learn, input, target);
}

TEST(Training, ARaggedLastBatchIsAtMostOneMoreProgram) {
  manual_seed(4);
  data::DataLoader loader(data::TensorDataset(rand({70, 5}), rand({70, 1})),
                          {.batch_size = 16, .shuffle = true});
  ASSERT_EQ(loader.batches(), 5);
  nn::Linear model(5, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  auto epoch = [&] {
    for (auto [x, y] : loader) {
      Tensor loss = nn::mse(model(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
  };
  synchronize();
  uint64_t before = statistics().compiles + statistics().disk_hits;
  for (int i = 0; i < 4; ++i)
    epoch();
  synchronize();
  EXPECT_LE(statistics().compiles + statistics().disk_hits - before, 2u);
}

// Parameters, optimizer, generator and loader in one file; another process' worth of objects goes
// on as if nothing had happened.
TEST(Training, ACheckpointContinuesBitForBit) {
  const std::string path = scratch_folder() + "/checkpoint.safetensors";
  struct Run {
    nn::Sequential model{nn::Linear(4, 16), nn::ReLU(), nn::Dropout(0.3), nn::Linear(16, 1)};
    optim::AdamW optimizer{model.parameters(), {.lr = 0.01}};
    data::DataLoader loader;
    explicit Run(const data::DatasetPtr &data)
        : loader(data, {.batch_size = 8, .shuffle = true, .seed = 6}) {}
    std::vector<float> train(int steps) {
      std::vector<float> losses;
      for (int i = 0; i < steps; ++i) {
        auto [x, y] = loader.next();
        Tensor loss = nn::mse(model(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        losses.push_back(loss.item<float>());
      }
      return losses;
    }
  };
  manual_seed(6);
  Tensor x = rand({50, 4});
  auto data = std::make_shared<data::TensorDataset>(x, x.sum(1, true));
  Run first(data);
  first.train(9);
  nn::NamedTensors tensors;
  for (auto &[name, tensor] : first.model.state())
    tensors.emplace_back("model." + name, tensor);
  for (auto &[name, tensor] : first.optimizer.state())
    tensors.emplace_back("optimizer." + name, tensor);
  tensors.emplace_back("random", default_generator().state());
  data::LoaderState position = first.loader.state();
  io::save_safetensors(
      path, tensors,
      {{"batch", std::to_string(position.batch)}, {"epoch", std::to_string(position.epoch)}});
  std::vector<float> expected = first.train(20);
  EXPECT_GT(spread(Tensor::from(expected)), 0);

  manual_seed(99);
  Run second(data);
  io::SafeTensors file = io::load_safetensors(path);
  nn::NamedTensors model, optimizer;
  for (auto &[name, tensor] : file.tensors) {
    if (name.starts_with("model."))
      model.emplace_back(name.substr(6), tensor);
    else if (name.starts_with("optimizer."))
      optimizer.emplace_back(name.substr(10), tensor);
    else
      default_generator().set_state(tensor);
  }
  second.model.load_state(model);
  second.optimizer.load_state(optimizer);
  second.loader.restore({.seed = 6,
                         .epoch = std::stoll(file.metadata.at("epoch")),
                         .batch = std::stoll(file.metadata.at("batch"))});
  EXPECT_EQ(second.train(20), expected);
  compare_step(
      second.optimizer,
      [&](const Tensor &x, const Tensor &y) { return nn::mse(second.model(x), y); },
      x.narrow(0, 0, 8), x.narrow(0, 0, 8).sum(1, true));
}

} // namespace
} // namespace weft::tests

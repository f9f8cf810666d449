// Equal steps and equal layers of a program share their kernels: the count does not grow with them.
#include <functional>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "weft/weft.h"

namespace weft {
namespace {

// The evaluation of what `record` returns.
Evaluation program(const std::function<std::vector<Tensor>()> &record) {
  std::vector<Tensor> results = record();
  eval(results);
  return explain(results.front());
}

Tensor energy(const Tensor &x) {
  return (x * x * 0.5 + sin(x * 3.0)).sum(-1);
}

Tensor metropolis(int steps) {
  Tensor x = zeros({64, 4});
  for (int i = 0; i < steps; ++i) {
    Tensor proposed = x + randn({64, 4}) * 0.3;
    Tensor accepted = log(rand({64})) < energy(x) - energy(proposed);
    x = where(accepted.unsqueeze(1), proposed, x);
  }
  return x;
}

Tensor hamiltonian(int steps) {
  Tensor x = zeros({64, 4});
  auto force = [](const Tensor &x) {
    return -(x + cos(x * 3.0) * 3.0);
  };
  for (int i = 0; i < steps; ++i) {
    Tensor p = randn({64, 4}), q = x, before = energy(x) + (p * p * 0.5).sum(-1);
    for (int k = 0; k < 3; ++k) {
      p = p + force(q) * 0.05;
      q = q + p * 0.1;
      p = p + force(q) * 0.05;
    }
    Tensor after = energy(q) + (p * p * 0.5).sum(-1);
    x = where((log(rand({64})) < before - after).unsqueeze(1), q, x);
  }
  return x;
}

// The steps of a sampler that nobody reads are launches of a few kernels, and the numbers are those
// of steps that are read one by one.
TEST(SharedKernels, StepsOfASampler) {
  for (auto sampler : {metropolis, hamiltonian}) {
    Evaluation few = program([&] { return std::vector<Tensor>{sampler(10)}; });
    Evaluation many = program([&] { return std::vector<Tensor>{sampler(60)}; });
    EXPECT_EQ(many.kernels, few.kernels) << many.to_string();
    EXPECT_LE(many.kernels, 12) << many.to_string();
    tests::ThreeWays().compare(sampler, 10);
  }
}

TEST(SharedKernels, DrawTheNumbersThatTheirPlacesInTheStreamGive) {
  auto draws = [](bool read) {
    manual_seed(5);
    std::vector<Tensor> samples;
    for (int i = 0; i < 12; ++i) {
      samples.push_back(i % 2 ? rand({200}) : randn({200}));
      if (read)
        samples.back().eval();
    }
    eval(samples);
    std::vector<float> numbers;
    for (const Tensor &sample : samples)
      for (float number : sample.to_vector<float>())
        numbers.push_back(number);
    return numbers;
  };
  EXPECT_EQ(draws(false), draws(true));
}

TEST(SharedKernels, LayersWithDropout) {
  auto kernels = [](int layers) {
    std::vector<nn::Linear> linear;
    for (int i = 0; i < layers; ++i)
      linear.emplace_back(64, 64);
    Evaluation e = program([&] {
      Tensor x = ones({32, 64});
      std::vector<Tensor> parameters;
      for (const nn::Linear &layer : linear) {
        x = dropout(relu(layer(x)), 0.1);
        for (const Tensor &parameter : layer.parameters())
          parameters.push_back(parameter);
      }
      return grad({x.sum()}, parameters);
    });
    return e.kernels;
  };
  EXPECT_EQ(kernels(12), kernels(6));
}

TEST(SharedKernels, LayersOfATransformer) {
  auto kernels = [](int layers) {
    std::vector<nn::TransformerBlock> blocks;
    for (int i = 0; i < layers; ++i)
      blocks.emplace_back(32, 4, nn::TransformerBlockOptions{.dropout = 0.1});
    Evaluation e = program([&] {
      Tensor x = ones({2, 16, 32});
      std::vector<Tensor> parameters;
      for (const nn::TransformerBlock &block : blocks) {
        x = block(x);
        for (const Tensor &parameter : block.parameters())
          parameters.push_back(parameter);
      }
      return grad({(x * x).sum()}, parameters);
    });
    return e.kernels;
  };
  EXPECT_EQ(kernels(12), kernels(4));
}

} // namespace
} // namespace weft

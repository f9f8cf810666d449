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
    // Of fewer ops than those of which a loop that reads nothing becomes several programs.
    Evaluation many = program([&] { return std::vector<Tensor>{sampler(18)}; });
    EXPECT_EQ(many.kernels, few.kernels) << many.to_string();
    EXPECT_LE(many.kernels, 12) << many.to_string();
    tests::ThreeWays().compare(sampler, 10);
  }
}

Tensor waves(const Shape &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return sin(arange(0, count, 1, float32)).reshape(shape).eval();
}

struct Loop {
  const char *what;
  std::function<Tensor(const Tensor &)> function;
  std::function<Shape(int64_t)> shape; // of its argument, by the number of iterations
  int64_t most_kernels;
};

Tensor write_rows(const Tensor &x) {
  Tensor y = zeros(x.shape());
  for (int64_t i = 0; i < x.size(0); ++i)
    y[i] = tanh(x[i]) * 2.0;
  return y;
}
Tensor norms_of_rows(const Tensor &x) {
  Tensor total = zeros({});
  for (int64_t i = 0; i < x.size(0); ++i)
    total = total + sqrt((x[i] * x[i]).sum());
  return total;
}
Tensor write_columns(const Tensor &x) {
  Tensor y = zeros(x.shape());
  for (int64_t i = 0; i < x.size(1); ++i)
    y.select(1, i) = tanh(x.select(1, i)) * 2.0;
  return y;
}
// Steps of a batch: each reads a run of every sequence.
Tensor recurrent(const Tensor &x) {
  Tensor w = sin(arange(0, 100, 1, float32)).reshape({10, 10}), h = zeros({4, 10});
  for (int64_t i = 0; i < x.size(1); ++i)
    h = tanh(matmul(h, w) + x.select(1, i));
  return h;
}
// Gates are parts of one value, of several runs each.
Tensor gated(const Tensor &x) {
  Tensor w = sin(arange(0, 300, 1, float32)).reshape({10, 30}), h = zeros({4, 10});
  for (int64_t i = 0; i < x.size(1); ++i) {
    std::vector<Tensor> gates = chunk(matmul(h, w) + 0.1, 3, 1);
    h = sigmoid(gates[0]) * h + tanh(gates[1] * gates[2] + x.select(1, i));
    h = h - gates[0] * 0.1;
  }
  return h;
}
// The rows read one matrix of 16 KiB.
Tensor rows_times_a_matrix(const Tensor &x) {
  static const Tensor w = waves({64, 64});
  Tensor y = zeros(x.shape());
  for (int64_t i = 0; i < x.size(0); ++i)
    y[i] = tanh(matmul(x[i], w));
  return y;
}
Tensor distances(const Tensor &x) {
  Tensor d = zeros({x.size(0), 4});
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < 4; ++j)
      d[i][j] = square(x[i] - x[j]).sum();
  return d;
}
// A kernel reads many rows of one operand.
Tensor kept_states(const Tensor &x) {
  Tensor state = x[0];
  std::vector<Tensor> states;
  for (int64_t i = 1; i < x.size(0); ++i)
    states.push_back(state = state * 0.9 + sin(x[i]));
  return stack(states);
}

// 10 floats a row: rows begin at any element, not where buffers do.
Shape ten_a_row(int64_t n) {
  return {n, 10};
}
const Loop kLoops[] = {
    {"write_rows", write_rows, ten_a_row, 3},
    {"norms_of_rows", norms_of_rows, ten_a_row, 3},
    {"write_columns", write_columns, [](int64_t n) { return Shape{10, n}; }, 3},
    {"recurrent", recurrent, [](int64_t n) { return Shape{4, n, 10}; }, 4},
    {"gated", gated, [](int64_t n) { return Shape{4, n, 10}; }, 6},
    {"rows_times_a_matrix", rows_times_a_matrix, [](int64_t n) { return Shape{n, 64}; }, 4},
    {"distances", distances, ten_a_row, 6},
    {"kept_states", kept_states, [](int64_t n) { return Shape{16 * n, 10}; }, 8},
};

// The iterations of a loop over rows, columns or elements are launches of a few kernels.
TEST(SharedKernels, IterationsOfALoop) {
  for (const Loop &loop : kLoops) {
    Tensor x = waves(loop.shape(32));
    Evaluation e = program([&] { return std::vector<Tensor>{loop.function(x)}; });
    EXPECT_LE(e.kernels, loop.most_kernels) << loop.what << ": " << e.to_string();
  }
}

// They give the bits of kernels that compute one op each.
TEST(SharedKernels, IterationsOfALoopGiveTheBitsOfSingleOps) {
  for (const Loop &loop : kLoops) {
    Tensor x = waves(loop.shape(13));
    auto with_gradient = [&] {
      Tensor input = x.detach().clone().requires_grad_(), y = loop.function(input);
      square(y).sum().backward();
      eval({y, input.grad()});
      return std::pair(y.to_vector<float>(), input.grad().to_vector<float>());
    };
    auto fused = with_gradient();
    Config was = config(), eager = was;
    eager.eager = true;
    set_config(eager);
    auto single = with_gradient();
    set_config(was);
    EXPECT_EQ(fused.first, single.first) << loop.what;
    EXPECT_EQ(fused.second, single.second) << loop.what;
    tests::ThreeWays().compare(loop.function, x);
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

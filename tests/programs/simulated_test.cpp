// Whole programs through the public API on the backends that stand in for those whose devices a
// machine may lack, beside reference evaluation: the numbers of both, called, jitted and traced,
// and how errors end. On a device of theirs ("...-simulated:1"), and on cpu:0 with copies at
// the edges of programs.
#include <cmath>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "tests/programs/simulated.h"
#include "tests/programs/three_ways.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

// By name; those under one name are of one size.
using Numbers = std::map<std::string, std::vector<float>>;

void add(Numbers &numbers, const std::string &name, const Tensor &tensor) {
  std::vector<float> values = tensor.to_vector<float>();
  numbers[name].insert(numbers[name].end(), values.begin(), values.end());
}

// Both runs start from the same seed.
Numbers run_on(const std::string &backend, const std::function<Numbers()> &program) {
  Chosen chosen(backend);
  manual_seed(7);
  return program();
}

// 0, step, 2 step, ... modulo `of`.
Tensor counting(int64_t count, int64_t step, int64_t of) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(i * step % of);
  return Tensor::from(values);
}

class Simulated : public testing::TestWithParam<std::string> {
protected:
  // Each list within `error` of the reference's, relative to the largest number in it: a derivative
  // that is zero but for rounding is small beside the others.
  void compare(const std::function<Numbers()> &program, double error = 1e-5) {
    Numbers expected = run_on("reference", program), actual = run_on(GetParam(), program);
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto &[name, values] : expected) {
      const std::vector<float> &got = actual[name];
      ASSERT_EQ(got.size(), values.size()) << name;
      double largest = 0, worst = 0;
      for (size_t k = 0; k < values.size(); ++k) {
        ASSERT_TRUE(std::isfinite(values[k]) && std::isfinite(got[k])) << name << " " << k;
        largest = std::max(largest, std::abs(static_cast<double>(values[k])));
        worst = std::max(worst, std::abs(static_cast<double>(got[k]) - values[k]));
      }
      EXPECT_GT(largest, 0) << name;
      EXPECT_LE(worst, error * largest) << name;
    }
  }
};

// x and y are arguments of the step: of constants a trace folds what it can, and on a GPU what is
// left fuses to other kernels, whose sums go in another order.
template <typename Model, typename Optimizer>
Numbers train(Model &model, Optimizer &optimizer, int steps, const Tensor &x, const Tensor &y) {
  auto learn = [&](const Tensor &x, const Tensor &y) {
    Tensor loss = nn::cross_entropy(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  ThreeWays ways{.written = written_by(optimizer)};
  for (const auto &[name, buffer] : model.named_buffers())
    ways.written.push_back(buffer);
  ways.compare(learn, x, y);
  Numbers numbers;
  for (int step = 0; step < steps; ++step)
    add(numbers, "loss", learn(x, y));
  for (const Tensor &parameter : model.parameters()) {
    add(numbers, "parameters", parameter);
    add(numbers, "gradients", parameter.grad());
  }
  return numbers;
}

TEST_P(Simulated, TrainsAnMlp) {
  compare([] {
    nn::Sequential model(nn::Linear(20, 32), nn::ReLU(), nn::Linear(32, 24), nn::Tanh(),
                         nn::Linear(24, 10));
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    Tensor x = uniform({17, 20}, -1, 1), y = counting(17, 1, 10);
    return train(model, optimizer, 3, x, y);
  });
}

TEST_P(Simulated, TrainsATransformer) {
  compare([] {
    constexpr int64_t kBatch = 3, kLength = 10, kSymbols = 13, kWidth = 32;
    struct Model : nn::Module {
      nn::Embedding tokens = child("tokens", nn::Embedding(kSymbols, kWidth));
      nn::Embedding positions = child("positions", nn::Embedding(kLength, kWidth));
      nn::TransformerBlock block =
          child("block", nn::TransformerBlock(kWidth, 4, {.dropout = 0.1, .causal = true}));
      nn::LayerNorm norm = child("norm", nn::LayerNorm(kWidth));
      nn::Linear head = child("head", nn::Linear(kWidth, kSymbols));
      Tensor operator()(const Tensor &ids) const {
        return head(norm(block(tokens(ids) + positions.weight)));
      }
    } model;
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    Tensor input = counting(kBatch * kLength, 5, kSymbols).reshape({kBatch, kLength});
    Tensor target = counting(kBatch * kLength, 3, kSymbols).reshape({kBatch, kLength});
    return train(model, optimizer, 2, input, target);
  });
}

TEST_P(Simulated, TrainsAConvolutionalNetwork) {
  compare([] {
    struct Model : nn::Module {
      nn::Conv2d first = child("first", nn::Conv2d(1, 4, 3, {.padding = 1}));
      nn::BatchNorm2d norm = child("norm", nn::BatchNorm2d(4));
      nn::MaxPool2d pool = child("pool", nn::MaxPool2d(2));
      nn::Conv2d second = child("second", nn::Conv2d(4, 6, 3));
      nn::Linear head = child("head", nn::Linear(24, 3));
      Tensor operator()(const Tensor &x) const {
        return head(relu(second(pool(relu(norm(first(x)))))).reshape({4, 24}));
      }
    } model;
    optim::SGD optimizer(model.parameters(), {.lr = 0.05});
    Tensor x = uniform({4, 1, 8, 8}, -1, 1), y = counting(4, 1, 3);
    return train(model, optimizer, 2, x, y);
  });
}

// Whole numbers, of which those of 16 bits do not hold all: a bias that is added to a rounded
// product shows. Libraries may add it as they write the product.
TEST_P(Simulated, LinearLayersRoundOnce) {
  compare(
      [] {
        Numbers numbers;
        for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
          auto whole = [&](const Shape &shape, int64_t count, int64_t step, int64_t of) {
            return (counting(count, step, of) - of / 2).to(dtype).reshape(shape).eval();
          };
          Tensor x = whole({2, 16, 32}, 1024, 7, 23), w = whole({24, 32}, 768, 5, 19),
                 b = whole({24}, 24, 1, 7), y = linear(x, w, b);
          for (const Tensor &each : {y, relu(y), matmul(x, w.transpose(0, 1)) + b})
            add(numbers, std::to_string(static_cast<int>(dtype)), each.to(DType::kFloat32));
        }
        return numbers;
      },
      0);
}

// Likewise.
TEST_P(Simulated, ConvolutionsRoundOnce) {
  compare(
      [] {
        Numbers numbers;
        for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
          auto whole = [&](const Shape &shape, int64_t count, int64_t step, int64_t of) {
            return (counting(count, step, of) - of / 2).to(dtype).reshape(shape).eval();
          };
          Tensor x = whole({2, 4, 6, 5}, 240, 7, 23), w = whole({6, 2, 3, 3}, 108, 5, 19),
                 b = whole({6}, 6, 1, 7), y = conv2d(x, w, b, {.padding = 1, .groups = 2}),
                 z = conv_transpose2d(x, whole({4, 3, 2, 2}, 48, 5, 19), whole({3}, 3, 1, 7));
          for (const Tensor &each : {y, relu(y), z})
            add(numbers, std::to_string(static_cast<int>(dtype)), each.to(DType::kFloat32));
        }
        return numbers;
      },
      0);
}

TEST_P(Simulated, ReluKeepsNanBehindAProduct) {
  Chosen chosen(GetParam());
  Tensor x = full({32, 32}, std::nanf("")), w = ones({24, 32}), b = ones({24});
  Tensor image = x.reshape({1, 4, 16, 16}), kernel = ones({8, 4, 3, 3}), c = ones({8});
  for (const Tensor &y : {linear(x, w, b), conv2d(image, kernel, c)})
    for (float value : relu(y).to_vector<float>())
      ASSERT_TRUE(std::isnan(value));
}

// Work on weights alone is done once for each version of them, in the device's memory. A weight is
// one from its second use on, as no write came in between.
TEST_P(Simulated, PreparesWeights) {
  Numbers numbers[2];
  for (const std::string &backend : {std::string("reference"), GetParam()}) {
    Chosen chosen(backend);
    bool prepares = backend != "reference";
    Tensor w = (counting(128 * 128, 5, 19) - 9).to(DType::kFloat32).reshape({128, 128}).eval();
    for (int64_t i = 0; i < 8; ++i) {
      Tensor x = (counting(4 * 128, 7, 23 + i) - 11).to(DType::kFloat32).reshape({4, 128}).eval();
      Tensor y = matmul(x, square(w)).eval();
      add(numbers[prepares], "y", y);
      Evaluation how = explain(y);
      bool computes = i == 1 || i == 5, reuses = i > 1 && i != 4 && !computes;
      if (computes || reuses) {
        EXPECT_EQ(how.prepared_results, prepares) << i << how.to_string();
        EXPECT_EQ(how.prepared_computed, prepares && computes) << i << how.to_string();
      }
      if (i == 3)
        w.copy_(w * 2).eval();
    }
  }
  EXPECT_EQ(numbers[0], numbers[1]);
}

TEST_P(Simulated, MovesAndIndexes) {
  compare([] {
    Tensor x = uniform({6, 5, 8}, -1, 1), rows = tensor<int64_t>({4, 0, 4});
    Tensor put = x.clone();
    put.index_put_({rows}, uniform({3, 5, 8}, -1, 1));
    put.index_put_({rows}, uniform({3, 5, 8}, -1, 1), /*accumulate=*/true);
    Numbers numbers;
    add(numbers, "index_put", put);
    add(numbers, "cumsum", cumsum(x, 0));
    add(numbers, "cumsum of the last dim", cumsum(x, 2));
    add(numbers, "transpose", x.transpose(0, 2) * 2.f);
    add(numbers, "argmax", argmax(x, 1).to(DType::kFloat32));
    add(numbers, "index_select", index_select(x, 0, rows));
    return numbers;
  });
}

// The error is raised where the value is asked for, names the op and the index, and the next
// program runs.
TEST_P(Simulated, ABadIndexIsAnErrorAndNoMore) {
  Chosen chosen(GetParam());
  Tensor table = uniform({5, 4}, -1, 1).eval(), ids = tensor<int64_t>({1, 7, 2});
  try {
    (void)index_select(table, 0, ids).to_vector<float>();
    ADD_FAILURE() << "index 7 of 5 rows";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("index 7 at position 1 is out of range"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(index_select(table, 0, tensor<int64_t>({3})).to_vector<float>().size(), 4u);
  // What the run would have written is what it was.
  Tensor sum = ones({3, 4}).eval();
  sum += index_select(table, 0, ids);
  EXPECT_THROW((void)sum.to_vector<float>(), Error);
  EXPECT_EQ(sum.to_vector<float>(), std::vector<float>(12, 1));
}

// Values cross the bus where they are asked for, and nowhere else.
TEST(SimulatedDevices, TensorsStayBetweenPrograms) {
  int seen = 0;
  for (const Device &device : devices()) {
    if (device.kind().find("simulated") == std::string::npos)
      continue;
    ++seen;
    Device first(device.kind());
    int64_t before = memory_statistics(device).live_bytes;
    Tensor host = uniform({64, 32}, -1, 1), x = host.to(device);
    Tensor w = uniform({32, 64}, -1, 1).to(device), y = matmul(x, w).eval();
    EXPECT_EQ(y.device(), device);
    EXPECT_GE(memory_statistics(device).live_bytes - before, 4 * (2 * 64 * 32 + 64 * 64));
    w *= 0.5f;
    Tensor z = tanh(y) + matmul(x, w);
    EXPECT_EQ(explain(z.eval()).device, device.name());
    // There and back over another device of the kind, with a derivative.
    Tensor leaf = host.clone().set_requires_grad();
    ((leaf.to(device) * 2).to(first) * x.to(first)).sum().backward();
    EXPECT_EQ(leaf.grad().to_vector<float>(), (host * 2).to_vector<float>());
  }
  EXPECT_EQ(seen, static_cast<int>(simulated_places().size())); // two of each kind
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Simulated);
INSTANTIATE_TEST_SUITE_P(Backends, Simulated, testing::ValuesIn(simulated_places()), place_name);

TEST(SimulatedBackends, ThereAreSome) {
  EXPECT_FALSE(simulated_places().empty());
}

} // namespace
} // namespace weft::tests

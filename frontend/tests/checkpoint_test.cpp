// weft::checkpoint: the same bits as without, wherever forward and backward are computed; draws and
// writes happen once.
#include "tests/support/errors.h"
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <functional>

namespace weft {
namespace {

using Floats = std::vector<float>;
using testing_support::message_of;

struct Block : nn::Module {
  nn::LayerNorm norm = child("norm", nn::LayerNorm(6));
  nn::Linear up = child("up", nn::Linear(6, 12)), down = child("down", nn::Linear(12, 6));
  nn::Dropout dropout = child("dropout", nn::Dropout(0.25));
  Tensor operator()(const Tensor &x) const {
    return x + dropout(down(gelu(up(norm(x)))));
  }
};

// Which of its blocks is checkpointed.
enum class Way { kNone, kEach, kAll, kNested };

struct Net : nn::Module {
  std::vector<Block> blocks;
  Way way;
  explicit Net(Way way) : way(way) {
    for (int i = 0; i < 4; ++i)
      blocks.push_back(child("block" + std::to_string(i), Block()));
  }
  Tensor operator()(const Tensor &x) const {
    auto all = [*this](Tensor y) {
      for (const Block &block : blocks)
        y = way == Way::kEach || way == Way::kNested ? checkpoint(block)(y) : block(y);
      return y;
    };
    return way == Way::kAll || way == Way::kNested ? checkpoint(all)(x) : all(x);
  }
};

struct Outcome {
  Floats losses, weights, gradients;
  bool operator==(const Outcome &) const = default;
};

enum class When { kOneProgram, kLossFirst, kJit };

Outcome train(Way way, When when) {
  manual_seed(3);
  Net net(way);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  Tensor x = randn({5, 6}).eval(), target = randn({5, 6}).eval();
  Outcome outcome;
  auto step = [&](const Tensor &given) {
    Tensor loss = mse_loss(net(given), target);
    optimizer.zero_grad();
    if (when == When::kLossFirst)
      outcome.losses.push_back(loss.item<float>());
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto program = jit(step);
  for (int i = 0; i < 4; ++i)
    outcome.losses.push_back((when == When::kJit ? program(x) : step(x)).item<float>());
  for (const Tensor &parameter : net.parameters()) {
    for (float value : parameter.to_vector<float>())
      outcome.weights.push_back(value);
    for (float value : parameter.grad().to_vector<float>())
      outcome.gradients.push_back(value);
  }
  return outcome;
}

TEST(Checkpoint, TrainsToTheSameBits) {
  for (When when : {When::kOneProgram, When::kLossFirst, When::kJit}) {
    Outcome kept = train(Way::kNone, when);
    for (Way way : {Way::kEach, Way::kAll, Way::kNested})
      EXPECT_TRUE(train(way, when) == kept)
          << "when " << static_cast<int>(when) << ", way " << static_cast<int>(way);
  }
}

// Of a loss in which the parts of a result count differently.
Tensor weighed(const Tensor &y) {
  return sum(y * (arange(static_cast<double>(y.numel())).reshape(y.shape()) + 1));
}

TEST(Checkpoint, TakesAndGivesSeveralTensors) {
  auto fn = [](const Tensor &x, const Tensor &y) {
    Tensor product = tanh(x * y);
    return std::pair(product + x, std::vector<Tensor>{exp(product), x.detach()});
  };
  auto gradients = [&](bool checkpointed) {
    Tensor x = tensor({0.5f, -1.f, 2.f}).set_requires_grad(),
           y = tensor({1.5f, 0.25f, -1.f}).set_requires_grad();
    auto [first, rest] = checkpointed ? checkpoint(fn)(x, y) : fn(x, y);
    (weighed(first) + weighed(rest[0]) + sum(rest[1])).backward();
    return std::pair(x.grad().to_vector<float>(), y.grad().to_vector<float>());
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(Checkpoint, OfCapturedParameters) {
  auto gradients = [](bool checkpointed) {
    Tensor w = tensor({{1.f, -2.f}, {0.5f, 3.f}}).set_requires_grad();
    auto fn = [&](const Tensor &x) {
      return sigmoid(matmul(x, w)) * w.sum();
    };
    Tensor x = tensor({{0.5f, 1.f}, {2.f, -1.f}});
    weighed(checkpointed ? checkpoint(fn)(x) : fn(x)).backward();
    return w.grad().to_vector<float>();
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

// What was drawn is drawn again, and the generator goes on as if it had been drawn once.
TEST(Checkpoint, DrawsOnce) {
  for (bool read_first : {false, true}) {
    manual_seed(11);
    Tensor x = ones({64}).set_requires_grad();
    auto fn = [](const Tensor &given) {
      return dropout(given, 0.5) * 3 + given * rand({64});
    };
    Tensor y = checkpoint(fn)(x);
    if (read_first)
      y.eval();
    y.sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), y.to_vector<float>());
    Floats next = rand({4}).to_vector<float>();
    manual_seed(11);
    fn(x).eval();
    EXPECT_EQ(rand({4}).to_vector<float>(), next);
  }
}

TEST(Checkpoint, WritesStatisticsOnce) {
  auto statistics = [](bool checkpointed) {
    manual_seed(4);
    nn::BatchNorm1d norm(3);
    Tensor x = randn({8, 3}).set_requires_grad();
    auto fn = [&](const Tensor &given) {
      return relu(norm(given));
    };
    for (int i = 0; i < 3; ++i)
      weighed(checkpointed ? checkpoint(fn)(x) : fn(x)).backward();
    return std::tuple(norm.running_mean.to_vector<float>(), norm.running_var.to_vector<float>(),
                      x.grad().to_vector<float>());
  };
  EXPECT_EQ(statistics(true), statistics(false));
}

// A write in place is a new value: what was read before it is computed from what was there then.
TEST(Checkpoint, WritesToCapturedTensorsOnce) {
  for (bool read_first : {false, true}) {
    Tensor count = full({3}, 2), x = tensor({1.f, 2.f, 3.f}).set_requires_grad();
    auto fn = [&](const Tensor &given) {
      Tensor before = given * count;
      count.mul_(3);
      return before * before + given * count;
    };
    Tensor y = checkpoint(fn)(x);
    if (read_first)
      eval({y, count});
    y.sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (Floats{8 + 6, 16 + 6, 24 + 6})); // 2 x 2^2 + 6
    EXPECT_EQ(count.to_vector<float>(), (Floats{6, 6, 6}));
  }
}

TEST(Checkpoint, UnderNoGradIsAPlainCall) {
  Tensor x = tensor({1.f, 2.f}).set_requires_grad();
  NoGrad off;
  Tensor y = checkpoint([](const Tensor &given) { return exp(given); })(x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.to_vector<float>(), exp(x).to_vector<float>());
}

TEST(Checkpoint, HasGradientsOfGradients) {
  auto second = [](bool checkpointed) {
    Tensor x = tensor({0.5f, -1.f, 2.f}).set_requires_grad(),
           w = tensor({1.5f, 2.f, -0.5f}).set_requires_grad();
    auto fn = [&](const Tensor &given) {
      return tanh(given * w) * exp(given);
    };
    Tensor y = checkpointed ? checkpoint(fn)(x) : fn(x);
    Tensor first = grad({y.sum()}, {x}, /*create_graph=*/true)[0];
    first.square().sum().backward();
    return std::tuple(first.to_vector<float>(), x.grad().to_vector<float>(),
                      w.grad().to_vector<float>());
  };
  EXPECT_EQ(second(true), second(false));
}

TEST(Checkpoint, GoesBackTwiceWhereTheGraphIsRetained) {
  Tensor x = tensor({0.5f, -1.f}).set_requires_grad();
  Tensor y = checkpoint([](const Tensor &given) { return tanh(tanh(given)); })(x).sum();
  y.backward({}, /*retain_graph=*/true);
  Floats once = x.grad().to_vector<float>();
  x.zero_grad();
  y.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), once);
  EXPECT_NE(message_of([&] { y.backward(); }).find("released by an earlier backward"),
            std::string::npos);
}

TEST(Checkpoint, CastsAsItDidUnderAutocast) {
  auto gradients = [](bool checkpointed) {
    manual_seed(8);
    Net net(checkpointed ? Way::kEach : Way::kNone);
    Tensor x = randn({5, 6}).set_requires_grad(), loss;
    {
      Autocast autocast;
      loss = net(x).square().mean();
    }
    loss.backward();
    return std::pair(x.grad().to_vector<float>(),
                     net.blocks[0].up.weight.grad().to_vector<float>());
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(Checkpoint, MayAskForValues) {
  Tensor x = tensor({0.5f, -1.f}).set_requires_grad();
  auto fn = [](const Tensor &given) {
    Tensor y = tanh(given);
    return y.sum().item<float>() < 0 ? exp(y) : sin(y);
  };
  fn(x).sum().backward();
  Floats plain = x.grad().to_vector<float>();
  x.zero_grad();
  checkpoint(fn)(x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), plain);
}

TEST(Checkpoint, ThatThrowsLeavesNothingBehind) {
  Tensor x = tensor({0.5f, -1.f}).set_requires_grad();
  auto fn = [](const Tensor &given) -> Tensor {
    Tensor y = tanh(given);
    return matmul(y, ones({3, 3}));
  };
  EXPECT_THROW(checkpoint(fn)(x), Error);
  tanh(x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

// A layer's error stands at the line of the checkpoint.
TEST(Checkpoint, OfALayerStandsAtItsLine) {
  nn::Linear linear(3, 2);
  int line = __LINE__ + 2;
  auto call = [&] {
    return checkpoint(linear)(ones({4, 5}));
  };
  message_of(call, ErrorKind::kShape, line);
}

TEST(Checkpoint, LooksUpOnce) {
  auto gradients = [](bool checkpointed) {
    manual_seed(2);
    nn::Embedding table(5, 4);
    nn::Linear head(4, 5);
    Tensor ids = tensor({int64_t(1), int64_t(4), int64_t(1)});
    auto fn = [&](const Tensor &given) {
      return cross_entropy(head(tanh(table(given))), given);
    };
    (checkpointed ? checkpoint(fn)(ids) : fn(ids)).backward();
    return std::pair(table.weight.grad().to_vector<float>(), head.weight.grad().to_vector<float>());
  };
  EXPECT_EQ(gradients(true), gradients(false));
  nn::Embedding table(5, 4);
  Tensor far = tensor({int64_t(1), int64_t(9)});
  Tensor loss = checkpoint([&](const Tensor &ids) { return tanh(table(ids)).sum(); })(far);
  loss.backward();
  EXPECT_THROW(table.weight.grad().eval().to_vector<float>(), Error);
}

// The steps of an unrolled network, whose gradients by a weight become one product.
TEST(Checkpoint, OfManyStepsWithOneWeight) {
  auto gradients = [](bool checkpointed) {
    manual_seed(6);
    Tensor w = (randn({4, 4}) * 0.5).set_requires_grad();
    Tensor xs = randn({12, 2, 4}).eval();
    auto fn = [&](Tensor state, const Tensor &given) {
      for (int64_t i = 0; i < given.shape()[0]; ++i)
        state = tanh(matmul(state, w) + given[i]);
      return state;
    };
    Tensor state = zeros({2, 4});
    for (int64_t i = 0; i < 12; i += 6) {
      Tensor part = xs.slice(0, i, i + 6);
      state = checkpointed ? checkpoint(fn)(state, part) : fn(state, part);
    }
    state.square().sum().backward();
    return w.grad().to_vector<float>();
  };
  Floats again = gradients(true), kept = gradients(false);
  ASSERT_EQ(again.size(), kept.size());
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_FLOAT_EQ(again[i], kept[i]);
}

// A traced step is a program of its own, with the ops of both times in it.
TEST(Checkpoint, InATrace) {
  auto gradients = [](bool checkpointed) {
    manual_seed(9);
    Net net(checkpointed ? Way::kEach : Way::kNone);
    net.eval();
    Program program = trace(
        [&](const Tensor &given) {
          Tensor input = given.detach().set_requires_grad();
          return grad({net(input).square().sum()}, {input})[0];
        },
        {ones({5, 6})});
    return program.run({full({5, 6}, 0.5)})[0].to_vector<float>();
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

// What a backward computes again takes no part of a dim whose size varies.
TEST(Checkpoint, InATraceForARangeOfBatchSizes) {
  Tensor w = tensor({{1.f, -2.f}, {0.5f, 3.f}}).set_requires_grad();
  auto fn = [w](const Tensor &x) {
    return sin(exp(matmul(x, w)));
  };
  auto step = [&](const Tensor &x) {
    Tensor loss = mean(checkpoint(fn)(x));
    return std::pair(loss, grad({loss}, {w})[0]);
  };
  Program program = trace(step, {ones({4, 2})}, {}, BatchRange{.min = 2, .max = 6});
  EXPECT_EQ(program.batch().max, 6);
  Tensor loss = mean(fn(ones({4, 2})));
  EXPECT_EQ(program.run({ones({4, 2})})[1].to_vector<float>(),
            grad({loss}, {w})[0].to_vector<float>());
}

TEST(Checkpoint, IsExplained) {
  Tensor x = tensor({0.5f, -1.f}).set_requires_grad();
  int line = __LINE__ + 1;
  Tensor y = checkpoint([](const Tensor &given) { return tanh(exp(given)); })(x);
  y.square().sum().backward();
  std::string notes, wanted = "checkpoint_test.cpp:" + std::to_string(line) + "): 2 ops";
  for (const std::string &note : explain(x.grad()).notes)
    notes += note + "\n";
  EXPECT_NE(notes.find(wanted), std::string::npos) << notes;
}

} // namespace
} // namespace weft

// register_hook and retain_grad: gradients of computed tensors, on their way. Values as PyTorch has
// them.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Floats = std::vector<float>;

Tensor parameter(const Floats &values) {
  return Tensor::from(values).requires_grad_();
}

TEST(Hooks, SeeAndReplaceTheGradient) {
  Tensor x = parameter({1, 2}), y = x * 2, seen, of_x;
  y.register_hook([&](const Tensor &g) { seen = g; });
  y.register_hook([](Tensor g) { return g * 10; });
  y.register_hook([](const Tensor &) { return Tensor(); });
  x.register_hook([&](const Tensor &g) { of_x = g; });
  (y * y).sum().backward();
  EXPECT_EQ(seen.to_vector<float>(), (Floats{4, 8}));
  EXPECT_EQ(of_x.to_vector<float>(), (Floats{80, 160}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{80, 160}));
  EXPECT_FALSE(seen.requires_grad());
}

TEST(Hooks, SeeTheWholeGradientOnce) {
  Tensor x = parameter({1, 2, 3, 4}), y = x * 1.0;
  std::vector<Floats> seen;
  y.register_hook([&](const Tensor &g) { seen.push_back(g.to_vector<float>()); });
  // Slices, of which some meet, and uses of the whole.
  Tensor loss = (y.narrow(0, 0, 2) * 2).sum() + (y.narrow(0, 2, 2) * 3).sum() + (y * y).sum();
  loss.backward();
  EXPECT_EQ(seen, (std::vector<Floats>{{4, 6, 9, 11}}));
  EXPECT_EQ(x.grad().to_vector<float>(), seen[0]);
}

TEST(Hooks, OfALeafRunInEachBackwardBeforeItsGradientAddsUp) {
  Tensor w = parameter({1, 2});
  unsigned five = w.register_hook([](const Tensor &g) { return g * 5; });
  (w * 2).sum().backward();
  (w * 2).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{20, 20}));
  w.remove_hook(five);
  (w * 2).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{22, 22}));
  EXPECT_MESSAGE(w.remove_hook(five), "remove_hook: the tensor has no hook");
}

TEST(Hooks, OfAViewOfResultsAndOfZeros) {
  Tensor x = parameter({3, 1, 2}), y = x * 2, row = y.narrow(0, 1, 2), zero;
  row.register_hook([](const Tensor &g) { return g + 1; });
  row.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 4, 4}));
  // The second result of a call, and the first.
  Tensor z = parameter({3, 1, 2});
  auto [sorted, places] = (z * 1.0).sort();
  sorted.register_hook([](const Tensor &g) { return g * tensor({1.f, 2.f, 3.f}); });
  sorted.sum().backward();
  EXPECT_EQ(z.grad().to_vector<float>(), (Floats{3, 1, 2}));
  // A derivative of 0 is a gradient.
  Tensor v = parameter({1, 2}), u = v * 2;
  u.register_hook([&](const Tensor &g) {
    zero = g;
    return g + 1;
  });
  u.sign().sum().backward();
  EXPECT_EQ(zero.to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(v.grad().to_vector<float>(), (Floats{2, 2}));
}

TEST(Hooks, RunInGradOfWhatLeadsToItsInputs) {
  Tensor x = parameter({1, 2}), other = parameter({1, 1}), y = x * 2;
  int of_y = 0, of_other = 0;
  y.register_hook([&](const Tensor &g) {
    ++of_y;
    return g * 10;
  });
  other.register_hook([&](const Tensor &) { ++of_other; });
  Tensor z = (y * y * other).sum();
  EXPECT_EQ(grad({z}, {x}, {.retain_graph = true})[0].to_vector<float>(), (Floats{80, 160}));
  EXPECT_EQ(grad({z}, {y}, {.retain_graph = true})[0].to_vector<float>(), (Floats{40, 80}));
  EXPECT_EQ(of_y, 2);
  EXPECT_EQ(of_other, 0);
}

TEST(Hooks, HaveDerivatives) {
  Tensor x = parameter({2, 3}), y = x * x; // its gradient is 3 y^2; the hook squares that
  y.register_hook([](const Tensor &g) { return g * g; });
  Tensor first = grad({(y * y * y).sum()}, {x}, true)[0]; // 9 x^8 * 2 x
  EXPECT_EQ(first.to_vector<float>(), (Floats{18 * 512, 18 * 19683}));
  // The way of the second derivative leads through v as well, and so through its hook.
  Tensor w = parameter({2, 3}), v = w * 2;
  v.register_hook([](const Tensor &g) { return g * 3; });
  Tensor once = grad({(v * v * v).sum()}, {w}, true)[0]; // 3 * 3 v^2 * 2 = 72 w^2
  EXPECT_EQ(once.to_vector<float>(), (Floats{288, 648}));
  Tensor twice = grad({once.sum()}, {w})[0]; // 18 * 2 v, times 3 by the hook, times 2
  EXPECT_EQ(twice.to_vector<float>(), (Floats{864, 1296}));
}

TEST(Hooks, RecordInsideOfJit) {
  Tensor w = parameter({1, 2});
  auto step = jit([&](const Tensor &x) {
    Tensor y = w * x;
    y.register_hook([](const Tensor &g) { return g.clamp(-1, 1); });
    y.retain_grad();
    w.zero_grad();
    (y * y).sum().backward();
    return y.grad() + 0;
  });
  for (float k : {0.25f, 0.125f, 8.f}) {
    Tensor kept = step(tensor({k, k}));
    float a = std::min(2 * k, 1.f), b = std::min(4 * k, 1.f);
    EXPECT_EQ(kept.to_vector<float>(), (Floats{a, b}));
    EXPECT_EQ(w.grad().to_vector<float>(), (Floats{a * k, b * k}));
  }
  auto outside = jit([&](const Tensor &x) {
    w.register_hook([](const Tensor &g) { return g; });
    return x * 2;
  });
  std::string text = message_of([&] { outside(ones({2})); }, ErrorKind::kState);
  EXPECT_NE(text.find("register_hook: inside a function of weft::jit"), std::string::npos) << text;
}

TEST(Hooks, OfLeavesThatChangeAreSeenByJit) {
  Tensor w = parameter({1, 2});
  auto step = jit([&](const Tensor &x) {
    w.zero_grad();
    (w * x).sum().backward();
  });
  step(ones({2}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 1}));
  unsigned hook = w.register_hook([](const Tensor &g) { return g * 7; });
  step(ones({2}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{7, 7}));
  w.remove_hook(hook);
  step(ones({2}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 1}));
}

TEST(Hooks, RunOnceInACheckpoint) {
  Tensor x = parameter({1, 2});
  int calls = 0;
  auto block = [&](const Tensor &x) {
    Tensor y = x.exp();
    y.register_hook([&](const Tensor &g) {
      ++calls;
      return g * 2;
    });
    return y * y;
  };
  checkpoint(block)(x).sum().backward();
  Floats with = x.grad().to_vector<float>();
  EXPECT_EQ(calls, 1);
  x.zero_grad();
  block(x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), with);
}

TEST(Hooks, MayWaitForOtherThreads) {
  Tensor x = parameter({1, 2}), y = x * 2;
  y.register_hook([](const Tensor &g) {
    Tensor sum;
    std::thread([&] { sum = (g + 1).eval(); }).join();
    return sum;
  });
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{4, 4}));
}

struct Stopped : std::exception {
  int code = 42;
};

TEST(Hooks, WhatTheyThrowKeepsItsType) {
  Tensor x = parameter({1, 2}), loss = (x * x).sum();
  unsigned hook = x.register_hook([](const Tensor &) -> Tensor { throw Stopped(); });
  int code = 0;
  try {
    loss.backward();
  } catch (const Stopped &stopped) {
    code = stopped.code;
  }
  EXPECT_EQ(code, 42);
  EXPECT_MESSAGE(loss.backward(), "one that failed, as by what a hook threw");
  x.remove_hook(hook);
  (x * x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST(Hooks, Errors) {
  Tensor x = parameter({1, 2}), none;
  auto same = [](const Tensor &g) {
    return g;
  };
  std::string text =
      message_of([&] { zeros({2}).register_hook(same); }, ErrorKind::kState, __LINE__);
  EXPECT_NE(text.find("register_hook: the tensor has no gradient"), std::string::npos) << text;
  EXPECT_MESSAGE(zeros({2}).retain_grad(), "retain_grad: the tensor has no gradient");
  EXPECT_MESSAGE(none.register_hook(same), "undefined");
  EXPECT_MESSAGE(x.register_hook(std::function<Tensor(const Tensor &)>()), "is empty");
  Tensor loss = (x * x).sum();
  unsigned hook = x.register_hook([](const Tensor &g) { return g.narrow(0, 0, 1); });
  text = message_of([&] { loss.backward({}, true); }, ErrorKind::kShape, __LINE__);
  EXPECT_NE(text.find("returned float32 [1] for a gradient of float32 [2]"), std::string::npos)
      << text;
  x.remove_hook(hook);
  hook = x.register_hook([](const Tensor &) -> Tensor { throw std::runtime_error("no more"); });
  EXPECT_THROW(loss.backward({}, true), std::runtime_error);
  x.remove_hook(hook);
  x.register_hook([](const Tensor &g) { return g.to(float64); });
  EXPECT_MESSAGE(loss.backward(), "returned float64 [2]");
}

TEST(RetainGrad, KeepsTheGradientOfAComputedTensor) {
  Tensor x = parameter({1, 2}), y = x * 2, z = x * 3;
  EXPECT_FALSE(y.retains_grad());
  y.retain_grad();
  y.retain_grad(); // once
  x.retain_grad(); // is a leaf
  EXPECT_TRUE(y.retains_grad());
  EXPECT_FALSE(y.is_leaf());
  y.register_hook([](const Tensor &g) { return g + 1; });
  EXPECT_FALSE(y.grad().defined());
  Tensor loss = (y * y + z).sum();
  loss.backward({}, true);
  EXPECT_EQ(y.grad().to_vector<float>(), (Floats{5, 9}));
  loss.backward();
  EXPECT_EQ(y.grad().to_vector<float>(), (Floats{10, 18}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{26, 42}));
  EXPECT_FALSE(z.grad().defined());
  y.zero_grad();
  EXPECT_FALSE(y.grad().defined());
}

TEST(RetainGrad, KeepsThatOfAViewAndOfZeros) {
  Tensor x = parameter({1, 2}), y = x * 2, first = y[0], flat = x * 3;
  first.retain_grad();
  flat.retain_grad();
  (first * first + flat.sign().sum()).backward();
  EXPECT_EQ(first.grad().item<float>(), 4);
  EXPECT_EQ(flat.grad().to_vector<float>(), (Floats{0, 0}));
}

TEST(RetainGrad, GoesWithWhatIsWrittenInPlace) {
  Tensor x = parameter({1, 2}), y = x * 2, before;
  y.retain_grad();
  y.register_hook([&](const Tensor &g) { before = g; });
  y.mul_(3);
  EXPECT_TRUE(y.retains_grad());
  (y * y).sum().backward();
  EXPECT_EQ(y.grad().to_vector<float>(), (Floats{12, 24}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{36, 72}));
}

TEST(RetainGrad, KeepsAGradientThatHasAHistory) {
  Tensor x = parameter({2, 3}), y = x * x;
  y.retain_grad();
  (y * y).sum().backward({}, false, true);
  EXPECT_TRUE(y.grad().requires_grad());
  EXPECT_EQ(grad({y.grad().sum()}, {x})[0].to_vector<float>(), (Floats{8, 12})); // of 2 x^2
}

TEST(Hooks, MayHaveAState) {
  Tensor x = tensor({1.f, 2.f}).set_requires_grad();
  x.register_hook([calls = 0](const Tensor &g) mutable { return g * static_cast<double>(++calls); });
  std::vector<float> sums;
  for (int i = 0; i < 3; ++i)
    sums.push_back(grad({(x * 3.0).sum()}, {x})[0].sum().item<float>());
  EXPECT_EQ(sums, (std::vector<float>{6, 12, 18}));
}

// The whole gradient of a view has that of the views that were taken of it.
TEST(Hooks, OfAViewOfWhichViewsAreTaken) {
  Tensor x = tensor({1.f, 2.f, 3.f, 4.f}).set_requires_grad(), h = x.reshape({2, 2});
  Tensor turned = h.t();
  std::vector<float> seen;
  h.register_hook([&](const Tensor &gradient) {
    seen = gradient.to_vector<float>();
    return gradient * 2.0;
  });
  ((h * 3.0).sum() + (turned * 5.0).sum()).backward();
  EXPECT_EQ(seen, (std::vector<float>{8, 8, 8, 8}));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{16, 16, 16, 16}));
}

} // namespace
} // namespace weft

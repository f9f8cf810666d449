// Derivatives: values, history, writes in place, gradients of gradients.
#include "tests/support/errors.h"
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

namespace weft {
namespace {

using Floats = std::vector<float>;
using testing_support::error_of;
using testing_support::message_of;

TEST(Backward, AddsUpAtLeaves) {
  Tensor x = tensor({1.f, 2.f}).set_requires_grad(), y = tensor({3.f, 4.f}).set_requires_grad();
  Tensor loss = sum(x * y + x);
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{4, 5}));
  EXPECT_EQ(y.grad().to_vector<float>(), (Floats{1, 2}));
  sum(x * 10).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{14, 15}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

// As a part of a model that is frozen between two passes whose gradients add up.
TEST(Backward, AGradientStaysWhileItsLeafIsFrozen) {
  Tensor w = tensor({1.f, 2.f}).set_requires_grad(), v = tensor({3.f, 4.f}).set_requires_grad();
  (w * v).sum().backward();
  w.requires_grad_(false);
  ASSERT_TRUE(w.grad().defined());
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{3, 4}));
  (w * v).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{3, 4})) << "it is frozen";
  w.requires_grad_();
  (w * v).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{6, 8}));
  EXPECT_EQ(v.grad().to_vector<float>(), (Floats{3, 6}));
  w.requires_grad_(false);
  w.zero_grad();
  EXPECT_FALSE(w.grad().defined());
}

// With stride <= output_padding < dilation, zeros stand behind the image.
TEST(Backward, OfATransposedConvolutionWithMuchOutputPadding) {
  Tensor x = ones({1, 1, 2, 3}).set_requires_grad(), w = tensor({1.f, 2.f, 3.f, 4.f});
  w = w.reshape({1, 1, 2, 2}).clone().set_requires_grad();
  Tensor y = conv_transpose2d(x, w, Tensor(), {.output_padding = 1, .dilation = 2});
  EXPECT_EQ(y.shape(), (Shape{1, 1, 5, 6}));
  EXPECT_EQ(y.sum().item<float>(), 60);
  (y * y).sum().backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{88, 60, 88, 88, 60, 88}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{20, 28, 52, 60}));
}

TEST(Backward, SumsOverBroadcastDimensions) {
  Tensor w = tensor({1.f, 2.f, 3.f}).set_requires_grad();
  Tensor x = ones({4, 3});
  sum(x * w).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{4, 4, 4}));
}

TEST(Backward, ThroughValuesThatWereRead) {
  Tensor x = tensor({0.5f}).set_requires_grad();
  Tensor y = tanh(x);
  float value = y.item<float>(); // evaluated in between: just a leaf
  Tensor z = y * y;
  z.backward();
  EXPECT_FLOAT_EQ(x.grad().item<float>(), 2 * value * (1 - value * value));
}

TEST(Backward, OfMatmulAndViews) {
  Tensor w = tensor({{1.f, 2.f}, {3.f, 4.f}}).set_requires_grad();
  Tensor x = tensor({{1.f, 0.f}});
  sum(matmul(x, w.t())).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 0, 1, 0}));
  w.zero_grad();
  (w[1][0] * 3).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{0, 0, 3, 0}));
}

// Small whole numbers, so that sums are exact in any order: what many steps add to a weight is one
// product, and the same to the bit.
TEST(Backward, OfAWeightUsedAtManySteps) {
  constexpr int64_t kSteps = 12;
  auto x_of = [](int64_t step) {
    return arange(6.0).reshape({2, 3}).remainder(4) - step % 5;
  };
  for (bool transposed : {false, true}) {
    auto times = [&](const Tensor &x, const Tensor &w) {
      return transposed ? linear(x, w) : matmul(x, w);
    };
    Tensor start = arange(12.0).reshape({3, 4}).remainder(3) - 1;
    Tensor w = (transposed ? start.t() + 0 : start).set_requires_grad();
    Tensor loss = sum(w * 0), first = w * 0, second = w * 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      Tensor x = x_of(step);
      loss = loss + sum(square(times(x, w))) * (step % 3);
      Tensor xx = matmul(x.t(), x) * (2 * (step % 3)); // the gradient is 2 x^T x w
      NoGrad none;
      first = first + (transposed ? matmul(w, xx) : matmul(xx, w));
      second = second + (transposed ? matmul(ones({4, 3}), xx) : matmul(xx, ones({3, 4})));
    }
    Tensor g = grad({loss}, {w}, {.create_graph = true})[0];
    EXPECT_EQ(g.to_vector<float>(), first.to_vector<float>());
    EXPECT_EQ(grad({sum(g)}, {w})[0].to_vector<float>(), second.to_vector<float>());
  }
}

TEST(Backward, SecondDerivatives) {
  Tensor x = tensor({2.f}).set_requires_grad();
  Tensor y = x * x * x;
  Tensor first = grad({y}, {x}, true)[0];
  EXPECT_FLOAT_EQ(first.item<float>(), 12.f);
  Tensor second = grad({first}, {x}, true)[0];
  EXPECT_FLOAT_EQ(second.item<float>(), 12.f);
  EXPECT_FLOAT_EQ(grad({second}, {x})[0].item<float>(), 6.f);
}

// Of functions that are linear in pieces they are 0, and no errors, as in PyTorch.
TEST(Backward, SecondDerivativesOfPiecewiseLinearFunctions) {
  const std::map<std::string, std::function<Tensor(const Tensor &)>> functions = {
      {"relu", [](const Tensor &x) { return relu(x); }},
      {"relu6", [](const Tensor &x) { return relu6(x); }},
      {"abs", [](const Tensor &x) { return abs(x); }},
      {"leaky_relu", [](const Tensor &x) { return leaky_relu(x); }},
      {"hardtanh", [](const Tensor &x) { return hardtanh(x); }},
      {"hardsigmoid", [](const Tensor &x) { return hardsigmoid(x); }},
      {"maximum", [](const Tensor &x) { return maximum(x, 0.25); }}};
  for (const auto &[name, function] : functions) {
    SCOPED_TRACE(name);
    Tensor x = tensor({-2.f, -0.5f, 0.5f, 7.f}).set_requires_grad();
    Tensor slope = grad({function(x).sum()}, {x}, {.create_graph = true})[0];
    EXPECT_TRUE(slope.requires_grad());
    EXPECT_EQ(grad({slope.sum()}, {x}, {.retain_graph = true})[0].to_vector<float>(),
              std::vector<float>(4, 0));
    slope.sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(4, 0));
    // What else depends on x adds to it.
    Tensor weighed = grad({(x * function(x)).sum()}, {x}, {.create_graph = true})[0];
    Tensor ratio = grad({(weighed - function(x)).sum()}, {x})[0];
    EXPECT_EQ(ratio.to_vector<float>(), grad({function(x).sum()}, {x})[0].to_vector<float>());
  }
  // Through a layer before it, whose products nobody computes for zeros.
  Tensor x = tensor({{1.f, -2.f}}).set_requires_grad(),
         w = tensor({{3.f, 1.f}, {-1.f, 2.f}}).set_requires_grad();
  Tensor slope = grad({relu(matmul(x, w)).sum()}, {x}, {.create_graph = true})[0];
  square(slope).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{6, 0, -2, 0}));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0}));
  // A constant gradient is none, nor is a mask.
  EXPECT_FALSE(grad({(x * 2).sum()}, {x}, {.create_graph = true})[0].requires_grad());
  EXPECT_FALSE((x > 0).requires_grad());
}

TEST(Backward, SecondDerivativesThroughSavedResults) {
  Tensor x = tensor({0.3f, -0.7f}).set_requires_grad();
  Tensor first = grad({sum(exp(sigmoid(x)))}, {x}, true)[0];
  Tensor second = grad({sum(first)}, {x})[0];
  for (int i = 0; i < 2; ++i) {
    double v = i == 0 ? 0.3f : -0.7f, s = 1 / (1 + std::exp(-v)), d = s * (1 - s);
    EXPECT_NEAR(second.to_vector<float>()[i], std::exp(s) * (d * d + d * (1 - 2 * s)), 1e-5);
  }
}

TEST(Backward, OfAValueTimesItselfDetached) {
  Tensor x = tensor({3.f}).set_requires_grad();
  Tensor y = x * x.detach();
  Tensor first = grad({y}, {x}, true)[0];
  EXPECT_FLOAT_EQ(first.item<float>(), 3.f);
  // d(first)/dx is 0: the detached factor is a constant.
  EXPECT_THROW(grad({first}, {x}), Error);
}

// The form of docs/patterns.md for a derivative of one's own: a - a is 0 for each finite a, and to
// add 0 rounds nothing, where a + (b - a) would be 0 for the first of these.
TEST(Backward, OfAValueWithTheDerivativeOfAnother) {
  Tensor x = tensor({1e8f, 3.f, -1e-3f}).set_requires_grad(), b = tensor({0.1f, 1e-30f, 7e7f});
  Tensor a = x * 2;
  Tensor y = b.detach() + (a - a.detach());
  EXPECT_EQ(y.to_vector<float>(), (Floats{0.1f, 1e-30f, 7e7f}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 2, 2}));
}

TEST(Backward, ThroughWhatWasReleasedNamesTheWaysOut) {
  Tensor w = tensor({2.f}).set_requires_grad(), state = tensor({1.f});
  state = exp(state * w);
  state.sum().backward();
  state = exp(state * w);
  std::string message = message_of([&] { state.sum().backward(); }, ErrorKind::kState, __LINE__);
  for (const char *part : {"retain_graph = true", "or detach() what a step carries over"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  w.zero_grad();
  state = exp(state.detach() * w);
  state.sum().backward();
  EXPECT_TRUE(w.grad().defined());
}

// What a rule records is kept and recorded again for calls alike: which gradients are wanted, which
// arrive and whether they keep a history differ from call to call.
TEST(Backward, OfOneCallInManyWays) {
  for (int round = 0; round < 2; ++round) {
    for (bool of_x : {true, false})
      for (bool of_y : {true, false}) {
        Tensor x = tensor({2.f, 3.f}), y = tensor({5.f, 7.f});
        x.set_requires_grad(of_x);
        y.set_requires_grad(of_y);
        if (of_x || of_y)
          (x * y).sum().backward();
        if (of_x)
          EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{5, 7}));
        if (of_y)
          EXPECT_EQ(y.grad().to_vector<float>(), (std::vector<float>{2, 3}));
        EXPECT_EQ(x.grad().defined(), of_x);
        EXPECT_EQ(y.grad().defined(), of_y);
      }
    Tensor x = tensor({2.f, 3.f}).set_requires_grad();
    (x * x).sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, 6}));
    Tensor first = grad({(x * x * x).sum()}, {x}, {.create_graph = true})[0];
    EXPECT_EQ(grad({first.sum()}, {x})[0].to_vector<float>(), (std::vector<float>{12, 18}));
    // Of two results, one is used.
    Tensor image = tensor({1.f, 4.f, 3.f, 2.f}).reshape({1, 1, 2, 2}).set_requires_grad();
    max_pool2d(image, 2).sum().backward();
    EXPECT_EQ(image.grad().to_vector<float>(), (std::vector<float>{0, 1, 0, 0}));
  }
}

TEST(Backward, RecordsTheSameAgain) {
  auto recorded = [] {
    Tensor x = tensor({0.5f, -0.5f}).set_requires_grad();
    uint64_t before = statistics().recorded_ops;
    Tensor y = (sigmoid(x) * tanh(x) + x.cumsum(0)).sum();
    y.backward();
    uint64_t ops = statistics().recorded_ops - before;
    return std::pair(ops, x.grad().to_vector<float>());
  };
  auto first = recorded();
  uint64_t compiled = statistics().compiles + statistics().disk_hits;
  EXPECT_EQ(recorded(), first);
  EXPECT_EQ(statistics().compiles + statistics().disk_hits, compiled);
}

TEST(Backward, InnerInputsAndUnusedOnes) {
  Tensor x = tensor({2.f}).set_requires_grad(), unused = tensor({1.f}).set_requires_grad();
  Tensor h = x * 3;
  Tensor y = h * h;
  std::vector<Tensor> gradients = grad({y}, {h, x}, {.retain_graph = true});
  EXPECT_EQ(gradients[0].item<float>(), 12.f);
  EXPECT_EQ(gradients[1].item<float>(), 36.f);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(grad({y}, {unused}, {.retain_graph = true, .allow_unused = true})[0].defined());
  EXPECT_THROW(grad({y}, {unused}), Error);
}

// A view has one place in the history, whether or not its value was computed (and let go) in
// between.
TEST(Backward, ByAViewThatWasComputed) {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}}).set_requires_grad();
  Tensor view = x.permute({1, 0});
  Tensor y = sum(view * view);
  EXPECT_EQ(y.item<float>(), 30.f);
  EXPECT_EQ(grad({y}, {view}, GradOptions{.retain_graph = true})[0].to_vector<float>(),
            (std::vector<float>{2, 6, 4, 8}));
  {
    NoGrad no_history;
    view.eval();
  }
  EXPECT_EQ(grad({y}, {view})[0].to_vector<float>(), (std::vector<float>{2, 6, 4, 8}));
  // After a write it stands for something else.
  Tensor z = x * 1, part = z.select(0, 1), before = sum(part * part);
  z.mul_(2);
  Tensor after = sum(part * part);
  before.eval();
  after.eval();
  EXPECT_THROW(grad({before}, {part}, GradOptions{.retain_graph = true}), Error);
  EXPECT_EQ(grad({after}, {part})[0].to_vector<float>(), (std::vector<float>{12, 16}));
}

TEST(Backward, ByAViewThatChangesNothing) {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}}).set_requires_grad();
  for (const Tensor &view :
       {x.expand({2, 2}), x.reshape({2, 2}), x.t().t(), x.permute({0, 1}), x.narrow(0, 0, 2)}) {
    GradOptions options{.retain_graph = true, .allow_unused = true};
    EXPECT_FALSE(grad({sum(x)}, {view}, options)[0].defined());
    std::vector<Tensor> gradients = grad({sum(view * view + x)}, {view, x}, options);
    EXPECT_EQ(gradients[0].to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(gradients[1].to_vector<float>(), (std::vector<float>{3, 5, 7, 9}));
    NoGrad no_history;
    EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  }
}

// Each view between a leaf and the loss has a gradient of its own, also that of the views taken of
// it.
TEST(Backward, ByAViewOfWhichViewsAreTaken) {
  Tensor x = tensor({1.f, 2.f, 3.f, 4.f}).set_requires_grad(), h = x.reshape({2, 2});
  EXPECT_EQ(grad({h.t().sum()}, {h})[0].to_vector<float>(), (Floats{1, 1, 1, 1}));
  EXPECT_EQ(grad({(h * h).sum() + h.t().sum()}, {h})[0].to_vector<float>(), (Floats{3, 5, 7, 9}));
  EXPECT_EQ(grad({h[1][0] * 5}, {h})[0].to_vector<float>(), (Floats{0, 0, 5, 0}));
  Tensor row = h.narrow(0, 1, 1);
  EXPECT_EQ(grad({row.narrow(1, 0, 1).sum() * 2}, {row})[0].to_vector<float>(), (Floats{2, 0}));
  EXPECT_EQ(grad({outer(h[0], h[1]).sum()}, {h})[0].to_vector<float>(), (Floats{7, 7, 3, 3}));
  Tensor cubes = (h * h * h).sum() + matmul(h.t(), h).sum();
  Tensor slopes = grad({cubes}, {h}, /*create_graph=*/true)[0];
  EXPECT_EQ(slopes.to_vector<float>(), (Floats{9, 18, 41, 62}));
  EXPECT_EQ(grad({(slopes * h).sum()}, {h})[0].to_vector<float>(), (Floats{21, 48, 109, 172}));
  // Also of a view that was taken before anybody asked.
  Tensor k = (x * 1).reshape({2, 2}), turned = k.t();
  k.retain_grad();
  (k.sum() * 2 + turned.sum()).backward();
  EXPECT_EQ(k.grad().to_vector<float>(), (Floats{3, 3, 3, 3}));
}

// A call that changes nothing makes a tensor of its own, too.
TEST(Backward, ByACopy) {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}}).set_requires_grad();
  Tensor written = zeros({2, 2});
  written.copy_(x);
  for (const Tensor &copy : {x.clone(), cat({x}, 0), written}) {
    GradOptions options{.retain_graph = true, .allow_unused = true};
    EXPECT_FALSE(grad({sum(x)}, {copy}, options)[0].defined());
    std::vector<Tensor> gradients = grad({sum(copy * copy + x)}, {copy, x}, options);
    EXPECT_EQ(gradients[0].to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(gradients[1].to_vector<float>(), (std::vector<float>{3, 5, 7, 9}));
  }
  Tensor number = scalar(2.f).set_requires_grad();
  EXPECT_FALSE(grad({number * number}, {number.max()}, {.allow_unused = true})[0].defined());
  NoGrad no_history;
  EXPECT_FALSE(x.clone().requires_grad());
}

// A norm of order 0 counts: its derivative is 0.
TEST(Backward, OfACountIsZero) {
  Tensor x = tensor({{0.f, 2.f}, {-3.f, 4.f}}).set_requires_grad();
  Tensor y = vector_norm(x, 0);
  EXPECT_EQ(y.item<float>(), 3);
  EXPECT_TRUE(y.requires_grad());
  y.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 0, 0, 0}));
  x.zero_grad();
  (vector_norm(x, 0, 1, true) * x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1, 1, 2, 2}));
  EXPECT_FALSE(vector_norm(x.detach(), 0).requires_grad());
}

TEST(Backward, TwiceNeedsRetainGraph) {
  Tensor x = tensor({2.f}).set_requires_grad();
  Tensor y = x * x;
  y.backward(Tensor(), true);
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 8.f);
  EXPECT_THROW(y.backward(), Error);
}

TEST(Backward, OfAGradientWithoutHistorySaysHowToKeepIt) {
  Tensor x = tensor({2.f}).set_requires_grad();
  Tensor g = grad({sum(x * x * x)}, {x})[0];
  try {
    grad({g.sum()}, {x});
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(error.message().find("a gradient depends on one where it is computed with "
                                   "create_graph = true and is not constant"),
              std::string::npos)
        << error.what();
  }
}

TEST(Backward, NeedsAScalarAndHistory) {
  Tensor x = tensor({2.f, 3.f}).set_requires_grad();
  EXPECT_THROW((x * 2).backward(), Error);
  EXPECT_THROW(tensor({1.f}).backward(), Error);
  {
    NoGrad no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
    EnableGrad again;
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_FALSE(x.detach().requires_grad());
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_FALSE((x > 1).requires_grad());
  EXPECT_THROW(tensor<int64_t>({1}).set_requires_grad(), Error);
}

TEST(InPlace, HistoryFollowsValues) {
  Tensor x = tensor({1.f, 2.f, 3.f}).set_requires_grad();
  Tensor y = x * 2;
  Tensor view = y[1];
  Tensor before = square(y); // saves y as it is now
  view *= 10;
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 40, 6}));
  sum(y + before).backward();
  // y: d/dx = 2, 20, 2; y^2 before the write: 2 y * 2 = 8 x.
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2 + 8, 20 + 16, 2 + 24}));
}

// What is overwritten still requires grad, and the gradient of what it was is 0, as in PyTorch.
TEST(InPlace, WhatIsOverwrittenRequiresGrad) {
  const std::vector<std::function<void(Tensor &)>> writes = {
      [](Tensor &y) { y.copy_(ones({3})); }, [](Tensor &y) { y.fill_(1); },
      [](Tensor &y) { y.zero_(); }, [](Tensor &y) { y.index({Slice()}) = 1; }};
  for (const auto &write : writes) {
    Tensor x = tensor({1.f, 2.f, 3.f}).set_requires_grad(), y = x * 2;
    write(y);
    EXPECT_TRUE(y.requires_grad());
    EXPECT_EQ(grad({(y * y).sum()}, {x}, {.retain_graph = true})[0].to_vector<float>(),
              std::vector<float>(3, 0));
    (y + x).sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, 1));
  }
  // A sum that each step begins anew keeps nothing of the steps before.
  Tensor x = tensor({1.f}).set_requires_grad(), total = zeros({1});
  for (int step = 0; step < 3; ++step) {
    total.zero_();
    EXPECT_FALSE(total.requires_grad());
    total.add_(x * 2);
    total.backward();
  }
  EXPECT_EQ(x.grad().item<float>(), 6.f);
}

TEST(InPlace, LeavesAreProtected) {
  Tensor x = tensor({1.f, 2.f}).set_requires_grad();
  EXPECT_THROW(x += 1, Error);
  EXPECT_THROW(x[0] = 5, Error);
  {
    NoGrad no_grad;
    x += 1;
    x[0] = 5;
  }
  EXPECT_EQ(x.to_vector<float>(), (Floats{5, 3}));
  EXPECT_TRUE(x.requires_grad() && x.is_leaf());
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{10, 6}));
}

TEST(Backward, WhatIsComputedRequiresGradAlready) {
  Tensor w = tensor({2.f, 3.f}).set_requires_grad();
  Tensor x = (w * w).requires_grad_(); // as PyTorch: stays what it is
  EXPECT_FALSE(x.is_leaf());
  EXPECT_EQ(grad({(x * x).sum()}, {x}, {.retain_graph = true})[0].to_vector<float>(),
            (std::vector<float>{8, 18}));
  x.sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{4, 6}));
  EXPECT_NE(message_of([&] { (w * 2).requires_grad_(false); }).find("detach()"), std::string::npos);
  EXPECT_NE(message_of([&] { w[0].requires_grad_(false); }).find("a view of one"),
            std::string::npos);
  EXPECT_FALSE((w * 2).detach().requires_grad_(false).requires_grad());
  w.requires_grad_(false);
  EXPECT_FALSE(w.requires_grad());
  struct Holder : nn::Module {
    explicit Holder(const Tensor &value) {
      parameter("w", value);
    }
  };
  w.requires_grad_();
  EXPECT_NE(message_of([&] { Holder(w * 2); }).find("'w' was computed"), std::string::npos);
}

// A registered weight that is computed anew in each step, as an adapter's: afterwards it is a leaf
// again, which loads, trains and freezes as before.
TEST(InPlace, ATensorLetsItsHistoryGo) {
  auto run = [](bool jits) {
    nn::Linear layer(3, 2, {.bias = false});
    Tensor weight = layer.weight, added = ones({2, 3}).requires_grad_(), x = ones({1, 3});
    weight.detach_();
    EXPECT_FALSE(weight.requires_grad());
    Tensor start = full({2, 3}, 0.5);
    auto step = [&](const Tensor &given) {
      weight.copy_(start + added * 2);
      Tensor loss = square(layer(given)).sum();
      loss.backward();
      NoGrad no_grad;
      weight.copy_(start);
      weight.detach_();
      return loss.detach();
    };
    auto jitted = jit(step);
    std::vector<float> seen;
    for (int i = 0; i < 3; ++i) {
      added.zero_grad();
      seen.push_back((jits ? jitted(x) : step(x)).item<float>());
      for (float each : added.grad().to_vector<float>())
        seen.push_back(each);
      EXPECT_TRUE(weight.is_leaf());
      EXPECT_FALSE(weight.requires_grad());
      EXPECT_EQ(weight.to_vector<float>(), start.to_vector<float>());
    }
    layer.load_state({{"weight", start}});
    weight.requires_grad_();
    optim::SGD optimizer(layer.parameters(), {.lr = 1});
    layer(x).sum().backward();
    optimizer.step();
    seen.push_back(weight.to_vector<float>()[0]);
    return seen;
  };
  std::vector<float> plain = run(false);
  EXPECT_EQ(plain.back(), -0.5f);
  EXPECT_EQ(run(true), plain);
}

TEST(InPlace, WhatIsDetachedInPlace) {
  Tensor w = ones({2, 2}).requires_grad_();
  Tensor y = w * 2, handle = y, view = y[0];
  EXPECT_MESSAGE(view.detach_(), "self is a view");
  EXPECT_TRUE(view.requires_grad());
  y.detach_();
  EXPECT_FALSE(handle.requires_grad() || view.requires_grad());
  EXPECT_EQ(view.to_vector<float>(), (Floats{2, 2}));
  (y * w).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{2, 2, 2, 2}));
  // A detached handle lets go what it was written by, and the storage keeps its own.
  Tensor own = zeros({2}).detach();
  own.copy_(w[0]);
  EXPECT_TRUE(own.requires_grad());
  EXPECT_FALSE(own.detach_().requires_grad());
  Tensor outside = w * 3;
  auto f = jit([&](const Tensor &x) { return outside.detach_() * x; });
  EXPECT_MESSAGE(f(ones({2, 2})), "history from outside");
  EXPECT_TRUE(outside.requires_grad());
}

TEST(InPlace, CopyCarriesHistoryIntoAStorage) {
  Tensor x = tensor({1.f, 2.f}).set_requires_grad();
  Tensor buffer = zeros({2, 2});
  buffer[0] = x * 3;
  buffer[1].copy_(x);
  sum(square(buffer)).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{20, 40}));
}

// detach() shares the storage, and has a history of its own from its first write on, as in PyTorch.
TEST(InPlace, WhatIsDetachedGetsAHistoryOfItsOwn) {
  Tensor w = tensor({1.f, 2.f, 3.f}).set_requires_grad();
  auto gradient_of = [&](const Tensor &h) {
    EXPECT_TRUE(h.requires_grad());
    EXPECT_FALSE(h.is_leaf());
    return grad({(h * h).sum() + w.sum()}, {w})[0].to_vector<float>();
  };
  Tensor h = (w * 2).detach();
  EXPECT_FALSE(h.requires_grad());
  h.add_(w);
  EXPECT_EQ(gradient_of(h), (Floats{7, 13, 19}));
  h = zeros({3}).detach();
  h.add_(w);
  EXPECT_EQ(gradient_of(h), (Floats{3, 5, 7}));
  h = zeros({3}).detach();
  h[0] = w[1];
  EXPECT_TRUE(h[2].requires_grad());
  h.mul_(w); // [w1 w0, 0, 0]
  EXPECT_EQ(gradient_of(h), (Floats{9, 5, 1}));
  h = zeros({2, 3}).transpose(0, 1).detach(); // itself a view of what it was detached from
  Tensor row = h.select(1, 1);
  row.copy_(w * 3);
  EXPECT_TRUE(row.requires_grad());
  EXPECT_EQ(gradient_of(h), (Floats{19, 37, 55}));
  EXPECT_FALSE(h.detach().requires_grad());
  EXPECT_TRUE(h.clone().requires_grad());

  // The value shows in the original, whose history stays what it was; and the other way round.
  Tensor y = w * 2, view = y[0];
  h = y.detach();
  uint64_t version = y.version();
  h.mul_(w);
  EXPECT_GT(y.version(), version);
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 8, 18}));
  EXPECT_EQ(grad({y.sum() + view}, {w}, {.retain_graph = true})[0].to_vector<float>(),
            (Floats{4, 2, 2}));
  y.mul_(10);
  EXPECT_EQ(h.to_vector<float>(), (Floats{20, 80, 180}));
  EXPECT_EQ(grad({h.sum()}, {w}, {.retain_graph = true})[0].to_vector<float>(), (Floats{2, 4, 6}));
  // Outside of history its own stays; what overwrites all of it leaves a derivative of 0.
  {
    NoGrad no_grad;
    h.add_(1);
    h[0] = 5;
  }
  EXPECT_EQ(h.to_vector<float>(), (Floats{5, 81, 181}));
  EXPECT_EQ(grad({h.sum()}, {w}, {.retain_graph = true})[0].to_vector<float>(), (Floats{2, 4, 6}));
  h.zero_();
  EXPECT_EQ(gradient_of(h), (Floats{1, 1, 1}));
  EXPECT_TRUE(y.requires_grad());

  // A leaf may be written so, and keeps its mark.
  Tensor leaf = tensor({1.f, 2.f}).set_requires_grad();
  h = leaf.detach();
  h.mul_(leaf);
  EXPECT_EQ(leaf.to_vector<float>(), (Floats{1, 4}));
  h.sum().backward();
  EXPECT_EQ(leaf.grad().to_vector<float>(), (Floats{1, 2}));
  EXPECT_TRUE(leaf.is_leaf());
}

// They share a storage, computed or not, while the original is there and when it is gone, and
// nothing of the history: what that saved is neither kept nor a result of the program.
TEST(InPlace, WhatIsDetachedSharesTheStorageAlone) {
  Tensor w = tensor({1.f, 2.f, 3.f}).set_requires_grad();
  for (bool computed : {false, true})
    for (bool stays : {false, true}) {
      Tensor y = w * w, whole = y.detach(), part = y.narrow(0, 1, 2).detach(), again, seen;
      {
        NoGrad no_grad;
        seen = y.narrow(0, 2, 1);
      }
      if (computed)
        y.eval();
      if (!stays)
        y = Tensor();
      again = whole.detach();
      whole.add_(1);
      EXPECT_EQ(part.to_vector<float>(), (Floats{5, 10}));
      part.mul_(2);
      EXPECT_EQ(whole.to_vector<float>(), (Floats{2, 10, 20}));
      EXPECT_EQ(again.to_vector<float>(), (Floats{2, 10, 20}));
      EXPECT_EQ(seen.to_vector<float>(), (Floats{20}));
      EXPECT_EQ(whole.version(), part.version());
      EXPECT_FALSE(again.requires_grad());
      if (!stays) {
        seen.mul_(2); // of nothing that has a gradient
        EXPECT_EQ(again.to_vector<float>(), (Floats{2, 10, 40}));
        continue;
      }
      EXPECT_EQ(y.to_vector<float>(), (Floats{2, 10, 20}));
      EXPECT_NE(message_of([&] { seen.mul_(2); }).find("of a tensor that requires grad"),
                std::string::npos);
      EXPECT_TRUE(y.requires_grad());
      EXPECT_EQ(grad({y.sum()}, {w})[0].to_vector<float>(), (Floats{2, 4, 6}));
    }

  // A history of its own goes with the handles that see it, too.
  Tensor own = zeros({3}).detach();
  own.mul_(w);
  Tensor view = own[1], apart = own.detach();
  own = Tensor();
  EXPECT_TRUE(view.requires_grad());
  view = Tensor();
  apart.add_(w);
  EXPECT_EQ(grad({apart.sum()}, {w})[0].to_vector<float>(), (Floats{1, 1, 1}));
}

TEST(InPlace, WhatIsDetachedLeavesNoResultsForABackward) {
  Tensor w = full({8}, 0.5).set_requires_grad();
  auto chain = [&] {
    Tensor h = w;
    for (int i = 0; i < 5; ++i)
      h = tanh(h * w);
    return h;
  };
  Tensor h = chain();
  EXPECT_EQ(explain(h.detach().eval()).outputs, 5);
  Tensor kept = chain().detach();
  kept.eval();
  EXPECT_EQ(explain(kept).outputs, 1);
  h = chain();
  h = h.detach().sum().detach();
  h.eval();
  EXPECT_EQ(explain(h).outputs, 1);
}

// What the original saved is a value, which no write changes: through it the derivative stays.
TEST(Backward, AfterWhatWasDetachedWasWritten) {
  Tensor w = tensor({0.f, 0.f}).set_requires_grad();
  Tensor y = exp(w), h = y.detach();
  h.mul_(7);
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 7}));
  h = Tensor();
  sum(y).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 1}));
  // A gradient may be the only thing that keeps what its own history is dropped with.
  {
    Tensor leaf = ones({2}).set_requires_grad();
    Tensor made = leaf * 2;
    leaf.set_grad(made.detach());
  }
  synchronize();
}

// Back-propagation through time that is cut at each step, whose state is written in place.
TEST(InPlace, AStateThatIsDetachedInEachStep) {
  Tensor w = tensor({0.5f}).set_requires_grad(), state = ones({1}), other = ones({1});
  for (int step = 0; step < 4; ++step) {
    std::vector<Tensor> gradients;
    state = state.detach();
    state.mul_(w);
    state.add_(w * w);
    gradients.push_back(grad({(state * state).sum()}, {w})[0]);
    other = other.detach() * w + w * w;
    gradients.push_back(grad({(other * other).sum()}, {w})[0]);
    EXPECT_EQ(gradients[0].item<float>(), gradients[1].item<float>()) << "step " << step;
  }
  EXPECT_EQ(state.item<float>(), other.item<float>());
}

// It has no history, whatever it is a view of. With history on, nothing that a gradient would have
// to know of is written through it, as in PyTorch: no value that has one, and nothing into what
// requires grad.
TEST(InPlace, OfAViewThatWasMadeUnderNoGrad) {
  Tensor w = tensor({1.f, 2.f, 3.f}).set_requires_grad();
  for (Tensor x : {w * 2, zeros({3}), (w * 2).detach(), w.detach() * 1, w}) { // w last: is written
    Tensor view;
    {
      NoGrad no_grad;
      view = x.narrow(0, 0, 2);
    }
    EXPECT_FALSE(view.requires_grad());
    Floats before = x.to_vector<float>();
    auto expect_refused = [&](const char *why, std::vector<std::function<void()>> writes) {
      for (const std::function<void()> &write : writes) {
        Error error = error_of(write);
        EXPECT_EQ(error.kind(), ErrorKind::kState);
        EXPECT_EQ(error.file(), std::string(__FILE__)) << error.what();
        EXPECT_NE(error.message().find("a view that was made under weft::NoGrad"),
                  std::string::npos)
            << error.what();
        EXPECT_NE(error.message().find(why), std::string::npos) << error.what();
      }
      EXPECT_EQ(x.to_vector<float>(), before);
    };
    expect_refused("what is written has a history",
                   {[&] { view.mul_(w.narrow(0, 0, 2)); }, [&] { view[0] = w[1]; },
                    [&] { view.reshape({2, 1}).index_put_({0}, w[0]); }});
    if (x.requires_grad()) {
      expect_refused("of a tensor that requires grad",
                     {[&] { view.mul_(2); }, [&] { view *= 2; }, [&] { view.zero_(); },
                      [&] { view[1] = 7; }, [&] { view.reshape({2, 1}).index_put_({0}, 1); }});
      NoGrad no_grad;
      view.mul_(2);
      view[1] = 7;
    } else {
      view.mul_(2);
      view[1] = 7;
    }
    {
      NoGrad no_grad;
      view.add_(w.narrow(0, 0, 2));
    }
    EXPECT_EQ(x[1].item<float>(), w.impl() == x.impl() ? 14.f : 9.f);
    Tensor own = view.detach(); // no view to a gradient
    own.mul_(ones({2}) * w[2]);
    EXPECT_TRUE(own.requires_grad());
  }
}

// What a view made under NoGrad is of may come to require grad later.
TEST(InPlace, OfAViewThatWasMadeUnderNoGradOfWhatRequiresGradLater) {
  Tensor w = tensor({2.f, 3.f}).set_requires_grad();
  Tensor marked = zeros({2}), written = ones({2}), detached = ones({2}).detach();
  std::vector<Tensor> views;
  {
    NoGrad no_grad;
    for (const Tensor &x : {marked, written, detached})
      views.push_back(x.narrow(0, 0, 1).reshape({1, 1}));
  }
  for (Tensor &view : views)
    view.add_(1);
  marked.set_requires_grad();
  written.mul_(w);
  detached.mul_(w);
  for (Tensor &view : views)
    EXPECT_NE(message_of([&] { view.mul_(2); }).find("of a tensor that requires grad"),
              std::string::npos);
  EXPECT_EQ(grad({sum(written + detached)}, {w})[0].to_vector<float>(), (Floats{4, 2}));
  // What detach() makes anew of them has no history yet.
  Tensor view;
  {
    NoGrad no_grad;
    view = detached.detach().narrow(0, 0, 1);
  }
  view.mul_(2);
  EXPECT_EQ(detached.to_vector<float>(), (Floats{8, 3}));
}

TEST(Backward, OfComposites) {
  Tensor logits = tensor({{1.f, 2.f, 3.f}}).set_requires_grad();
  cross_entropy(logits, tensor<int64_t>({2})).backward();
  Floats p = softmax(logits.detach(), 1).to_vector<float>(), g = logits.grad().to_vector<float>();
  EXPECT_NEAR(g[0], p[0], 1e-6);
  EXPECT_NEAR(g[2], p[2] - 1, 1e-6);
  Tensor x = tensor({{1.f, 2.f, 4.f}}).set_requires_grad(), w = ones({3}).set_requires_grad();
  sum(layer_norm(x, {3}, w)).backward();
  for (float v : x.grad().to_vector<float>())
    EXPECT_NEAR(v, 0, 1e-5);
}

// What is dropped for certain has no part in any derivative, and makes no NaN of one.
TEST(Backward, TwiceThroughDropoutOfEverything) {
  Tensor x = tensor({1.f, 2.f, 3.f}).set_requires_grad();
  Tensor slope = grad({sum(square(dropout(x * x, 1.0) + x))}, {x}, /*create_graph=*/true)[0];
  EXPECT_EQ(grad({sum(slope * slope)}, {x})[0].to_vector<float>(), (Floats{8, 16, 24}));
}

// floor(x / y) of numbers in 16 bits, where the quotient itself would round up.
TEST(Backward, RemainderInSixteenBits) {
  Tensor x = tensor({601.f}).to(bfloat16), y = tensor({1.9921875f}).to(bfloat16);
  y.set_requires_grad();
  float quotient = std::floor(x.to(float32).item<float>() / y.to(float32).item<float>());
  sum(remainder(x, y)).backward();
  EXPECT_EQ(y.grad().to(float32).item<float>(),
            -tensor({quotient}).to(bfloat16).to(float32).item<float>());
}

} // namespace
} // namespace weft

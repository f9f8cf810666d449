// What the temporaries of one line hold is not stored, and is there all the same for who uses it.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace weft {
namespace {

Evaluation last() {
  return recent_evaluations().back();
}

Tensor numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 7) - 3;
  return Tensor::from(values, Shape{count}).eval();
}

TEST(Temporaries, AreNotStored) {
  Tensor x = numbers(1000);
  float sum = (x * 2.0 + 1.0).abs().sum().item<float>();
  EXPECT_EQ(last().outputs, 1);
  EXPECT_EQ(last().temporaries, 3);
  EXPECT_EQ(last().output_bytes, 4);
  EXPECT_EQ(statistics().live_ops, 0u) << "they have gone with the statement";
  Tensor y = x * 2.0 + 1.0;
  y = y.abs();
  EXPECT_EQ(y.sum().item<float>(), sum);
  EXPECT_EQ(last().outputs, 2) << "y has a name, and a line of its own";
}

TEST(Temporaries, OfWhatEvalGives) {
  Tensor x = numbers(10);
  Tensor y = (x * x + 1.0).eval();
  EXPECT_EQ(last().outputs, 1);
  EXPECT_EQ(last().temporaries, 1);
  EXPECT_EQ(y.to_vector<float>()[0], 10.f);
}

// Of what nobody else has a handle to a view needs its own elements only.
TEST(Temporaries, AViewAloneIsStoredItself) {
  Tensor x = numbers(12).reshape({3, 4}).clone().eval();
  auto expect_alone = [](const Tensor &view, int64_t elements) {
    view.eval();
    EXPECT_EQ(last().outputs, 1);
    EXPECT_EQ(last().output_bytes, elements * 4);
  };
  Tensor y = (x * 2.0).t();
  expect_alone(y, 12);
  EXPECT_EQ(y.to_vector<float>()[1], x.to_vector<float>()[4] * 2);
  y += 1; // a storage like others
  EXPECT_EQ(y.to_vector<float>()[1], x.to_vector<float>()[4] * 2 + 1);
  Tensor row = (x + 1.0)[1];
  expect_alone(row, 4);
  expect_alone(roll(x, 1, 1), 12); // which is a part of two of x
  Tensor whole = x + 3.0, view = whole.t();
  view.eval();
  EXPECT_EQ(last().outputs, 2) << "`whole` is stored, too";
  whole[0][1] = 50.f;
  EXPECT_EQ(view[1][0].item<float>(), 50.f);
}

TEST(Temporaries, AViewAloneIsWrittenAsWhatItIs) {
  Tensor x = numbers(12).reshape({3, 4}).clone().eval(), y = (x * 2.0).t();
  y.mutable_data<float>()[0] = 50.f; // no other tensor shares its memory
  EXPECT_EQ(y[0][0].item<float>(), 50.f);
  Tensor base = x * 2.0, view = base.t();
  EXPECT_THROW(view.mutable_data<float>(), Error);
}

TEST(Temporaries, AViewAloneKeepsItsHistory) {
  Tensor x = numbers(12).reshape({3, 4}).clone().eval(), weight = arange(12, float32).reshape({4, 3});
  x.set_requires_grad(true);
  auto gradient = [&](auto look) {
    Tensor y = (x * x).t();
    look(y);
    return grad({(y * weight).sum()}, {x})[0].to_vector<float>();
  };
  std::vector<float> expected = gradient([](const Tensor &) {});
  EXPECT_EQ(gradient([](const Tensor &y) { y.eval(); }), expected);
  EXPECT_EQ(gradient([](const Tensor &y) { y.to_vector<float>(); }), expected);
  EXPECT_EQ(gradient([](const Tensor &y) {
              NoGrad no_grad;
              y.eval();
            }),
            expected);
  // What was made of it before is of the same history.
  Tensor y = (x * x).t(), before = (y * weight).sum();
  y.eval();
  EXPECT_EQ(grad({before + (y * weight).sum()}, {x})[0].to_vector<float>(),
            grad({((x * x).t() * weight).sum() * 2.0}, {x})[0].to_vector<float>());
  Tensor detached = (x * x).detach();
  detached.eval();
  EXPECT_FALSE(detached.requires_grad());
}

// A view has no value but its storage's: eval() keeps that one, also of a tensor without a name, and
// so does who reads a view that has one.
TEST(Temporaries, WhatAViewIsOfIsKept) {
  Tensor x = numbers(12), matrix = x.reshape({3, 4}).clone().eval(), bad = tensor<int64_t>({40});
  // The view and its eval() stand in one line, of which the storage would be a temporary.
  const std::vector<std::function<Tensor()>> views = {
      [&] { return Tensor((x / 255.0).reshape({3, 4}).eval()); },
      [&] { return Tensor(exp(matrix).t().eval()); },
      [&] { return Tensor(matmul(matrix, matrix.t()).t().eval()); },
      [&] { return Tensor((matrix / 255.0)[1].eval()); },
      [&] { return Tensor((matrix / 255.0)[1].detach().reshape({2, 2}).eval()); },
      [&] { return Tensor(arange(12, float32).reshape({3, 4}).eval()); },
      // clang-format off
      [&] { Generator g(7); return Tensor(rand({12}, g).reshape({3, 4}).eval()); },
      [&] { Tensor y = (x + 1.0).reshape({4, 3}); eval({y, y.t()}); return y; },
      [&] { Tensor y = (x + 1.0).reshape({4, 3}); y.to_vector<float>(); return y; },
      [&] { Tensor y = (x * x).reshape({12, 1})[3].detach(); y.item<float>(); return y; },
      // clang-format on
  };
  for (size_t i = 0; i < views.size(); ++i) {
    SCOPED_TRACE(i);
    Tensor y = views[i]();
    EXPECT_THROW(index_select(y, 0, bad).eval(), Error);
    EXPECT_THROW((y * 2.0 + index_select(y, 0, bad).sum()).eval(), Error);
    EXPECT_EQ(y.to_vector<float>(), views[i]().to_vector<float>());
  }
  Tensor kept = (x * x + 1.0).detach().eval();
  EXPECT_EQ(last().outputs, 1) << "a view that changes nothing is asked for once";
  EXPECT_EQ(last().temporaries, 1);
  (x * 2.0).reshape({3, 4}).t().to_vector<float>();
  EXPECT_EQ(last().outputs, 1) << "of an expression nothing has a name";
  EXPECT_EQ(last().temporaries, 1);
}

// It is computed again once, and kept from then on.
TEST(Temporaries, WithANameAreKeptFromTheSecondTimeOn) {
  Tensor x = numbers(100);
  for (int i = 0; i < 3; ++i) {
    // clang-format off
    Tensor d = x * 3.0; float most = d.max().item<float>();
    // clang-format on
    Evaluation asked = last();
    EXPECT_EQ(asked.temporaries, i == 0 ? 1 : 0);
    EXPECT_EQ(asked.outputs, i == 0 ? 1 : 2);
    EXPECT_EQ(most, 9.f);
    EXPECT_EQ(d.to_vector<float>()[0], -9.f);
    EXPECT_EQ(last().number > asked.number, i == 0) << "d was computed at that time";
  }
}

// What an op reads that stayed is what it was, whatever is written meanwhile.
TEST(Temporaries, KeepWhatTheyRead) {
  Tensor x = numbers(100), y = numbers(100);
  // clang-format off
  Tensor d = x + y; float sum = d.sum().item<float>();
  // clang-format on
  x += 100.0;
  EXPECT_EQ(x.sum().item<float>(), numbers(100).sum().item<float>() + 10000.f);
  y.mutable_data<float>()[0] = 1000.f;
  EXPECT_EQ(d.sum().item<float>(), sum);
  EXPECT_EQ(d.to_vector<float>()[0], -6.f);
}

// Memory of the user's may change behind an op's back.
TEST(Temporaries, OfTheUsersMemoryAreStored) {
  Tensor x = numbers(10);
  float *mine = x.mutable_data<float>();
  // clang-format off
  Tensor d = x * 2.0; float first = d.sum().item<float>();
  // clang-format on
  mine[0] = 50.f;
  EXPECT_EQ(d.sum().item<float>(), first);
}

TEST(Temporaries, OfADerivativeAreStored) {
  Tensor x = numbers(10).clone(), w = numbers(10).clone().set_requires_grad();
  Tensor keeps_history;
  float value = (keeps_history = ((x + 1.0) * (w * w)).sum()).item<float>();
  EXPECT_EQ(last().temporaries, 1) << "the product; a derivative reads the factors";
  EXPECT_EQ(last().outputs, 3);
  uint64_t before = statistics().evaluations;
  keeps_history.backward();
  std::vector<float> gradient = w.grad().to_vector<float>();
  for (size_t i = 0; i < gradient.size(); ++i)
    EXPECT_EQ(gradient[i], 2 * (x.to_vector<float>()[i] + 1) * w.to_vector<float>()[i]);
  EXPECT_EQ(statistics().evaluations, before + 1);
  (void)value;
}

TEST(Temporaries, DrawTheSameNumbersAgain) {
  Generator generator(7);
  // clang-format off
  Tensor r = rand({50}, generator); double sum = r.sum().item<double>();
  // clang-format on
  Tensor next = rand({50}, generator);
  next.eval();
  EXPECT_NEAR(r.sum().item<double>(), sum, 1e-4);
  EXPECT_NE(r.to_vector<float>(), next.to_vector<float>());
}

// A lookup that was in range is so again.
TEST(Temporaries, OfALookupAreNotStored) {
  Tensor x = numbers(100), at = arange(97).eval();
  EXPECT_EQ((x.index_select(0, at) * 2.0).sum().item<float>(), -6.f);
  EXPECT_EQ(last().outputs, 1);
  EXPECT_EQ(last().temporaries, 2);
  // clang-format off
  Tensor d = x.index_select(0, at + 2); x += 1.0; float sum = (d.sum() + x.sum()).item<float>();
  // clang-format on
  EXPECT_EQ(d.to_vector<float>()[0], -1.f) << "of the x before";
  EXPECT_EQ(sum, d.sum().item<float>() + x.sum().item<float>());
}

// One that was not is an error for each who asks, and what was written goes back.
TEST(Temporaries, OfALookupThatFails) {
  Tensor x = numbers(100), w = numbers(4), at = (arange(98) + 3).eval();
  float before = w.sum().item<float>();
  for (int time = 0; time < 2; ++time) {
    w += x.index_select(0, at).sum();
    Tensor d;
    auto ask = [&] {
      // clang-format off
      d = x.index_select(0, at) * 2.0; return (d.sum() + w.sum()).item<float>();
      // clang-format on
    };
    EXPECT_THROW(ask(), Error);
    EXPECT_EQ(w.sum().item<float>(), before);
    EXPECT_THROW(d.to_vector<float>(), Error);
  }
  EXPECT_EQ(x.sum().item<float>(), numbers(100).sum().item<float>());
}

TEST(Temporaries, OfAnIterateAreKept) {
  Tensor x = numbers(64);
  int steps = 0;
  // clang-format off
  while (x = x * 0.5, x.abs().max().item<float>() > 0.01f) ++steps;
  // clang-format on
  EXPECT_EQ(steps, 8);
  EXPECT_EQ(x.to_vector<float>()[0], -3.f / 512);
  EXPECT_EQ(statistics().live_ops, 0u);
}

TEST(Temporaries, MayBeDroppedByAnotherThreadMeanwhile) {
  Tensor x = numbers(5000);
  float expected = (x * 2.0).sum().item<float>();
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done)
      (x + 1.0).sum().item<float>();
  });
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ((x * 2.0).sum().item<float>(), expected);
  done = true;
  other.join();
  EXPECT_EQ(statistics().live_ops, 0u);
}

} // namespace
} // namespace weft

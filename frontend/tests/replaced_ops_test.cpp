// What an op's calls record when users have replaced it.
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/support/errors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Floats = std::vector<float>;
using testing_support::message_of;

// Gives ops back, whatever a test did.
class ReplacedOps : public testing::Test {
protected:
  ~ReplacedOps() override {
    for (const std::string &op : replaced_)
      replace_op(op, nullptr);
  }
  void replace(const std::string &op, OpReplacement replacement) {
    replaced_.push_back(op);
    replace_op(op, std::move(replacement));
  }
  // gelu(x) = x sigmoid(1.702 x), counted.
  void replace_gelu() {
    replace("weft.gelu", [this](const OpCall &call) -> std::vector<Tensor> {
      ++calls_;
      const Tensor &x = call.operands[0];
      return {x * sigmoid(1.702 * x)};
    });
  }
  std::atomic<int> calls_ = 0;

private:
  std::vector<std::string> replaced_;
};

Tensor parameter() {
  Tensor x = tensor({-1.f, 0.5f, 2.f});
  x.set_requires_grad(true);
  return x;
}

TEST_F(ReplacedOps, ValuesAndGradientsFollow) {
  Tensor x = parameter(), own = gelu(x); // its signature is known before
  Floats before = own.to_vector<float>();
  replace_gelu();
  Tensor expected = x * sigmoid(1.702 * x), found = gelu(x);
  EXPECT_EQ(found.to_vector<float>(), expected.to_vector<float>());
  EXPECT_NE(found.to_vector<float>(), before);
  expected.sum().backward();
  Floats gradient = x.grad().to_vector<float>();
  x.set_grad(Tensor());
  found.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), gradient);
  EXPECT_EQ(calls_, 1);
  // New shapes, too, and by name.
  EXPECT_EQ(gelu(ones({2, 2})).to_vector<float>(),
            call_op("weft.gelu", {ones({2, 2})})[0].to_vector<float>());
  EXPECT_EQ(calls_, 3);
  replace_op("weft.gelu", nullptr);
  EXPECT_EQ(gelu(x).to_vector<float>(), before);
  EXPECT_EQ(calls_, 3);
}

TEST_F(ReplacedOps, FunctionsRecordedAsAWholeFollow) {
  Tensor x = parameter();
  auto own = jit([](const Tensor &t) { return gelu(t) + 1; });
  Tensor plain = x.detach();
  Floats before = own(plain).to_vector<float>();
  replace_gelu();
  auto f = jit([](const Tensor &t) { return gelu(t) + 1; });
  Floats expected = (x * sigmoid(1.702 * x) + 1).to_vector<float>();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(f(x).to_vector<float>(), expected);
    EXPECT_EQ(f(plain).to_vector<float>(), expected);
  }
  Program program = trace([](const Tensor &t) { return gelu(t) + 1; }, {x});
  EXPECT_EQ(program.run({x})[0].to_vector<float>(), expected);
  f(x).sum().backward();
  Floats gradient = x.grad().to_vector<float>();
  x.set_grad(Tensor());
  gelu(x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), gradient);
  EXPECT_EQ(own(plain).to_vector<float>(), before); // it was recorded already
}

// The derivative of softplus is a sigmoid.
TEST_F(ReplacedOps, DerivativesOfOtherOpsCallIt) {
  replace("weft.sigmoid", [this](const OpCall &call) -> std::vector<Tensor> {
    ++calls_;
    return {clamp(call.operands[0] / 6 + 0.5, 0.0, 1.0)};
  });
  Tensor x = parameter();
  softplus(x).sum().backward();
  EXPECT_EQ(calls_, 1);
  Floats gradient = x.grad().to_vector<float>(),
         expected = {0.5f - 1.f / 6, 0.5f + 0.5f / 6, 0.5f + 2.f / 6};
  for (int i = 0; i < 3; ++i)
    EXPECT_FLOAT_EQ(gradient[static_cast<size_t>(i)], expected[static_cast<size_t>(i)]);
}

TEST_F(ReplacedOps, OpsInsideAreWeftsOwn) {
  replace("weft.exp", [this](const OpCall &call) -> std::vector<Tensor> {
    ++calls_;
    return {exp(call.operands[0]) + exp(call.operands[0])};
  });
  EXPECT_FLOAT_EQ(exp(ones({1})).item<float>(), 2 * std::exp(1.f));
  EXPECT_EQ(calls_, 1);
}

TEST_F(ReplacedOps, ItReadsAttributesAndValues) {
  std::vector<int64_t> dims;
  replace("weft.reduce_sum", [&](const OpCall &call) -> std::vector<Tensor> {
    for (const auto &[name, value] : call.attributes)
      if (name == "dims")
        dims = std::get<std::vector<int64_t>>(value);
    // Reading waits: nothing is locked meanwhile.
    float first = call.operands[0].to_vector<float>()[0];
    return {call_op("weft.reduce_sum", call.operands, call.attributes)[0] * first};
  });
  Tensor x = tensor({{2.f, 3.f}, {4.f, 5.f}});
  EXPECT_EQ(sum(x, {1}).to_vector<float>(), (Floats{10, 18}));
  EXPECT_EQ(dims, std::vector<int64_t>{1});
}

TEST_F(ReplacedOps, WhatItGivesMustFit) {
  Tensor x = zeros({2, 2});
  EXPECT_NE(message_of([] { replace_op("weft.nothing", nullptr); }, ErrorKind::kValue)
                .find("there is no op named 'weft.nothing' (docs/ops.md lists weft's"),
            std::string::npos);
  for (const char *op : {"weft.constant", "weft.leaf", "weft.yield", "weft.fusion"})
    EXPECT_NE(message_of([&] { replace_op(op, [](const OpCall &call) { return call.operands; }); },
                         ErrorKind::kValue)
                  .find(std::string(op) + " cannot be replaced: no call records it"),
              std::string::npos);
  replace("weft.custom", [](const OpCall &call) { return call.operands; });
  replace("weft.gelu",
          [](const OpCall &call) -> std::vector<Tensor> { return {call.operands[0].sum()}; });
  std::string message = message_of([&] { gelu(x).eval(); }, ErrorKind::kShape);
  EXPECT_NE(message.find("the replacement of weft.gelu gave float32 [], but the op gives float32 "
                         "[2, 2]"),
            std::string::npos)
      << message;
  replace("weft.gelu", [](const OpCall &) -> std::vector<Tensor> { return {}; });
  EXPECT_NE(message_of([&] { gelu(x); }, ErrorKind::kShape).find("gave 0 result(s)"),
            std::string::npos);
  replace("weft.gelu", [](const OpCall &) -> std::vector<Tensor> { return {Tensor()}; });
  message = message_of([&] { gelu(x); }, ErrorKind::kShape);
  EXPECT_NE(message.find("the replacement of weft.gelu gave an undefined tensor, but the op gives "
                         "float32 [2, 2]"),
            std::string::npos)
      << message;
}

TEST_F(ReplacedOps, WhatItThrowsIsAnErrorOfTheCall) {
  Tensor x = zeros({2, 2});
  replace("weft.gelu",
          [](const OpCall &) -> std::vector<Tensor> { throw std::runtime_error("out of ideas"); });
  std::string message = message_of([&] { gelu(x); }, ErrorKind::kState, __LINE__);
  EXPECT_EQ(message, "gelu: the replacement of weft.gelu threw an exception: out of ideas");
  replace("weft.gelu", [](const OpCall &) -> std::vector<Tensor> { throw 1; });
  message = message_of([&] { gelu(x); }, ErrorKind::kState, __LINE__);
  EXPECT_EQ(message,
            "gelu: the replacement of weft.gelu threw an exception that is no std::exception");
  // An error of its own is that; its line, too.
  constexpr int line = __LINE__ + 2;
  replace("weft.gelu", [](const OpCall &) -> std::vector<Tensor> {
    throw Error(ErrorKind::kIndex, "too far");
  });
  EXPECT_EQ(message_of([&] { gelu(x); }, ErrorKind::kIndex, line), "too far");
  // The next call is as any.
  replace_op("weft.gelu", nullptr);
  EXPECT_EQ(gelu(x).to_vector<float>(), Floats(4, 0));
}

TEST_F(ReplacedOps, ThreadsCallItAtOnce) {
  replace_gelu();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Tensor x = full({t + 1, i + 1}, 1.0);
        right += std::abs(gelu(x).sum().item<float>() - 0.845796f * (t + 1) * (i + 1)) < 1e-3;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 80);
  EXPECT_EQ(calls_, 80);
}

// A function that was never recorded goes with the tensor that it holds, while another thread asks
// whether ops of new shapes are replaced.
TEST_F(ReplacedOps, GoWithWhatTheyHoldWhileOthersRecord) {
  replace("weft.erf", [](const OpCall &call) -> std::vector<Tensor> { return {call.operands[0]}; });
  constexpr int kTimes = 2000;
  std::thread other([] {
    for (int i = 0; i < kTimes; ++i)
      tanh(zeros({1 + i % 50, 1 + i / 50}));
  });
  for (int i = 0; i < kTimes; ++i) {
    Tensor held = ones({4}) * 2.0;
    replace_op("weft.erf", [held = std::move(held)](const OpCall &) -> std::vector<Tensor> {
      return {held};
    });
  }
  other.join();
  EXPECT_EQ(erf(zeros({4})).to_vector<float>(), Floats(4, 2));
}

} // namespace
} // namespace weft

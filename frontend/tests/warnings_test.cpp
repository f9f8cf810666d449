// What is legal and most likely not meant is told once, at the caller's line; and errors show the
// chain of the caller's lines.
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/errors.h"
#include "weft/weft.h"

namespace weft {
namespace {

using testing_support::error_of;

class Warnings : public testing::Test {
protected:
  Warnings() {
    set_warning_handler([this](const Warning &warning) { given.push_back(warning); });
  }
  ~Warnings() override {
    set_warning_handler(nullptr);
  }
  // The only warning so far, which has these words, at this line of this file. Then forgets it.
  void expect_one(int line, const std::vector<std::string> &words) {
    ASSERT_EQ(given.size(), 1u) << (given.empty() ? "" : given.back().to_string());
    EXPECT_EQ(given[0].line, line) << given[0].to_string();
    EXPECT_NE(given[0].file.find("warnings_test.cpp"), std::string::npos) << given[0].file;
    for (const std::string &word : words)
      EXPECT_NE(given[0].message.find(word), std::string::npos)
          << "'" << word << "' in: " << given[0].message;
    given.clear();
  }
  std::vector<Warning> given;
};

std::string line_text(int line) {
  return "warnings_test.cpp:" + std::to_string(line);
}

TEST_F(Warnings, OnceALine) {
  for (int i = 0; i < 3; ++i)
    warn("odd");
  warn("odd");
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(given[0].line + 1, given[1].line);
  EXPECT_NE(given[0].to_string().find(line_text(given[0].line) + ": warning: odd"),
            std::string::npos)
      << given[0].to_string();
}

TEST_F(Warnings, AStepOfAModelThatWasConvertedAfterwards) {
  nn::Linear model(3, 2);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  model = nn::to(model, float64);
  int line = 0;
  for (int i = 0; i < 2; ++i) {
    optimizer.zero_grad();
    model(ones({1, 3}, float64)).sum().backward();
    optimizer.step(), line = __LINE__;
  }
  expect_one(line, {"step: none of the 2 parameters", "nn::to"});
}

TEST_F(Warnings, AStepWithoutAnyGradient) {
  nn::Linear model(3, 2);
  optim::AdamW optimizer(model.parameters());
  optimizer.step();
  expect_one(__LINE__ - 1, {"none of the 2 parameters has a gradient", "backward()"});
}

// An image that is optimised, and a model that was frozen as a whole.
TEST_F(Warnings, AStepOfWhatRequiresNoGradient) {
  Tensor image = ones({3, 4});
  optim::Adam optimizer({image});
  optimizer.step();
  expect_one(__LINE__ - 1, {"none of the 1 parameters", "requires_grad_()"});
  nn::Linear model(3, 2);
  optim::SGD other(model.parameters(), {.lr = 0.1});
  for (Tensor parameter : model.parameters())
    parameter.requires_grad_(false);
  other.step();
  expect_one(__LINE__ - 1, {"none of the 2 parameters", "requires_grad_()"});
}

TEST_F(Warnings, GradientsThatAreDroppedBeforeTheStep) {
  nn::Linear model(3, 2);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Tensor x = ones({1, 3});
  int dropped = 0, line = 0;
  for (int i = 0; i < 2; ++i) {
    model(x).sum().backward();
    optimizer.zero_grad(), dropped = __LINE__;
    optimizer.step(), line = __LINE__;
  }
  expect_one(line, {"zero_grad() at", line_text(dropped), "before backward()"});
  // The usual loops, and gradients of several batches, one of which is not used.
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    model(x).sum().backward();
    model(x).sum().backward();
    if (i == 1)
      continue;
    optim::clip_grad_norm(model.parameters(), 1);
    optimizer.step();
  }
  model.zero_grad();
  for (int i = 0; i < 3; ++i) {
    model(x).sum().backward();
    model(x).sum().backward();
    optimizer.step();
    model.zero_grad();
  }
  EXPECT_TRUE(given.empty()) << given[0].to_string();
}

TEST_F(Warnings, GradientsThatAreTakenTwice) {
  nn::Linear model(3, 2);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  int line = 0;
  for (int i = 0; i < 3; ++i) {
    model(ones({1, 3})).sum().backward();
    optimizer.step(), line = __LINE__;
  }
  expect_one(line, {"added to the gradients that the last step() took", "zero_grad()"});
  // Zeros in place are another way to drop them.
  optimizer.zero_grad();
  for (int i = 0; i < 3; ++i) {
    model(ones({1, 3})).sum().backward();
    optimizer.step();
    for (Tensor parameter : model.parameters())
      parameter.grad().zero_();
  }
  EXPECT_TRUE(given.empty()) << given[0].to_string();
}

struct Stack : nn::Module {
  nn::Linear first = child("first", nn::Linear(3, 4));
  std::vector<nn::Linear> layers;
  int made = 0;
  explicit Stack(bool registers) {
    for (int i = 0; i < 2; ++i) {
      layers.push_back(nn::Linear(4, 4)), made = __LINE__;
      if (registers)
        child("layer" + std::to_string(i), layers.back());
    }
  }
  Tensor operator()(const Tensor &x) const {
    Tensor y = first(x);
    for (const nn::Linear &layer : layers)
      y = layer(y);
    return y;
  }
};

TEST_F(Warnings, LayersThatAreRegisteredNowhere) {
  for (bool registers : {true, false}) {
    Stack model(registers);
    nn::Linear apart(4, 1), frozen(4, 4);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    optim::SGD other({apart.weight}, {.lr = 0.1}); // is known by its tensor
    apart(model(ones({1, 3}))).sum().backward();
    int line = 0;
    optimizer.step(), line = __LINE__;
    other.step();
    if (registers)
      EXPECT_TRUE(given.empty()) << given[0].to_string();
    else
      expect_one(line, {line_text(model.made), "'weight' [4, 4]", "child("});
  }
}

// As PyTorch, which computes such a loss and warns.
TEST_F(Warnings, TargetsThatBroadcast) {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}}), target = tensor({1.f, 2.f});
  EXPECT_EQ(mse_loss(x, target).item<float>(), 2);
  expect_one(__LINE__ - 1, {"mse_loss: input has shape [2, 2], target has shape [2]", "one shape"});
  EXPECT_EQ(l1_loss(target, x, Reduction::kNone).shape(), (Shape{2, 2}));
  expect_one(__LINE__ - 1, {"l1_loss: input has shape [2], target has shape [2, 2]"});
  huber_loss(x, target);
  expect_one(__LINE__ - 1, {"huber_loss"});
  smooth_l1_loss(x, target);
  expect_one(__LINE__ - 1, {"smooth_l1_loss"});
  mse_loss(x, x);
  EXPECT_TRUE(given.empty());
  EXPECT_NE(error_of([&] { mse_loss(x, ones({3})); }).message().find("target has shape [3]"),
            std::string::npos);
}

TEST_F(Warnings, DropoutInEvaluation) {
  nn::Sequential model(nn::Linear(3, 4), nn::Dropout(0.5));
  Tensor x = ones({1, 3});
  model(x);
  NoGrad no_grad;
  model(x);
  expect_one(__LINE__ - 1, {"Dropout", "eval()"});
  model.eval();
  model(x);
  EXPECT_TRUE(given.empty());
}

//===-- Errors --------------------------------------------------------------------------------===//

struct Inner : nn::Module {
  nn::Linear up = child("up", nn::Linear(3, 4));
  mutable int line = 0;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    CalledFrom scope(location);
    return relu((line = __LINE__, up(x)));
  }
};
struct Outer : nn::Module {
  Inner inner = child("inner", Inner());
  mutable int line = 0;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    CalledFrom scope(location);
    line = __LINE__ + 1;
    return inner(x);
  }
};

TEST(Errors, ShowTheChainOfLines) {
  Outer outer;
  int line = 0;
  Error error = error_of([&] {
    line = __LINE__ + 1;
    outer(ones({1, 5}));
  });
  std::string what = error.what();
  EXPECT_EQ(error.line(), outer.inner.line) << what;
  size_t first = what.find("(called from"), second = what.find(line_text(outer.line), first),
         third = what.find(line_text(line), first);
  EXPECT_LT(first, second) << what;
  EXPECT_LT(second, third) << what;
  EXPECT_NE(third, std::string::npos) << what;
  // Nothing is left of it.
  what = error_of([&] { ones({2}).reshape({3}); }).what();
  EXPECT_EQ(what.find("called from"), std::string::npos) << what;
}

// A std::function calls a module in a header of the standard library.
TEST(Errors, OfAModuleInAFunctionNameTheRecordingsLine) {
  nn::Linear layer(4, 4);
  std::function<Tensor(const Tensor &)> model = layer;
  Tensor x = rand({2, 5});
  int line = 0;
  Error error = error_of([&] {
    line = __LINE__ + 1;
    trace([&](const Tensor &in) { return model(in); }, {x});
  });
  EXPECT_EQ(error.line(), line) << error.what();
  EXPECT_NE(error.file().find("warnings_test.cpp"), std::string::npos) << error.what();
}

TEST(Errors, OfALayerInSequentialNameBothLines) {
  int inside = 0, line = 0;
  nn::Sequential model(nn::Linear(3, 4), [&](const Tensor &x) {
    inside = __LINE__ + 1;
    return x.reshape({7});
  });
  Error error = error_of([&] {
    line = __LINE__ + 1;
    model(ones({1, 3}));
  });
  std::string what = error.what();
  EXPECT_EQ(error.line(), inside) << what;
  EXPECT_NE(what.find("called from"), std::string::npos) << what;
  EXPECT_NE(what.find(line_text(line)), std::string::npos) << what;
  // A layer of Weft's is at fault where the model is called.
  error = error_of([&] {
    line = __LINE__ + 1;
    model(ones({1, 5}));
  });
  EXPECT_EQ(error.line(), line) << error.what();
  // And one alone knows its caller.
  nn::AnyLayer layer = nn::Linear(3, 4);
  error = error_of([&] {
    line = __LINE__ + 1;
    layer(ones({1, 5}));
  });
  EXPECT_EQ(error.line(), line) << error.what();
  EXPECT_NE(error.file().find("warnings_test.cpp"), std::string::npos) << error.what();
}

TEST(Errors, NameTheIndexAsItWasWritten) {
  Tensor x = ones({5, 3});
  std::string message = error_of([&] { x[7]; }).message();
  EXPECT_NE(message.find("x[7]: "), std::string::npos) << message;
  EXPECT_NE(message.find("[5, 3]"), std::string::npos) << message;
  EXPECT_EQ(message.find("select"), std::string::npos) << message;
  EXPECT_NE(error_of([&] { x[0][0][0]; }).message().find("x[0]: x has no dimensions"),
            std::string::npos);
}

TEST(Errors, ASecondBackwardNamesTheFirst) {
  Tensor w = ones({2});
  w.set_requires_grad();
  Tensor loss = (w * w).sum();
  int line = 0;
  loss.backward(), line = __LINE__;
  std::string message = error_of([&] { loss.backward(); }).message();
  EXPECT_NE(message.find(line_text(line)), std::string::npos) << message;
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
}

} // namespace
} // namespace weft

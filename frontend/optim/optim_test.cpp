#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/nn/nn.h"
#include "weft/optim/optim.h"
#include "weft/weft.h"

namespace weft::optim {
namespace {

using testing_support::message_of;

Tensor parameter_of(std::vector<float> values) {
  Tensor parameter = Tensor::from(values);
  parameter.set_requires_grad();
  return parameter;
}

// PyTorch's documented updates, one element, in float64.
struct Reference {
  double p, m = 0, v = 0, b = 0;
  int t = 0;
  void adamw(double g, const AdamWOptions &o) {
    ++t;
    p *= 1 - o.lr * o.weight_decay;
    m += (1 - o.beta1) * (g - m);
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    p -= o.lr / (1 - std::pow(o.beta1, t)) * m /
         (std::sqrt(v) / std::sqrt(1 - std::pow(o.beta2, t)) + o.eps);
  }
  void adagrad(double g, const AdagradOptions &o) {
    v += g * g;
    p -= o.lr / (1 + t++ * o.lr_decay) * g / (std::sqrt(v) + o.eps);
  }
  void sgd(double g, const SGDOptions &o) {
    g += o.weight_decay * p;
    if (o.momentum != 0) {
      b = t == 0 ? g : o.momentum * b + (1 - o.dampening) * g;
      g = o.nesterov ? g + o.momentum * b : b;
    }
    ++t;
    p -= o.lr * g;
  }
};

template <typename Opt, typename Options>
void compare(const Options &options, void (Reference::*update)(double, const Options &)) {
  std::vector<float> start = {1.f, -2.f, 0.5f};
  Tensor parameter = parameter_of(start);
  Opt optimizer({parameter}, options);
  std::vector<Reference> reference;
  for (float value : start)
    reference.push_back({value});
  for (int step = 0; step < 12; ++step) {
    std::vector<float> gradient;
    for (size_t i = 0; i < start.size(); ++i)
      gradient.push_back(static_cast<float>(std::sin(1.7 * step + 2.3 * static_cast<double>(i))));
    parameter.set_grad(Tensor::from(gradient));
    optimizer.step();
    std::vector<float> values = parameter.to_vector<float>();
    for (size_t i = 0; i < start.size(); ++i) {
      (reference[i].*update)(gradient[i], options);
      ASSERT_NEAR(values[i], reference[i].p, 2e-6) << "step " << step << " element " << i;
    }
  }
}

TEST(AdamW, IsPyTorchs) {
  compare<AdamW, AdamWOptions>({.lr = 0.1}, &Reference::adamw);
  compare<AdamW, AdamWOptions>(
      {.lr = 0.03, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.2},
      &Reference::adamw);
  compare<AdamW, AdamWOptions>({.lr = 0.03, .beta1 = 0, .beta2 = 0.5}, &Reference::adamw);
}

TEST(Sgd, IsPyTorchs) {
  compare<SGD, SGDOptions>({.lr = 0.1}, &Reference::sgd);
  compare<SGD, SGDOptions>({.lr = 0.1, .momentum = 0.9}, &Reference::sgd);
  compare<SGD, SGDOptions>({.lr = 0.1, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1},
                           &Reference::sgd);
  compare<SGD, SGDOptions>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
                           &Reference::sgd);
}

TEST(Optimizer, AParameterWithoutGradientStays) {
  Tensor a = parameter_of({1.f}), b = parameter_of({2.f});
  AdamW optimizer({a, b});
  a.set_grad(ones({1}));
  optimizer.step();
  EXPECT_LT(a.item<float>(), 1);
  EXPECT_EQ(b.item<float>(), 2);
  EXPECT_TRUE(a.grad().defined());
  optimizer.zero_grad();
  EXPECT_FALSE(a.grad().defined());
}

// Three parameters that begin, pause and go on at different steps, as layers do that are frozen and
// thawed: each counts its own steps, also over a checkpoint in between.
template <typename Opt, typename Options>
void compare_histories(const Options &options, void (Reference::*update)(double, const Options &),
                       bool reload) {
  auto takes = [](int parameter, int step) {
    return parameter == 0   ? step < 4 || step >= 7
           : parameter == 1 ? step >= 3
                            : step >= 5 && step != 9;
  };
  std::vector<Tensor> parameters;
  std::vector<Reference> reference;
  for (float start : {1.f, -2.f, 0.5f}) {
    parameters.push_back(parameter_of({start}));
    reference.push_back({start});
  }
  auto optimizer = std::make_unique<Opt>(parameters, options);
  for (int step = 0; step < 14; ++step) {
    optimizer->zero_grad();
    for (int i = 0; i < 3; ++i) {
      if (!takes(i, step))
        continue;
      float gradient = static_cast<float>(std::sin(1.7 * step + 2.3 * i));
      parameters[i].set_grad(Tensor::from(std::vector<float>{gradient}));
      (reference[i].*update)(gradient, options);
    }
    optimizer->step();
    if (reload) {
      nn::NamedTensors state = optimizer->state();
      optimizer = std::make_unique<Opt>(parameters, options);
      optimizer->load_state(state);
    }
    for (int i = 0; i < 3; ++i)
      ASSERT_NEAR(parameters[i].item<float>(), reference[i].p, 2e-6)
          << "step " << step << " parameter " << i;
  }
}

TEST(Optimizer, AParameterCountsItsOwnSteps) {
  for (bool reload : {false, true}) {
    compare_histories<AdamW, AdamWOptions>({.lr = 0.1}, &Reference::adamw, reload);
    compare_histories<SGD, SGDOptions>({.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
                                       &Reference::sgd, reload);
    compare_histories<Adagrad, AdagradOptions>({.lr = 0.1, .lr_decay = 0.2}, &Reference::adagrad,
                                               reload);
  }
}

// Losses that reach b in every third step only: a recording of a step serves the calls that part or
// share counts as it did.
TEST(Optimizer, JittedStepsCountAsPlainOnes) {
  auto run = [](bool jitted) {
    Tensor a = parameter_of({1.f}), b = parameter_of({1.f});
    Adam optimizer({a, b}, {.lr = 0.1});
    auto step = [&](const Tensor &x, bool both) {
      optimizer.zero_grad();
      Tensor loss = (a * x).square().sum();
      if (both)
        loss = loss + (b * x).square().sum();
      loss.backward();
      optimizer.step();
    };
    auto replayed = jit(step);
    std::string seen;
    for (int i = 0; i < 12; ++i) {
      Tensor x = full({1}, 1.0 + i);
      jitted ? replayed(x, i % 3 == 0) : step(x, i % 3 == 0);
      seen += std::to_string(a.item<float>()) + " " + std::to_string(b.item<float>());
      for (const auto &[name, tensor] : optimizer.state())
        if (name.starts_with("step"))
          seen += " " + name + "=" + std::to_string(tensor.item<int>());
      seen += "\n";
    }
    return seen;
  };
  std::string plain = run(false);
  EXPECT_NE(plain.find("step=12 step.1=4"), std::string::npos) << plain;
  EXPECT_EQ(run(true), plain);
}

TEST(Optimizer, JittedStepsKnowFrozenParameters) {
  auto run = [](bool jitted) {
    Tensor a = parameter_of({1.f}), b = parameter_of({1.f});
    AdamW optimizer({a, b}, {.lr = 0.1});
    auto step = [&](const Tensor &x) {
      optimizer.zero_grad();
      ((a + b) * x).square().sum().backward();
      optimizer.step();
    };
    auto replayed = jit(step);
    std::vector<float> seen;
    for (int i = 0; i < 10; ++i) {
      a.set_requires_grad(i < 3 || i > 5);
      Tensor x = full({1}, 1.0 + i);
      jitted ? replayed(x) : step(x);
      seen.push_back(a.item<float>());
      seen.push_back(b.item<float>());
    }
    return seen;
  };
  EXPECT_EQ(run(true), run(false));
}

// A program begins with a count of its own for what takes no part, and the optimizer is as it was.
TEST(Optimizer, ATracedStepLeavesTheCountsAlone) {
  Tensor a = parameter_of({1.f}), b = parameter_of({1.f});
  Adam optimizer({a, b}, {.lr = 0.1});
  auto step = [&](const Tensor &x) {
    optimizer.zero_grad();
    ((a + b) * x).square().sum().backward();
    optimizer.step();
  };
  for (int i = 0; i < 5; ++i)
    step(ones({1}));
  a.set_requires_grad(false);
  Program program = trace([&](const Tensor &x) { return step(x), b + 0.0; }, {ones({1})});
  a.set_requires_grad(true);
  auto counts = [&] {
    std::string all;
    for (const auto &[name, tensor] : optimizer.state())
      if (name.starts_with("step"))
        all += name + "=" + std::to_string(tensor.item<int>()) + " ";
    return all;
  };
  EXPECT_EQ(counts(), "step=5 ");
  float before = b.item<float>();
  EXPECT_NE(program.run({ones({1})})[0].item<float>(), before);
  step(ones({1}));
  EXPECT_EQ(counts(), "step=6 ");
}

TEST(Optimizer, StateHasTheCountsThatDiffer) {
  Tensor a = parameter_of({1.f}), b = parameter_of({2.f});
  auto names = [](const Optimizer &optimizer) {
    std::string all;
    for (const auto &[name, tensor] : optimizer.state())
      if (name.starts_with("step"))
        all += name + "=" + std::to_string(tensor.item<int>()) + " ";
    return all;
  };
  Adam optimizer({a, b});
  auto step = [&](bool both) {
    optimizer.zero_grad();
    a.set_grad(ones({1}));
    if (both)
      b.set_grad(ones({1}));
    optimizer.step();
  };
  step(true);
  EXPECT_EQ(names(optimizer), "step=1 ") << "a checkpoint of before there were such counts loads";
  step(false);
  EXPECT_EQ(names(optimizer), "step=2 step.1=1 ");
  step(true);
  EXPECT_EQ(names(optimizer), "step=3 step.1=2 ");
  nn::NamedTensors state = optimizer.state();
  state.back().second = ones({2}, float64);
  EXPECT_NE(message_of([&] { optimizer.load_state(state); }).find("'step.1' is float64 []"),
            std::string::npos);
  state.back().first = "step.2";
  EXPECT_NE(message_of([&] { optimizer.load_state(state); }).find("state tensors"),
            std::string::npos);
  state.pop_back();
  optimizer.load_state(state);
  EXPECT_EQ(names(optimizer), "step=3 ");
}

// A step that fails is taken back as if it had never been, also where it is the first that a
// parameter has no part in.
TEST(Optimizer, AStepThatFailsCountsForNone) {
  Tensor a = parameter_of({1.f}), b = parameter_of({2.f});
  Adam optimizer({a, b}, {.lr = 0.1});
  auto step = [&](bool both, int64_t row) {
    optimizer.zero_grad();
    Tensor picked = a.index_select(0, tensor<int64_t>({row}));
    Tensor loss = (both ? picked * b : picked).sum();
    loss.backward();
    optimizer.step();
    return loss.item<float>();
  };
  step(true, 0);
  step(true, 0);
  float before = a.item<float>();
  EXPECT_NE(message_of([&] { step(false, 5); }).find("out of range"), std::string::npos);
  EXPECT_EQ(a.item<float>(), before);
  step(true, 0);
  for (const auto &[name, tensor] : optimizer.state())
    if (name.starts_with("step"))
      EXPECT_EQ(tensor.item<int>(), 3) << name;
}

// Each phase of a training that thaws layer after layer is a function that jit records, with
// parameters that have not begun.
TEST(Optimizer, CountsItsStepsInJit) {
  auto train = [](bool replayed) {
    Tensor a = parameter_of({1.f}), b = parameter_of({2.f});
    Adam optimizer({a, b}, {.lr = 0.1});
    auto phase = [&](bool both) {
      b.set_requires_grad(both);
      auto step = [&](const Tensor &x) {
        optimizer.zero_grad();
        Tensor loss = ((a * x - b) * (a * x - b)).sum();
        loss.backward();
        optimizer.step();
        return loss;
      };
      auto recorded = jit(step);
      for (int i = 0; i < 4; ++i) {
        Tensor x = Tensor::from(std::vector<float>{1.f + 0.5f * static_cast<float>(i)});
        Tensor loss = replayed ? recorded(x) : step(x);
        loss.eval();
      }
    };
    phase(false);
    phase(true);
    return std::vector<float>{a.item<float>(), b.item<float>()};
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Optimizer, AChangingRateIsOneProgram) {
  nn::Linear model(3, 1);
  AdamW optimizer(model.parameters(), {.lr = 1e-2});
  Tensor x = ones({4, 3}), y = ones({4, 1});
  eval({x, y}); // else the first step would compute them as well
  auto step = [&](double lr) {
    optimizer.set_lr(lr);
    Tensor loss = nn::mse(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  float first = step(1e-2).item<float>();
  uint64_t compiled = statistics().compiles,
           steps = statistics().cuts[static_cast<int>(CutReason::kStep)];
  float last = 0;
  for (int i = 0; i < 100; ++i)
    last = step(1e-2 + 1e-4 * i).item<float>();
  EXPECT_EQ(statistics().compiles, compiled);
  EXPECT_EQ(statistics().cuts[static_cast<int>(CutReason::kStep)], steps + 100);
  EXPECT_LT(last, 0.5f * first);
  EXPECT_NEAR(optimizer.lr(), 1e-2 + 99e-4, 1e-12);
}

TEST(Optimizer, StateContinuesTheRun) {
  auto train = [](nn::Linear &model, AdamW &optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      Tensor loss = nn::mse(model(ones({4, 3})), ones({4, 1}));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
  };
  nn::Linear a(3, 1);
  AdamW first(a.parameters(), {.lr = 0.05});
  train(a, first, 5);
  nn::Linear b(3, 1);
  AdamW second(b.parameters(), {.lr = 0.7});
  b.load_state(a.state());
  second.load_state(first.state());
  train(a, first, 5);
  train(b, second, 5);
  EXPECT_EQ(a.weight.to_vector<float>(), b.weight.to_vector<float>()) << "bit for bit";
  EXPECT_EQ(second.lr(), 0.05);
}

TEST(Optimizer, RefusesBadArguments) {
  Tensor parameter = parameter_of({1.f});
  EXPECT_NE(message_of([] { SGD({}); }).find("no parameters"), std::string::npos);
  EXPECT_NE(message_of([&] { SGD({parameter, parameter}); }).find("given twice"),
            std::string::npos);
  EXPECT_NE(message_of([&] { SGD({Tensor()}); }).find("undefined"), std::string::npos);
  EXPECT_NE(message_of([&] { SGD({zeros({1}, int64)}); }).find("floating-point"),
            std::string::npos);
  EXPECT_NE(message_of([&] { SGD({parameter}, {.lr = -1}); }).find("lr"), std::string::npos);
  EXPECT_NE(message_of([&] { SGD({parameter}, {.nesterov = true}); }).find("nesterov"),
            std::string::npos);
  EXPECT_NE(message_of([&] { AdamW({parameter}, {.beta1 = 1}); }).find("betas"), std::string::npos);
  AdamW optimizer({parameter});
  EXPECT_NE(message_of([&] { optimizer.set_lr(NAN); }).find("at least 0, it is nan"),
            std::string::npos);
  EXPECT_NE(message_of([&] { optimizer.load_state({}); }).find("4 state tensors, 0 are given"),
            std::string::npos);
  auto state = optimizer.state();
  state[0].first = "other";
  state.push_back(state[1]);
  std::string message = message_of([&] { optimizer.load_state(state); });
  for (const char *part : {"4 state tensors, 5 are given", "no tensor for 'lr'",
                           "the optimizer has no 'other'", "given twice is '"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_NE(message_of([&] { optimizer.load_state({}); }).find("no tensor for 'lr' and 3 more"),
            std::string::npos);
  state = optimizer.state();
  state.back().second = zeros({3});
  EXPECT_NE(message_of([&] { optimizer.load_state(state); }).find("[3]"), std::string::npos);
}

// A state goes by position, so that one of the same parameters in another order is not taken where
// that shows, and the error says which parameter it met.
TEST(Optimizer, AStateOfOtherParametersSaysWhose) {
  nn::Linear layer(2, 3);
  Tensor weight = layer.parameters()[0], bias = layer.parameters()[1];
  AdamW forth({weight, bias}), back({bias, weight});
  std::string message = message_of([&] { back.load_state(forth.state()); });
  for (const char *part : {"'exp_avg.0' (of the parameter 'bias') is float32 [3]",
                           "the given tensor is float32 [3, 2]", "in the same order"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Optimizer, OthersRefuseBadArguments) {
  Tensor parameter = parameter_of({1.f});
  EXPECT_NE(message_of([&] { Adam({parameter}, {.beta2 = 1}); }).find("Adam: betas"),
            std::string::npos);
  EXPECT_NE(message_of([&] { RMSprop({parameter}, {.alpha = 1}); }).find("alpha"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Adagrad({parameter}, {.lr_decay = -1}); }).find("lr_decay"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Lion({parameter}, {.weight_decay = -1}); }).find("weight_decay"),
            std::string::npos);
  EXPECT_NE(message_of([&] { ExponentialMovingAverage({parameter}, 2); }).find("decay"),
            std::string::npos);
  EXPECT_NE(message_of([&] { ExponentialMovingAverage({}); }).find("no parameters"),
            std::string::npos);
}

TEST(Optimizer, EveryStepOfEachIsOneProgram) {
  auto check = [](auto make) {
    nn::Linear model(3, 1);
    auto optimizer = make(model.parameters());
    Tensor x = ones({4, 3}), y = ones({4, 1});
    eval({x, y}); // else the first step would compute them as well
    auto step = [&] {
      Tensor loss = nn::mse(model(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      synchronize();
    };
    step();
    uint64_t compiled = statistics().compiles;
    for (int i = 0; i < 3; ++i)
      step();
    EXPECT_EQ(statistics().compiles, compiled);
  };
  check([](auto parameters) { return Adam(parameters, {.weight_decay = 0.1}); });
  check([](auto parameters) { return RMSprop(parameters, {.momentum = 0.5, .centered = true}); });
  check([](auto parameters) { return Adagrad(parameters, {.lr_decay = 0.1}); });
  check([](auto parameters) { return Lion(parameters, {.weight_decay = 0.1}); });
}

TEST(ExponentialMovingAverage, StateContinues) {
  Tensor parameter = parameter_of({1.f, 2.f});
  ExponentialMovingAverage first({parameter}, 0.5), second({parameter}, 0.5);
  parameter.set_requires_grad(false);
  parameter.fill_(3);
  first.update();
  second.load_state(first.state());
  EXPECT_EQ(second.averages()[0].to_vector<float>(), (std::vector<float>{2.f, 2.5f}));
  EXPECT_NE(message_of([&] { second.load_state({}); }).find("average.0"), std::string::npos);
  EXPECT_NE(message_of([&] { second.load_state({{"average.0", zeros({3})}}); }).find("[3]"),
            std::string::npos);
}

TEST(ExponentialMovingAverage, RefusesWhatWasMovedFrom) {
  Tensor parameter = zeros({2});
  ExponentialMovingAverage left({parameter}, 0.5), average = std::move(left);
  auto refused = [](const std::string &call, auto run) {
    EXPECT_NE(message_of(run).find(call + ": the ExponentialMovingAverage was moved from"),
              std::string::npos);
  };
  refused("update", [&] { left.update(); });
  refused("swap", [&] { left.swap(); });
  refused("state", [&] { left.state(); });
  refused("load_state", [&] { left.load_state(average.state()); });
  left = std::move(average);
  left.update();
  EXPECT_EQ(left.state().size(), 1u);
}

TEST(ClipGradNorm, ScalesOnlyWhatIsTooLong) {
  Tensor a = parameter_of({0, 0}), b = parameter_of({0}), c = parameter_of({0});
  auto set = [&] {
    a.set_grad(tensor({3.f, 0.f}));
    b.set_grad(tensor({4.f}));
  };
  set();
  EXPECT_NEAR(clip_grad_norm({a, b, c}, 1.0).item<float>(), 5, 1e-6);
  EXPECT_NEAR(a.grad().to_vector<float>()[0], 0.6, 1e-6);
  EXPECT_NEAR(b.grad().item<float>(), 0.8, 1e-6);
  EXPECT_FALSE(c.grad().defined());
  set();
  clip_grad_norm({a, b}, 10.0);
  EXPECT_EQ(b.grad().item<float>(), 4);
  EXPECT_NE(message_of([&] { clip_grad_norm({a}, 0); }).find("positive"), std::string::npos);
  std::string undefined = message_of([&] { clip_grad_norm({a, Tensor()}, 1); });
  EXPECT_EQ(undefined.find("clip_grad_norm: parameter 1 is undefined"), 0u) << undefined;
}

TEST(ClipGradNorm, SquaresOf16BitsAreWide) {
  for (float value : {1e-4f, 300.f}) {
    Tensor small = zeros({10000}, float16), scalar = zeros({}, bfloat16);
    small.set_requires_grad().set_grad(full({10000}, value, float16));
    scalar.set_requires_grad().set_grad(full({}, value, bfloat16));
    EXPECT_NEAR(clip_grad_norm({small, scalar}, 5e-3).item<float>(), 100 * value, value);
    EXPECT_EQ(small.grad().dtype(), float16);
    EXPECT_NEAR(small.grad()[0].item<float>(), 5e-5, 2e-7);
    EXPECT_EQ(scalar.grad().dtype(), bfloat16);
    EXPECT_NEAR(scalar.grad().item<float>(), 5e-5, 4e-7);
  }
}

TEST(Schedule, WarmUpThenHalfACosine) {
  CosineOptions options{.lr = 2, .warmup = 4, .total = 24, .final_share = 0.1};
  EXPECT_DOUBLE_EQ(cosine_lr(0, options), 0.5);
  EXPECT_DOUBLE_EQ(cosine_lr(3, options), 2);
  EXPECT_DOUBLE_EQ(cosine_lr(4, options), 2);
  EXPECT_NEAR(cosine_lr(14, options), 1.1, 1e-12);
  EXPECT_NEAR(cosine_lr(24, options), 0.2, 1e-12);
  EXPECT_NEAR(cosine_lr(99, options), 0.2, 1e-12);
}

// Numbers of PyTorch 2's torch.optim.lr_scheduler.
TEST(Schedule, ArePyTorchs) {
  auto expect = [](const std::vector<double> &rates, auto rate) {
    for (size_t i = 0; i < rates.size(); ++i)
      EXPECT_NEAR(rate(static_cast<int64_t>(i)), rates[i], 1e-12) << "step " << i;
  };
  expect({0.02, 0.26, 0.5, 0.47524231600673683, 0.40587282697488153, 0.30563101096814466,
          0.19437098903185537, 0.09412917302511849, 0.024759683993263143, 2e-06},
         [](int64_t step) { return one_cycle_lr(step, {.lr = 0.5, .total = 10}); });
  expect({0.5, 0.5, 0.5, 0.05, 0.05, 0.005, 0.005},
         [](int64_t step) { return multi_step_lr(step, 0.5, {5, 3}); });
  expect({0.5, 0.4, 0.2, 0.5, 0.47320508075688783, 0.4, 0.3, 0.2, 0.12679491924311226, 0.5,
          0.49318516525781364, 0.47320508075688783},
         [](int64_t step) {
           return warm_restarts_lr(step, {.lr = 0.5, .lowest = 0.1, .period = 3, .growth = 2});
         });
  expect({0.5, 0.42677669529663687, 0.25, 0.07322330470336313, 0.5, 0.42677669529663687, 0.25,
          0.07322330470336313, 0.5},
         [](int64_t step) { return warm_restarts_lr(step, {.lr = 0.5, .period = 4}); });
  EXPECT_NEAR(one_cycle_lr(99, {.lr = 0.5, .total = 10}), 2e-6, 1e-12) << "after the end";
}

TEST(Schedule, RefusesPeriodsThatAreNotPositive) {
  EXPECT_NE(message_of([] { step_lr(1, {.every = 0}); }).find("every must be at least 1, it is 0"),
            std::string::npos);
  EXPECT_NE(message_of([] { warm_restarts_lr(1, {.period = 0}); }).find("period must be at least"),
            std::string::npos);
  EXPECT_NE(message_of([] { warm_restarts_lr(1, {.growth = -1}); }).find("growth must be at least"),
            std::string::npos);
}

TEST(Schedule, PlateauIsPyTorchs) {
  Plateau plateau({.lr = 0.5, .factor = 0.5, .patience = 1, .cooldown = 1, .lowest = 0.1});
  const double measured[] = {1,   0.9, 0.9, 0.91, 0.92, 0.93, 0.94, 0.5,
                             0.6, 0.6, 0.6, 0.6,  0.6,  NAN,  0.6};
  const double rates[] = {0.5,   0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125,
                          0.125, 0.1, 0.1, 0.1,  0.1,  0.1,  0.1};
  for (size_t i = 0; i < std::size(rates); ++i)
    EXPECT_DOUBLE_EQ(plateau(measured[i]), rates[i]) << "measurement " << i;
  Plateau score({.lr = 1, .patience = 0, .maximize = true});
  EXPECT_EQ(score(0.5), 1);
  EXPECT_EQ(score(0.6), 1);
  EXPECT_NEAR(score(0.6), 0.1, 1e-15);
}

TEST(ClipGradValue, ClampsEachElement) {
  Tensor a = parameter_of({0, 0, 0}), b = parameter_of({0});
  a.set_grad(tensor({3.f, -0.25f, -7.f}));
  clip_grad_value({a, b}, 0.5);
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{0.5, -0.25, -0.5}));
  EXPECT_FALSE(b.grad().defined());
}

} // namespace
} // namespace weft::optim

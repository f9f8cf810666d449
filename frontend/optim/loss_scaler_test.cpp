// Dynamic loss scaling: gradients, steps that are left out, the scale's growth, recorded steps,
// checkpoints.
#include <limits>
#include <vector>

#include "tests/support/errors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft::optim {
namespace {

// Two parameters whose gradients are `slope` and twice that: sum(a) + 2 sum(b), times the slope.
struct Model {
  Tensor a = parameter({1, 2}), b = parameter({3});

  static Tensor parameter(std::vector<float> values) {
    Tensor made = Tensor::from(values);
    made.set_requires_grad(true);
    return made;
  }
  std::vector<Tensor> parameters() const {
    return {a, b};
  }
  Tensor loss(const Tensor &slope) const {
    return (a.sum() + b.sum() * 2) * slope;
  }
};

std::vector<float> values(const Tensor &x) {
  return x.to_vector<float>();
}

int64_t tracker(const LossScaler &scaler) {
  return scaler.state()[1].second.item<int64_t>();
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LossScaler, StepsAreThoseWithoutIt) {
  Model plain, scaled;
  AdamW one(plain.parameters(), {.lr = 0.1}), other(scaled.parameters(), {.lr = 0.1});
  LossScaler scaler({.init_scale = 1024});
  for (float slope : {1.f, 2.f, -3.f}) {
    one.zero_grad();
    plain.loss(scalar(slope, float32)).backward();
    one.step();
    other.zero_grad();
    scaler.scale(scaled.loss(scalar(slope, float32))).backward();
    scaler.step(other);
    // The scale is a power of two: nothing is rounded otherwise.
    EXPECT_EQ(values(scaled.a), values(plain.a));
    EXPECT_EQ(values(scaled.b), values(plain.b));
  }
  EXPECT_EQ(scaler.scale(), 1024);
  EXPECT_EQ(tracker(scaler), 3);
}

TEST(LossScaler, AStepThatOverflowsChangesTheScaleAlone) {
  Model model;
  AdamW optimizer(model.parameters(), {.lr = 0.1});
  LossScaler scaler({.init_scale = 1024, .backoff_factor = 0.25});
  auto step = [&](float slope) {
    optimizer.zero_grad();
    scaler.scale(model.loss(scalar(slope, float32))).backward();
    scaler.step(optimizer);
  };
  auto everything = [&] {
    std::vector<std::vector<double>> all;
    for (const auto &[name, tensor] : optimizer.state())
      all.push_back(tensor.to(float64).to_vector<double>());
    for (const Tensor &parameter : model.parameters())
      all.push_back(parameter.to(float64).to_vector<double>());
    return all;
  };
  // The first step of all, too: there its corrections would divide by zero.
  for (int i = 0; i < 2; ++i) {
    auto before = everything();
    step(kInfinity);
    EXPECT_EQ(everything(), before);
    EXPECT_EQ(scaler.scale(), i == 0 ? 256 : 64);
    EXPECT_EQ(tracker(scaler), 0);
    if (i == 0) {
      step(1);
      EXPECT_NE(everything(), before);
      EXPECT_EQ(tracker(scaler), 1);
    }
  }
  step(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(scaler.scale(), 16);
  // One gradient of several decides for all.
  optimizer.zero_grad();
  auto before = everything();
  scaler.scale(model.a.sum() + (model.b * kInfinity).sum()).backward();
  scaler.step(optimizer);
  EXPECT_EQ(everything(), before);
}

TEST(LossScaler, TheScaleGrowsAfterAnInterval) {
  Model model;
  SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  LossScaler scaler({.init_scale = 8, .growth_factor = 4, .growth_interval = 2});
  std::vector<double> scales;
  for (float slope : {1.f, 1.f, 1.f, kInfinity, 1.f, 1.f}) {
    optimizer.zero_grad();
    scaler.scale(model.loss(scalar(slope, float32))).backward();
    scaler.step(optimizer);
    scales.push_back(scaler.scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 32, 32, 16, 16, 64}));
  // It stays finite.
  LossScaler large({.init_scale = 0x1p127, .growth_interval = 1});
  optimizer.zero_grad();
  large.scale(model.loss(scalar(0x1p-127f, float32))).backward();
  large.step(optimizer);
  EXPECT_EQ(large.scale(), 0x1p127);
}

// Each part in a jitted function of its own, or outside of any, called in some steps or in all.
TEST(LossScaler, PartsMayBeJitted) {
  auto run = [](bool jits_unscale, bool jits_step, int every) {
    Tensor w = ones({1}).set_requires_grad();
    SGD optimizer({w}, {.lr = 0.01});
    LossScaler scaler({.init_scale = 8});
    auto unscale = [&] { scaler.unscale_(optimizer); };
    auto step = [&] { scaler.step(optimizer); };
    auto jitted_unscale = jit(unscale);
    auto jitted_step = jit(step);
    std::vector<float> seen;
    for (int i = 0; i < 6; ++i) {
      optimizer.zero_grad();
      scaler.scale(w.square().sum()).backward();
      if (i % every == 0)
        jits_unscale ? jitted_unscale() : unscale();
      jits_step ? jitted_step() : step();
      seen.push_back(w.item<float>());
    }
    return seen;
  };
  for (int every : {1, 2, 3})
    for (int jits = 1; jits < 4; ++jits)
      EXPECT_EQ(run(jits & 1, jits & 2, every), run(false, false, every)) << every << " " << jits;
}

TEST(LossScaler, UnscaledGradientsCanBeClipped) {
  Model model;
  SGD optimizer(model.parameters(), {.lr = 1});
  LossScaler scaler({.init_scale = 512});
  scaler.scale(model.loss(scalar(1, float32))).backward();
  scaler.unscale_(optimizer);
  EXPECT_EQ(values(model.b.grad()), std::vector<float>{2});
  EXPECT_MESSAGE(scaler.unscale_(optimizer), "unscaled before");
  clip_grad_value(model.parameters(), 0.5);
  scaler.step(optimizer);
  EXPECT_EQ(values(model.a), (std::vector<float>{0.5, 1.5}));
  EXPECT_EQ(values(model.b), std::vector<float>{2.5});
  // A gradient that overflowed is clipped to NaN, and its step left out all the same.
  optimizer.zero_grad();
  scaler.scale(model.loss(scalar(kInfinity, float32))).backward();
  scaler.unscale_(optimizer);
  clip_grad_norm(model.parameters(), 1);
  scaler.step(optimizer);
  EXPECT_EQ(values(model.b), std::vector<float>{2.5});
  EXPECT_EQ(scaler.scale(), 256);
}

TEST(LossScaler, ParametersWithoutGradientsStayApart) {
  Model model;
  AdamW optimizer(model.parameters(), {.lr = 0.1});
  LossScaler scaler({.init_scale = 4});
  auto step = [&](const Tensor &loss) {
    optimizer.zero_grad();
    scaler.scale(loss).backward();
    scaler.step(optimizer);
  };
  step(model.loss(scalar(1, float32)));
  step(model.a.sum() * kInfinity); // b parts from a in a step that is left out
  step(model.loss(scalar(1, float32)));
  // Both took two steps of a constant gradient, each of about the learning rate.
  EXPECT_NEAR(values(model.a)[0], 1 - 0.2, 5e-3);
  EXPECT_NEAR(values(model.b)[0], 3 - 0.2, 1e-2);
}

TEST(LossScaler, RecordedStepsDecideAnew) {
  Model model;
  Adam optimizer(model.parameters(), {.lr = 0.1});
  LossScaler scaler({.init_scale = 16, .growth_interval = 2});
  auto step = jit([&](const Tensor &slope) {
    optimizer.zero_grad();
    Tensor loss = model.loss(slope);
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    return loss;
  });
  std::vector<double> scales;
  std::vector<float> before = values(model.a);
  for (float slope : {1.f, kInfinity, 1.f, 1.f}) {
    step(scalar(slope, float32));
    scales.push_back(scaler.scale());
    EXPECT_EQ(values(model.a) == before, slope == kInfinity);
    before = values(model.a);
  }
  EXPECT_EQ(scales, (std::vector<double>{16, 8, 8, 16}));
}

TEST(LossScaler, ATracedStepHasItsState) {
  Model model;
  SGD optimizer(model.parameters(), {.lr = 0.5});
  LossScaler scaler({.init_scale = 16});
  Program program = trace(
      [&](const Tensor &slope) {
        optimizer.zero_grad();
        scaler.scale(model.loss(slope)).backward();
        scaler.step(optimizer);
        return model.b;
      },
      std::vector<Tensor>{ones({})}, StateNames("scaler", scaler));
  program.run({full({}, kInfinity)});
  program.run({ones({})});
  bool found = false;
  for (const auto &[name, tensor] : program.state())
    if (name == "scaler.scale") {
      found = true;
      EXPECT_EQ(tensor.item<float>(), 8);
    }
  EXPECT_TRUE(found);
}

TEST(LossScaler, StateIsSavedAndLoaded) {
  Model model;
  SGD optimizer(model.parameters(), {.lr = 0.5});
  LossScaler scaler({.init_scale = 16}), other;
  scaler.scale(model.loss(scalar(1, float32))).backward();
  scaler.step(optimizer);
  other.load_state(scaler.state());
  EXPECT_EQ(other.scale(), 16);
  EXPECT_EQ(tracker(other), 1);
  nn::NamedTensors wrong = {{"scale", ones({2})}, {"growth_tracker", zeros({}, int64)}};
  EXPECT_MESSAGE(other.load_state(wrong), "'scale' is float32 [] in the scaler");
  EXPECT_MESSAGE(other.load_state({}), "2 state tensors, 0 are given");
  EXPECT_EQ(other.scale(), 16);
}

TEST(LossScaler, SwitchedOffItIsNotThere) {
  Model model;
  SGD optimizer(model.parameters(), {.lr = 1});
  LossScaler scaler({.enabled = false});
  scaler.scale(model.loss(scalar(1, float32))).backward();
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  EXPECT_EQ(values(model.b), std::vector<float>{1});
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_TRUE(scaler.state().empty());
}

TEST(LossScaler, BadUseIsAnError) {
  EXPECT_MESSAGE(LossScaler({.init_scale = 0}), "init_scale is 0");
  EXPECT_MESSAGE(LossScaler({.init_scale = 1e300}), "positive and finite");
  EXPECT_MESSAGE(LossScaler({.growth_factor = 1}), "above 1");
  EXPECT_MESSAGE(LossScaler({.backoff_factor = 1}), "between 0 and 1");
  EXPECT_MESSAGE(LossScaler({.growth_interval = 0}), "at least 1");
  Model model, another;
  SGD optimizer(model.parameters(), {.lr = 1}), second(another.parameters(), {.lr = 1});
  LossScaler scaler;
  EXPECT_MESSAGE(scaler.scale(ones({}, int64)), "loss is int64");
  EXPECT_MESSAGE(scaler.scale(Tensor()), "scale: loss is undefined: it was never given a value");
  EXPECT_MESSAGE(scaler.step(optimizer), "no parameter of the optimizer has a gradient");
  scaler.scale(model.loss(scalar(1, float32)) + another.loss(scalar(1, float32))).backward();
  scaler.unscale_(optimizer);
  EXPECT_MESSAGE(scaler.step(second), "another optimizer");
}

TEST(LossScaler, ASecondOptimizerIsAnError) {
  Model model, another;
  SGD optimizer(model.parameters(), {.lr = 1}), second(another.parameters(), {.lr = 1});
  LossScaler scaler;
  scaler.scale(model.loss(scalar(1, float32)) + another.loss(scalar(1, float32))).backward();
  scaler.step(optimizer);
  EXPECT_MESSAGE(scaler.step(second), "another optimizer");
  EXPECT_MESSAGE(scaler.unscale_(second), "another optimizer");
  EXPECT_MESSAGE(scaler.step({optimizer, second}), "another optimizer");
  EXPECT_MESSAGE(LossScaler().step({optimizer, optimizer}), "given twice");
  EXPECT_MESSAGE(LossScaler().step(LossScaler::Optimizers()), "no optimizer in the list");
}

// Whether gradients are finite is known inside the step alone.
TEST(LossScaler, ATracedStepHasNoStateBesideWhatIsNamed) {
  Model model;
  SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  LossScaler scaler({.init_scale = 8});
  auto step = [&](const Tensor &slope) {
    optimizer.zero_grad();
    Tensor loss = model.loss(slope);
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    clip_grad_value(model.parameters(), 2);
    scaler.step(optimizer);
    return loss;
  };
  Program program = trace(step, {scalar(1, float32)},
                          {{"model", nn::NamedTensors{{"a", model.a}, {"b", model.b}}},
                           {"optimizer", optimizer},
                           {"scaler", scaler}});
  std::vector<std::string> unnamed;
  for (const auto &[name, tensor] : program.state())
    if (name.find('.') == std::string::npos)
      unnamed.push_back(name);
  EXPECT_EQ(unnamed, std::vector<std::string>());
  for (float slope : {1.f, kInfinity, -0.5f}) {
    Tensor expected = step(scalar(slope, float32));
    EXPECT_EQ(program.run({scalar(slope, float32)})[0].item<float>(), expected.item<float>());
  }
  for (const auto &[name, tensor] : program.state())
    if (name == "model.b")
      EXPECT_EQ(values(tensor), values(model.b));
}

// Groups of one loss: they step as one, or none does, and none sees another scale than the others.
TEST(LossScaler, OptimizersOfOneLossStepTogether) {
  auto run = [](bool scales, bool jits) {
    Model model;
    AdamW decayed({model.a}, {.lr = 0.1, .weight_decay = 0.1});
    SGD others({model.b}, {.lr = 0.1, .momentum = 0.9});
    LossScaler scaler({.init_scale = 8, .enabled = scales});
    auto step = [&](const Tensor &slopes) {
      decayed.zero_grad();
      others.zero_grad();
      Tensor loss = (model.a * slopes[0]).sum() + (model.b * slopes[1]).sum();
      scaler.scale(loss).backward();
      scaler.unscale_({decayed, others});
      clip_grad_value(model.parameters(), 2);
      scaler.step({others, decayed});
      return loss;
    };
    auto jitted = jit(step);
    for (std::vector<float> slopes : std::vector<std::vector<float>>{
             {1, 3}, {kInfinity, 1}, {1, kInfinity}, {-1, 0.5}}) {
      bool overflows = slopes[0] == kInfinity || slopes[1] == kInfinity;
      if (overflows && !scales)
        continue;
      std::vector<float> before = values(model.a), b = values(model.b);
      jits ? jitted(Tensor::from(slopes)) : step(Tensor::from(slopes));
      EXPECT_EQ(values(model.a) == before, overflows);
      EXPECT_EQ(values(model.b) == b, overflows);
    }
    std::vector<float> seen = values(model.a);
    seen.push_back(values(model.b)[0]);
    if (scales)
      EXPECT_EQ(scaler.scale(), 2);
    return seen;
  };
  std::vector<float> plain = run(false, false);
  EXPECT_EQ(run(true, false), plain);
  EXPECT_EQ(run(true, true), plain);
}

// float16: gradients of 1e-8 are zero without a scale.
TEST(LossScaler, SmallGradientsOfFloat16Survive) {
  Tensor weight = ones({4, 4});
  weight.set_requires_grad(true);
  Tensor x = ones({2, 4});
  auto gradient = [&](const LossScaler &scaler) {
    weight.zero_grad();
    Tensor y;
    {
      Autocast scope(float16);
      y = matmul(x, weight);
    }
    scaler.scale(y.to(float32).sum() * 1e-8).backward();
    return weight.grad().to_vector<float>()[0];
  };
  EXPECT_EQ(gradient(LossScaler({.enabled = false})), 0);
  EXPECT_NEAR(gradient(LossScaler({.init_scale = 65536})) / 65536, 2e-8, 1e-10);
}

// Where the loss is never read a later step raises the error of a batch. What it left divided is no
// gradient of the next loss.
TEST(LossScaler, TheStepAfterOneThatFailedDividesItsGradients) {
  auto weights = [](bool fails) {
    manual_seed(1);
    nn::Linear linear(4, 3);
    SGD optimizer(linear.parameters(), {.lr = 0.1});
    LossScaler scaler({.init_scale = 1024});
    Tensor x = randn({6, 4}), y = tensor<int64_t>({0, 1, 2, 0, 1, 2}),
           bad = tensor<int64_t>({0, 1, 2, 0, 1, 7});
    eval({x, y, bad});
    auto step = [&](const Tensor &targets) {
      optimizer.zero_grad();
      scaler.scale(nn::cross_entropy(linear(x), targets)).backward();
      scaler.step(optimizer);
    };
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 4; ++i) {
      if (i == 2 && fails) {
        auto bad_step = [&] {
          step(bad);
          synchronize();
          step(y);
        };
        EXPECT_THROW(bad_step(), Error);
      }
      step(y);
      all.push_back(linear.weight.to_vector<float>());
    }
    return all;
  };
  EXPECT_EQ(weights(true), weights(false));
}

} // namespace
} // namespace weft::optim

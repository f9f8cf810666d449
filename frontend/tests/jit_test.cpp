// weft::jit and weft::trace.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <functional>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::error_of;
using Floats = std::vector<float>;

TEST(Jit, ReplaysForEachShape) {
  int calls = 0;
  auto f = jit([&](const Tensor &x) {
    ++calls;
    return x * 2 + 1;
  });
  uint64_t before = statistics().replays;
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(f(tensor({float(i)})).item<float>(), 2.f * i + 1);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(statistics().replays - before, 4u);
  EXPECT_EQ(f(tensor({1.f, 2.f})).to_vector<float>(), (Floats{3, 5}));
  EXPECT_EQ(calls, 2);
}

// What calls it stands in a header of the standard library, which says nothing to its reader.
TEST(Jit, ACallThroughAStdFunctionStandsWhereItWasMade) {
  const int line = __LINE__ + 1;
  std::function<Tensor(const Tensor &)> f = jit([](const Tensor &x) { return x + 1; });
  try {
    f(Tensor());
    FAIL() << "an undefined argument was taken";
  } catch (const Error &error) {
    EXPECT_EQ(std::filesystem::path(error.file()).filename(), "jit_test.cpp") << error.what();
    EXPECT_EQ(error.line(), line);
  }
}

TEST(Jit, HoldsABoundedNumberOfSignatures) {
  Config before = config(), bounded = before;
  bounded.jit_signatures = 2;
  set_config(bounded);
  int calls = 0;
  auto f = jit([&](const Tensor &x) {
    ++calls;
    return x + 1;
  });
  auto call = [&](int64_t n) {
    EXPECT_EQ(f(ones({n})).to_vector<float>(), Floats(size_t(n), 2.f));
  };
  call(1), call(2), call(1), call(3), call(1);
  EXPECT_EQ(calls, 3); // [1] was used after [2], so [2] went
  call(2);
  EXPECT_EQ(calls, 4);
  set_config(before);
}

TEST(Jit, ReadsCapturedStoragesAgain) {
  Tensor w = tensor({3.f});
  auto f = jit([&](const Tensor &x) { return x * w; });
  EXPECT_EQ(f(tensor({2.f})).item<float>(), 6.f);
  w += 1;
  EXPECT_EQ(f(tensor({2.f})).item<float>(), 8.f);
}

TEST(Jit, WritesStorages) {
  Tensor state = tensor({0.f});
  auto f = jit([&](const Tensor &x) {
    state += x;
    return state * 10;
  });
  EXPECT_EQ(f(tensor({1.f})).item<float>(), 10.f);
  Tensor old = state.clone();
  EXPECT_EQ(f(tensor({2.f})).item<float>(), 30.f);
  EXPECT_EQ(state.item<float>(), 3.f);
  EXPECT_EQ(old.item<float>(), 1.f);
}

TEST(Jit, RunsAWholeTrainingStep) {
  Tensor w = tensor({1.f}).set_requires_grad();
  auto step = jit([&](const Tensor &x) {
    Tensor loss = square(w * x - 4).sum();
    w.zero_grad();
    loss.backward();
    NoGrad no_grad;
    w -= w.grad() * 0.05;
    return loss;
  });
  uint64_t before = statistics().compiles + statistics().disk_hits;
  float last = 1e9f;
  for (int i = 0; i < 30; ++i) {
    float loss = step(tensor({2.f})).item<float>();
    EXPECT_LE(loss, last);
    last = loss;
  }
  EXPECT_NEAR(w.item<float>(), 2.f, 1e-2);
  EXPECT_TRUE(w.grad().defined());
  EXPECT_EQ(statistics().compiles + statistics().disk_hits - before, 1u);
}

// Twin models, one trained by calls of a jit function, for two sizes of batches.
template <typename Optimizer, typename Options> void train_twins(Options options) {
  auto loss_of = [](const nn::Linear &model, const Tensor &x) {
    return nn::mse(model(x), (x * x).sum(1, true));
  };
  auto train = [&](bool replayed) {
    manual_seed(5);
    nn::Linear model(3, 1);
    Optimizer optimizer(model.parameters(), options);
    auto step = [&](const Tensor &x) {
      Tensor loss = loss_of(model, x);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto fast = jit(step);
    Floats numbers;
    for (int i = 0; i < 8; ++i) {
      Tensor x = rand({i % 3 == 2 ? 4 : 8, 3});
      numbers.push_back((replayed ? fast(x) : step(x)).template item<float>());
    }
    for (const Tensor &parameter : model.parameters())
      for (float value : parameter.template to_vector<float>())
        numbers.push_back(value);
    return numbers;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Jit, RunsStepsOfEveryOptimizer) {
  train_twins<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.1});
  train_twins<optim::Adam>(optim::AdamOptions{.lr = 0.05, .weight_decay = 0.01});
  train_twins<optim::AdamW>(optim::AdamWOptions{.lr = 0.05});
  train_twins<optim::Adam>(optim::AdamOptions{.lr = 0.05, .amsgrad = true, .maximize = true});
  train_twins<optim::NAdam>(optim::NAdamOptions{.lr = 0.05});
  train_twins<optim::RAdam>(optim::RAdamOptions{.lr = 0.05});
  train_twins<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.05});
  train_twins<optim::Adagrad>(optim::AdagradOptions{.lr = 0.05, .lr_decay = 0.1});
  train_twins<optim::Lion>(optim::LionOptions{.lr = 0.05});
}

TEST(Jit, TellsTheLinesOfTheUser) {
  auto error_of = [](auto &&call) {
    try {
      call();
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto place = [](int line) {
    return "jit_test.cpp:" + std::to_string(line) + ": ";
  };
  int inside = __LINE__ + 1;
  auto product = jit([](const Tensor &x, const Tensor &y) { return matmul(x, y); });
  EXPECT_NE(error_of([&] { product(ones({2, 3}), ones({2, 3})); }).find(place(inside) + "matmul: "),
            std::string::npos);
  std::string said = error_of([&] { product(ones({2, 3}), Tensor()); });
  EXPECT_NE(said.find(place(inside) + "matmul: 'y' is an undefined tensor"), std::string::npos)
      << said;
}

// As the library's own functions take them: no mask, no bias.
TEST(Jit, TakesUndefinedTensors) {
  auto masked = jit([](const Tensor &x, const Tensor &mask, const Tensor &y) {
    return mask.defined() ? x * mask + y : x + y;
  });
  for (int i = 0; i < 2; ++i) {
    Tensor x = full({2}, 3.0 + i), y = full({2}, 1.0);
    EXPECT_EQ(masked(x, Tensor(), y).to_vector<float>(), (Floats{4.f + i, 4.f + i}));
    EXPECT_EQ(masked(x, tensor({0.f, 1.f}), y).to_vector<float>(), (Floats{1, 4.f + i}));
  }
  Program program = trace([](const Tensor &x, const Tensor &mask) {
    return mask.defined() ? x * mask : x * 2.0;
  }, {ones({2}), Tensor()});
  EXPECT_EQ(program.run({full({2}, 4.0)})[0].to_vector<float>(), (Floats{8, 8}));
}

// A mode that the function sets holds where it was set, and afterwards as a call leaves it.
TEST(Jit, LeavesModulesInTheModeThatACallLeaves) {
  nn::Dropout dropout(0.5);
  auto back_and_forth = [&](const Tensor &x) {
    dropout.eval();
    Tensor y = dropout(x);
    dropout.train();
    return y;
  };
  auto jitted = jit(back_and_forth);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(jitted(ones({4})).to_vector<float>(), Floats(4, 1.f));
    EXPECT_TRUE(dropout.training());
  }
  Program program = trace(back_and_forth, {ones({4})});
  EXPECT_TRUE(dropout.training());
  auto ends = jit([&](const Tensor &x) {
    Tensor y = dropout(x);
    dropout.eval();
    return y;
  });
  Tensor x = ones({1000});
  EXPECT_NE(ends(x).sum().item<float>(), 1000.f);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(dropout.training());
    EXPECT_EQ(ends(x).to_vector<float>(), x.to_vector<float>());
  }
}

// A generator that the function makes begins anew in each call.
TEST(Jit, GeneratorsOfTheFunctionBeginInEachCall) {
  auto draw = [](const Tensor &x) {
    Generator generator(5);
    return rand({3}, generator) * x + rand({3}, generator);
  };
  auto jitted = jit(draw);
  Floats plain = draw(ones({3})).to_vector<float>();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(jitted(ones({3})).to_vector<float>(), plain);
  Program program = trace(draw, {ones({3})});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(program.run({ones({3})})[0].to_vector<float>(), plain);
}

TEST(Jit, GivesUndefinedTensors) {
  auto f = [](const Tensor &x) {
    return std::vector<Tensor>{Tensor(), x * 2.0, Tensor()};
  };
  auto jitted = jit(f);
  for (float value : {1.f, 2.f, 3.f}) {
    std::vector<Tensor> results = jitted(full({2}, value));
    ASSERT_EQ(results.size(), 3u);
    EXPECT_FALSE(results[0].defined());
    EXPECT_EQ(results[1].to_vector<float>(), Floats(2, 2 * value));
    EXPECT_FALSE(results[2].defined());
  }
  // A gradient that is there in some calls.
  Tensor w = ones({2}).set_requires_grad();
  auto gradient = jit([&] { return w.grad(); });
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(gradient().defined());
    (w * 3.0).sum().backward();
    EXPECT_EQ(gradient().to_vector<float>(), Floats(2, 3.f));
    w.zero_grad();
  }
  // A program has no such result.
  EXPECT_NE(error_of([&] { trace(f, {ones({2})}); })
                .message()
                .find("result 0 of the function is an undefined tensor"),
            std::string::npos);
}

// A leaf's gradient is read where it is at the call: another tensor there is no other program.
TEST(Jit, ItsCheckTakesGradientsThatWereReplaced) {
  Config before = config(), checked = before;
  checked.jit_check = true;
  set_config(checked);
  Tensor w = ones({3}).set_requires_grad();
  optim::SGD optimizer({w}, {.lr = 0.5});
  auto step = jit([&] { optimizer.step(); });
  for (float value : {1.f, 0.5f, 0.25f}) {
    optimizer.zero_grad();
    (w * value).sum().backward();
    step();
  }
  set_config(before);
  EXPECT_EQ(w.to_vector<float>(), Floats(3, 0.125f));
}

TEST(Jit, DrawsNewRandomNumbers) {
  manual_seed(3);
  auto f = jit([](const Tensor &x) { return x + rand({4}); });
  Floats a = f(zeros({4})).to_vector<float>(), b = f(zeros({4})).to_vector<float>();
  EXPECT_NE(a, b);
  manual_seed(3);
  EXPECT_EQ((zeros({4}) + rand({4})).to_vector<float>(), a);
}

TEST(Jit, RefusesValuesAndLeaks) {
  auto reads = jit([](const Tensor &x) { return x.item<float>() > 0 ? x : -x; });
  EXPECT_THROW(reads(tensor({1.f})), Error);
  Tensor outside = tensor({1.f});
  auto leaks = jit([&](const Tensor &x) {
    outside = x * 2;
    return x + outside;
  });
  EXPECT_THROW(leaks(tensor({1.f})), Error);
  outside = Tensor();
  // The recorder is as it was.
  EXPECT_EQ((tensor({1.f}) + 1).item<float>(), 2.f);
}

// The next call's backward goes on into a gradient's history, which a program has not.
TEST(Jit, CallsWhatLeavesAGradientWithAHistory) {
  auto twice = [](bool jitted) {
    Tensor x = tensor({2.f}).set_requires_grad();
    auto step = [x](const Tensor &y) {
      sum(x).backward({}, true);
      x.grad().mul_(x);
      sum(x.grad()).backward({}, true);
      return y + 1;
    };
    auto f = jit(step);
    for (int i = 0; i < 3; ++i)
      eval(jitted ? f(ones({1})) : step(ones({1})));
    float gradient = x.grad().item<float>();
    x.zero_grad(); // its history leads back to x: neither would go
    return gradient;
  };
  EXPECT_EQ(twice(true), twice(false));
}

// What the function makes of an argument's gradients is part of the program; what it does to the
// argument itself is not.
TEST(Jit, DifferentiatesByAnArgument) {
  Tensor p = tensor({1.f, 2.f}).set_requires_grad();
  auto direct = [before = statistics().direct_calls] {
    return statistics().direct_calls - before;
  };
  auto derivative = [](const Tensor &p, const Tensor &x) {
    Tensor y = (p * p * x).sum();
    return grad({y}, {p})[0];
  };
  auto f = jit(derivative);
  uint64_t replays = statistics().replays;
  for (float scale : {3.f, 5.f, 7.f}) {
    Tensor x = tensor({scale, 1.f});
    EXPECT_EQ(f(p, x).to_vector<float>(), derivative(p, x).to_vector<float>());
  }
  EXPECT_EQ(statistics().replays, replays + 2);
  EXPECT_EQ(direct(), 0u);
  p.register_hook([](const Tensor &gradient) { return gradient * 10; });
  EXPECT_EQ(f(p, ones({2})).to_vector<float>(), (std::vector<float>{20, 40}));
  EXPECT_EQ(direct(), 1u);

  Tensor q = tensor({3.f}).set_requires_grad();
  auto loss = jit([](const Tensor &q) { return q * q; });
  for (int i = 0; i < 2; ++i)
    loss(q).sum().backward();
  EXPECT_EQ(q.grad().item<float>(), 12.f);
  auto step = jit([](Tensor q) {
    (q * q).sum().backward();
    return q.detach() + 1;
  });
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(step(q).item<float>(), 4.f);
  EXPECT_EQ(q.grad().item<float>(), 24.f);
  int called = 0;
  auto hooked = jit([&called](Tensor q) {
    q.register_hook([&called](const Tensor &gradient) {
      ++called;
      return gradient;
    });
    return q.detach() + 1;
  });
  hooked(q);
  loss(q).sum().backward();
  EXPECT_EQ(called, 1);
  auto frozen = jit([](Tensor q) {
    q.set_requires_grad(false);
    return q + 1;
  });
  frozen(q);
  EXPECT_FALSE(q.requires_grad());
}

TEST(Trace, GivesAProgram) {
  Tensor w = tensor({{1.f, 2.f}, {3.f, 4.f}});
  Program program = trace([&](const Tensor &x) { return relu(matmul(x, w)) + 1; }, {zeros({1, 2})});
  EXPECT_EQ(program.input_shapes(), (std::vector<Shape>{{1, 2}}));
  EXPECT_EQ(program.output_shapes(), (std::vector<Shape>{{1, 2}}));
  std::string text = program.to_string();
  EXPECT_NE(text.find("weft.matmul"), std::string::npos);
  EXPECT_NE(text.find("jit_test.cpp"), std::string::npos);
  EXPECT_EQ(program.run({tensor({{1.f, -1.f}})})[0].to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(program.run({tensor({{1.f, 1.f}})})[0].to_vector<float>(), (Floats{5, 7}));
  EXPECT_THROW(program.run({tensor({1.f})}), Error);

  std::string path = testing::TempDir() + "/program.mlir";
  program.save(path);
  Program loaded = Program::load(path);
  EXPECT_EQ(loaded.run({tensor({{1.f, 1.f}})})[0].to_vector<float>(), (Floats{5, 7}));
  EXPECT_THROW(Program::load(path + ".missing"), Error);
  EXPECT_THROW(Program::parse("not a program"), Error);
  std::remove(path.c_str());
}

TEST(Trace, PassesInputsThroughAndChangesNothingOutside) {
  Tensor state = tensor({1.f});
  Program program = trace(
      [&](const Tensor &x, const Tensor &y) {
        state += 1;
        return std::vector<Tensor>{y, x + state, y};
      },
      {zeros({1}), zeros({2})});
  EXPECT_EQ(state.item<float>(), 1.f);
  std::vector<Tensor> results = program.run({tensor({1.f}), tensor({5.f, 6.f})});
  EXPECT_EQ(results[0].to_vector<float>(), (Floats{5, 6}));
  EXPECT_EQ(results[1].item<float>(), 3.f);
  // What it writes is the program's own.
  EXPECT_EQ(program.run({tensor({1.f}), tensor({5.f, 6.f})})[1].item<float>(), 4.f);
  EXPECT_EQ(state.item<float>(), 1.f);
}

TEST(Trace, CompilesAheadOfTime) {
  std::vector<float> values(64 * 8, 0.5f);
  values[3] = -1;
  Tensor w = Tensor::from<float>(values, {64, 8});
  Program program = trace([&](const Tensor &x) { return relu(matmul(x, w)); }, {zeros({1, 64})});
  std::string path = testing::TempDir() + "/compiled";
  EXPECT_THROW(program.compile({.emit = Emit::object}), Error); // no output
  if (config().backend == "reference") {
    EXPECT_THROW(program.compile({.emit = Emit::object, .output = path, .target = "reference"}),
                 Error);
    return;
  }
  program.compile({.emit = Emit::plan, .output = path + ".plan"});
  EXPECT_GT(std::filesystem::file_size(path + ".plan"), 100u);
  program.compile({.emit = Emit::object, .output = path + ".o", .name = "small"});
  EXPECT_GT(std::filesystem::file_size(path + ".o"), 64u * 8 * 4);
  EXPECT_EQ(program.run({ones({1, 64})})[0].to_vector<float>()[0], 32.f); // it can still be run
}

// A program may put a new gradient where a state lay that it is given to write. After a failure
// that memory is the state's again, and the gradient that is lost must not bring its successor
// there.
TEST(Jit, AStateThatWentBackSharesNoMemoryWithAGradient) {
  auto states = [](bool fails) {
    manual_seed(1);
    Tensor x = randn({6, 4}), y = tensor<int64_t>({0, 1, 2, 0, 1, 2}),
           bad = tensor<int64_t>({0, 1, 2, 0, 1, 7}), state = zeros({4}), weight = ones({4});
    eval({x, y, bad, state});
    weight.set_requires_grad();
    auto step = jit([&](const Tensor &inputs, const Tensor &targets) {
      weight.zero_grad();
      Tensor mean = inputs.mean(0);
      {
        NoGrad no_grad;
        state.copy_(state * 0.9 + 0.1 * mean);
      }
      Tensor loss = nn::cross_entropy(inputs * weight - mean, targets);
      loss.backward();
      return loss.detach();
    });
    std::vector<float> all;
    for (int i = 0; i < 4; ++i) {
      if (i == 2 && fails)
        EXPECT_THROW(step(x, bad).item<float>(), Error);
      step(x, y).item<float>();
      for (const Tensor &one : {state, weight.grad()})
        for (float value : one.to_vector<float>())
          all.push_back(value);
    }
    return all;
  };
  EXPECT_EQ(states(true), states(false));
}

// What detach() made is written inside with a history of its own: of a replay no backward is to
// follow, so that the function itself is called where one could.
TEST(Jit, WritesWhatIsDetached) {
  auto trained = [](bool jitted) {
    Tensor w = tensor({1.f, 2.f}).set_requires_grad(), h = ones({2}).detach();
    std::function<Tensor(const Tensor &)> step = [&](const Tensor &x) {
      w.zero_grad();
      h.mul_(x);
      h.add_(w);
      (h * h).sum().backward();
      h.copy_(h.detach().clone());
      return h.sum().detach();
    };
    if (jitted)
      step = jit(step);
    std::vector<float> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(step(tensor({2.f, 3.f})).item<float>());
      for (float value : w.grad().to_vector<float>())
        all.push_back(value);
    }
    return all;
  };
  uint64_t before = statistics().direct_calls;
  EXPECT_EQ(trained(true), trained(false));
  EXPECT_EQ(statistics().direct_calls, before);

  Tensor w = tensor({1.f, 2.f}).set_requires_grad(), h = ones({2}).detach();
  auto write = jit([&](const Tensor &x) {
    h.copy_(w * x);
    return x * 2;
  });
  for (float scale : {3.f, 4.f}) {
    write(tensor({scale, scale}));
    w.zero_grad();
    h.sum().backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{scale, scale}));
  }
  EXPECT_EQ(statistics().direct_calls, before + 2);
}

// Two handles share a storage whose original is gone.
TEST(Jit, WritesThroughOneOfTwoThatWereDetached) {
  auto states = [](bool jitted) {
    Tensor w = tensor({1.f, 2.f}).set_requires_grad(), whole, part;
    {
      Tensor y = w * 2;
      whole = y.detach();
      part = y[1].detach();
    }
    std::function<Tensor(const Tensor &)> step = [&](const Tensor &x) {
      whole.mul_(x);
      part.add_(1);
      return whole + part;
    };
    if (jitted)
      step = jit(step);
    std::vector<float> all;
    for (float scale : {2.f, 3.f, 4.f})
      for (const Tensor &each : {step(tensor({scale, scale})), whole.clone(), part.reshape({1})})
        for (float value : each.to_vector<float>())
          all.push_back(value);
    return all;
  };
  EXPECT_EQ(states(true), states(false));
  EXPECT_EQ(states(false)[2], 4.f);
  EXPECT_EQ(states(false)[4], 9.f);
}

TEST(Trace, ReadsWhatIsDetached) {
  Tensor w = tensor({1.f, 2.f}).set_requires_grad();
  Tensor h = (w * 2).detach();
  Program program = trace([&](const Tensor &x) { return (h * x).detach(); }, {ones({2})});
  EXPECT_EQ(program.run({tensor({3.f, 4.f})})[0].to_vector<float>(), (std::vector<float>{6, 16}));
  h.mul_(10);
  EXPECT_EQ(h.to_vector<float>(), (std::vector<float>{20, 40}));
}

} // namespace
} // namespace weft

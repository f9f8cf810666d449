// A program that ends at an index out of range: what it would have written in place is what it was
// before, bit for bit, and the program goes on as if the bad step had never been.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <span>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/memory/allocator.h"
#include "tests/support/compiles.h"
#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::error_of;
using Floats = std::vector<float>;
constexpr int64_t kVocabulary = 11, kWidth = 8, kBatch = 4, kLength = 6;

// Embedding, a running state, dropout, a hidden layer, classes: what a language model's step has.
struct Model : nn::Module {
  nn::Embedding table = child("table", nn::Embedding(kVocabulary, kWidth));
  nn::Linear up = child("up", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear down = child("down", nn::Linear(3 * kWidth, kVocabulary));
  Tensor operator()(const Tensor &tokens) const {
    return down(dropout(relu(up(table(tokens))), 0.1));
  }
};

// Tokens and labels of step i; `bad` is put among one of them.
Tensor batch(int step, int64_t bad = -1) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < kBatch * kLength; ++i)
    values.push_back((i * 7 + step * 5) % kVocabulary);
  if (bad >= 0)
    values[9] = bad;
  return Tensor::from(values, {kBatch, kLength});
}

class Training {
public:
  explicit Training(bool jitted = false) {
    manual_seed(5);
    model_ = std::make_unique<Model>();
    optimizer_ =
        std::make_unique<optim::AdamW>(model_->parameters(), optim::AdamWOptions{.lr = 1e-2});
    record_ = [this](const Tensor &tokens, const Tensor &labels) {
      line_ = __LINE__ + 1;
      Tensor loss = cross_entropy((*model_)(tokens), labels);
      optimizer_->zero_grad();
      loss.backward();
      optimizer_->step();
      return loss;
    };
    // An optimizer keeps tensors of a step beside its state; a function that is replayed must not.
    if (jitted)
      record_ = jit([this](const Tensor &tokens, const Tensor &labels) {
        Tensor loss = cross_entropy((*model_)(tokens), labels);
        std::vector<Tensor> parameters = model_->parameters(), gradients = grad({loss}, parameters);
        NoGrad no_grad;
        for (size_t i = 0; i < parameters.size(); ++i)
          parameters[i].sub_(gradients[i] * 0.1);
        return loss;
      });
  }
  // Where the loss is recorded; a function that is replayed has the line of its call.
  int line() const {
    return line_;
  }
  // The loss, which nobody has read.
  Tensor step(const Tensor &tokens, const Tensor &labels) {
    return record_(tokens, labels);
  }
  Tensor step(int i) {
    return step(batch(i), batch(i + 1));
  }

  std::vector<std::vector<double>> state() const {
    std::vector<std::vector<double>> all;
    for (const Tensor &x : model_->parameters())
      all.push_back(x.to_vector<double>());
    for (const auto &[name, x] : optimizer_->state())
      all.push_back(x.to_vector<double>());
    all.push_back(default_generator().state().to_vector<double>());
    return all;
  }
  optim::AdamW &optimizer() {
    return *optimizer_;
  }

private:
  int line_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::function<Tensor(const Tensor &, const Tensor &)> record_;
};

// Two good steps, bad ones, two good steps: against a run without the bad ones.
void expect_as_if_never(bool jitted, const std::function<void(Training &)> &bad) {
  Training clean(jitted);
  std::vector<double> expected;
  for (int i = 0; i < 4; ++i)
    expected.push_back(clean.step(i).item<double>());
  auto end = clean.state();

  Training training(jitted);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(training.step(i).item<double>(), expected[i]);
  auto before = training.state();
  bad(training);
  EXPECT_EQ(training.state(), before);
  for (int i = 2; i < 4; ++i)
    EXPECT_EQ(training.step(i).item<double>(), expected[i]) << "step " << i;
  EXPECT_EQ(training.state(), end);
}

TEST(Failures, WhoReadsFirstIsGivenTheFailure) {
  Tensor x = zeros({3, 4}), at = (zeros({3, 1}, int64) + 9).eval(), y = gather(x, 1, at);
  auto read = [&] {
    return std::string(error_of([&] { y.to_vector<float>(); }).what());
  };
  std::string first = read(), second = read();
  EXPECT_NE(first.find("gather"), std::string::npos) << first;
  EXPECT_EQ(first.find("was lost"), std::string::npos) << first;
  EXPECT_NE(second.find("the value was lost when the program that computes it failed (record it "
                        "again; eval() before what may fail keeps it): "),
            std::string::npos)
      << second;
}

// A matrix that gets more on its diagonal until it has a factor: what is computed before the first
// try is there for the next one.
TEST(Failures, MoreOnTheDiagonalUntilThereIsAFactor) {
  for (bool is_kept : {false, true}) {
    Tensor a = matmul(ones({3, 2}), ones({2, 3})) - eye(3) * 0.25;
    if (is_kept)
      a.eval();
    auto factor = [&](double jitter) {
      return cholesky(a + eye(3) * jitter).sum().item<float>();
    };
    EXPECT_NE(std::string(error_of([&] { factor(0); }).what()).find("positive definite"),
              std::string::npos);
    if (is_kept)
      EXPECT_GT(factor(0.5), 0);
    else
      EXPECT_NE(std::string(error_of([&] { factor(0.5); }).what()).find("eval() before what may"),
                std::string::npos);
  }
}

TEST(Undo, ABadTokenOrLabelOfATrainingStep) {
  for (bool jitted : {false, true}) {
    SCOPED_TRACE(jitted ? "jit" : "recorded");
    expect_as_if_never(jitted, [](Training &training) {
      Tensor loss = training.step(batch(2, kVocabulary), batch(3));
      Error token = error_of([&] { loss.item<float>(); });
      EXPECT_EQ(token.kind(), ErrorKind::kRun);
      EXPECT_NE(token.message().find("weft.embedding"), std::string::npos) << token.what();
      EXPECT_NE(token.message().find("index 11 at position 9"), std::string::npos) << token.what();
      // The loss itself stays lost, and says why.
      EXPECT_NE(error_of([&] { loss.item<float>(); }).message().find("index 11 at position 9"),
                std::string::npos);

      Error label = error_of([&] { training.step(batch(2), batch(3, 99)).item<float>(); });
      EXPECT_NE(label.message().find(" 99 at position 9 is out of range"), std::string::npos)
          << label.what();
      if (training.line() > 0) {
        EXPECT_EQ(token.file(), std::string(__FILE__));
        EXPECT_EQ(label.line(), training.line()) << label.what();
      }
    });
  }
}

// The error is told once, at the first call that meets it; what was submitted in between did not
// run.
TEST(Undo, NobodyReadsTheBadStepsLoss) {
  for (bool jitted : {false, true}) {
    SCOPED_TRACE(jitted ? "jit" : "recorded");
    expect_as_if_never(jitted, [](Training &training) {
      int errors = 0;
      std::string message;
      training.step(batch(2, 11), batch(3));
      synchronize();
      try {
        training.step(2);
        training.state();
      } catch (const Error &error) {
        ++errors;
        message = error.what();
      }
      EXPECT_EQ(errors, 1);
      EXPECT_NE(message.find("again what it was before"), std::string::npos) << message;
      EXPECT_NE(message.find("index 11 at position 9"), std::string::npos) << message;
    });
  }
}

// Many steps are on their way when the first of them ends.
TEST(Undo, StepsBehindABadOneAreUndoneWithIt) {
  expect_as_if_never(false, [](Training &training) {
    EXPECT_THROW(
        {
          training.step(batch(2, 11), batch(3));
          for (int i = 0; i < 40; ++i)
            training.step(i);
          training.state();
        },
        Error);
  });
}

// A lookup of which a slice needs some rows may look at their indices alone: its gradient, which
// looks at all of them, is the one that fails, and parameters are written behind that.
TEST(Undo, WhereALookupNeedsSomeOfItsIndices) {
  Tensor table = uniform({kVocabulary, kWidth}, -1, 1).eval(), other = ones({kWidth}).eval();
  table.set_requires_grad(true);
  other.set_requires_grad(true);
  std::vector<float> before = table.to_vector<float>();
  optim::SGD optimizer({table, other}, {.lr = 0.1});
  Tensor tokens = Tensor::from(std::vector<int64_t>{3, 1, 4, 1, kVocabulary, 5});
  Tensor loss = (table.index_select(0, tokens).narrow(0, 0, 2) * other).sum();
  loss.backward();
  optimizer.step();
  Error error = error_of([&] { (void)table.to_vector<float>(); });
  EXPECT_NE(error.message().find("is out of range"), std::string::npos) << error.what();
  EXPECT_EQ(table.to_vector<float>(), before);
  EXPECT_EQ(other.to_vector<float>(), std::vector<float>(kWidth, 1));
}

TEST(Undo, IndicesThatAreComputed) {
  Tensor table = ones({4, 3}).eval(), state = arange(4, float32).eval();
  Tensor scores = tensor({0.f, 0.f, 0.f, 0.f, 1.f});
  for (int time = 0; time < 2; ++time) {
    state += 1;
    Tensor picked = index_select(table, 0, (argmax(scores, 0, true) + time).to(int64));
    state.copy_(state * picked.sum() + state);
    EXPECT_THROW(state.eval(), Error);
    EXPECT_EQ(state.to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
  }
  state.copy_(state * index_select(table, 0, argmax(scores, 0, true) - 1).sum());
  EXPECT_EQ(state.to_vector<float>(), (std::vector<float>{0, 3, 6, 9}));
}

// A Program that fails while a step that reads its output is on its way: the parameters that the
// step writes go back.
TEST(Undo, AProgramThatFailsUnderAStep) {
  Tensor table = arange(32, float32).reshape({8, 4});
  Program program = trace([&](const Tensor &indices) { return index_select(table, 0, indices); },
                          {tensor<int64_t>({0, 1})});
  for (bool jitted : {false, true}) {
    Tensor w = ones({4}).eval();
    auto update = [&](const Tensor &features) {
      NoGrad no_grad;
      w.sub_(features.sum({0}) * 0.5);
      return features.sum();
    };
    auto step = jitted ? std::function<Tensor(const Tensor &)>(jit(update)) : update;
    step(program.run({tensor<int64_t>({0, 1})})[0]).eval();
    Floats before = w.to_vector<float>();
    EXPECT_EQ(before, (Floats{-1, -2, -3, -4}));
    Tensor features = program.run({tensor<int64_t>({0, 9})})[0];
    EXPECT_THROW(
        {
          step(features);
          w.eval();
        },
        Error);
    EXPECT_EQ(w.to_vector<float>(), before);
    EXPECT_THROW(features.eval(), Error);
    EXPECT_THROW(program.run({features.sum({1}).to(int64)})[0].eval(), Error);
    step(program.run({tensor<int64_t>({0, 1})})[0]).eval();
    EXPECT_EQ(w.to_vector<float>(), (Floats{-3, -5, -7, -9}));
  }
}

// A Program's input that is lost says so: its memory may be another tensor's by now.
TEST(Undo, AProgramThatReadsWhatIsLost) {
  Program twice = trace([](const Tensor &x) { return x * 2; }, {ones({2})});
  Tensor lost = index_select(tensor({1.f, 2.f}), 0, tensor<int64_t>({0, 2}));
  EXPECT_THROW(lost.eval(), Error);
  EXPECT_THROW(twice.run({lost}), Error);
  EXPECT_EQ(twice.run({tensor({1.f, 2.f})})[0].to_vector<float>(), (Floats{2, 4}));
}

// A value that another tensor holds too is lost for that one only.
TEST(Undo, OfASharedValueOnlyTheStorageGoesBack) {
  Tensor total = tensor({5.f}).eval(), other = tensor({6.f}).eval();
  Tensor fresh = index_select(tensor({1.f}), 0, tensor<int64_t>({3}));
  total.copy_(fresh);
  other.copy_(fresh);
  EXPECT_THROW(fresh.item<float>(), Error);
  EXPECT_EQ(total.item<float>(), 5);
  EXPECT_EQ(other.item<float>(), 6);
  EXPECT_THROW(fresh.item<float>(), Error);
  total += 1;
  EXPECT_EQ(total.item<float>(), 6);
  EXPECT_EQ(other.item<float>(), 6);
}

// A program may compute a value that a storage had in between: the memory of the first one stays,
// since the storage goes back to it.
TEST(Undo, OfACutBetweenTwoWrites) {
  Tensor state = tensor({1.f, 2.f, 3.f}).eval();
  for (int time = 0; time < 2; ++time) {
    state += 1;
    Tensor bad = state.index_select(0, tensor<int64_t>({9}));
    state += 1;
    EXPECT_THROW(bad.eval(), Error);
    EXPECT_EQ(state.to_vector<float>(), (Floats{1, 2, 3}));
  }
  state += 1;
  EXPECT_EQ(state.to_vector<float>(), (Floats{2, 3, 4}));
}

// What one storage goes back to is not overwritten for another that held the same.
TEST(Undo, OfMemoryThatTwoStoragesHeld) {
  Tensor table = arange(4, float32).eval(), good = tensor<int64_t>({1, 2, 3}).eval(),
         bad = tensor<int64_t>({1, 2, 9}).eval(), one = ones({3}).eval();
  Tensor state = full({3}, 5.f).eval(), other = state.clone();
  // Recorded, and not begun.
  state.copy_(table.index_select(0, bad));
  other += 1;
  other.eval();
  EXPECT_THROW(state.eval(), Error);
  EXPECT_EQ(state.to_vector<float>(), Floats(3, 5));
  EXPECT_EQ(other.to_vector<float>(), Floats(3, 6));
  // On its way, or failed without anybody having been told.
  NoGrad no_grad;
  auto pick = jit([&](const Tensor &indices) {
    Tensor picked = table.index_select(0, indices);
    state.copy_(picked);
    return picked.sum();
  });
  auto add = jit([&](const Tensor &x) { other += x; });
  pick(good).eval();
  add(one);
  float value = 7;
  const std::vector<std::function<void()>> writes = {
      [&] {
        other += 1;
        other.eval();
      },
      [&] { add(one); },
      [&] {
        for (float &x : std::span(other.mutable_data<float>(), 3))
          x += 1;
      }};
  for (const std::function<void()> &write : writes) {
    other.eval();
    state.copy_(other);
    Tensor sum = pick(bad);
    write();
    EXPECT_EQ(other.to_vector<float>(), Floats(3, value + 1));
    EXPECT_THROW(sum.eval(), Error);
    EXPECT_EQ(state.to_vector<float>(), Floats(3, value));
    EXPECT_EQ(other.to_vector<float>(), Floats(3, ++value));
  }
}

// A write that is recorded behind a run that fails goes back to what that run's goes back to.
TEST(Undo, OfAWriteBehindARunThatFails) {
  Tensor table = arange(4, float32).eval(), state = full({4}, 5.f).eval(), kept = state.clone();
  auto step = jit([&](const Tensor &indices) {
    Tensor picked = table.index_select(0, indices);
    state.copy_(picked);
    return picked.sum();
  });
  NoGrad no_grad;
  Tensor bad = tensor<int64_t>({1, 2, 3, 9}).eval();
  step(tensor<int64_t>({1, 2, 3, 3})).eval();
  state.copy_(kept);
  Tensor sum = step(bad);
  state += table.index_select(0, bad);
  EXPECT_THROW(sum.eval(), Error);
  EXPECT_THROW(state.eval(), Error);
  EXPECT_EQ(state.to_vector<float>(), Floats(4, 5));
  EXPECT_EQ(kept.to_vector<float>(), Floats(4, 5));
}

// However many fail at the same time, each thread is told of its own failures, once each.
TEST(Undo, ThreadsFailEachForItself) {
  Tensor table = ones({5, 4}).eval();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Tensor x = zeros({4}).eval();
      float added = 0;
      for (int64_t i = 0; i < 200; ++i) {
        bool bad = i % 3 == 0;
        x += table.index_select(0, tensor<int64_t>({bad ? 7 : i % 5})).sum(0);
        if (bad)
          EXPECT_THROW(x.eval(), Error);
        else
          EXPECT_NO_THROW(x.eval());
        added += bad ? 0 : 1;
        EXPECT_NO_THROW(EXPECT_EQ(x.to_vector<float>(), Floats(4, added)));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

// Threads draw from one generator, and some of their programs fail: it draws on.
TEST(Undo, AGeneratorThatThreadsShare) {
  manual_seed(1);
  for (int64_t width = 16; width < 20; ++width) { // each time programs are compiled meanwhile
    Tensor table = ones({10, width}).eval();
    std::vector<std::thread> threads;
    std::atomic<int> missed{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int64_t i = 0; i < 20; ++i) {
          bool bad = t < 2 && i % 5 == 0;
          Tensor rows = table.index_select(0, tensor<int64_t>({1, 2, bad ? 77 : 3}));
          Tensor drawn = multinomial(softmax(rows, -1), 1).sum();
          try {
            drawn.item<int64_t>();
            missed += bad;
          } catch (const Error &) { // a draw behind a bad one may be lost with it
          }
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(missed, 0);
    try { // who was not told of a failure is now
      rand({1}).item<float>();
    } catch (const Error &) {
    }
    for (int i = 0; i < 3; ++i) {
      float x = rand({1}).item<float>();
      EXPECT_GE(x, 0);
      EXPECT_LT(x, 1);
    }
  }
}

// What was recorded from a result that was lost goes back too, and does not take the next program
// with it.
TEST(Undo, AMetricOfABadStep) {
  Tensor correct = zeros({}).eval(), x = tensor({1.f, 2.f}), weight = tensor({2.f, 2.f}).eval();
  auto forward = [&](int64_t i) {
    return index_select(x, 0, tensor<int64_t>({i})) * weight;
  };
  Tensor y = forward(7);
  weight.copy_(weight * 0.5 + y.sum() * 0.0);
  EXPECT_THROW(y.eval(), Error);
  correct += y.sum();
  EXPECT_THROW(correct.item<float>(), Error);
  EXPECT_EQ(correct.item<float>(), 0);
  EXPECT_EQ(weight.to_vector<float>(), (std::vector<float>{2, 2}));
  y = forward(1);
  correct += y.sum();
  EXPECT_EQ(correct.item<float>(), 8);
}

// Overwritten without being read: nobody but the storage itself holds the old value.
TEST(Undo, AValueThatIsReplaced) {
  Tensor large = full({100'000}, 3.f).eval(), scale = tensor({2.f}).eval();
  large.copy_(index_select(tensor({1.f}), 0, tensor<int64_t>({1})).expand({100'000}));
  EXPECT_THROW(large.eval(), Error);
  EXPECT_EQ(large.sum().item<float>(), 300'000);
  // The small one does not depend on the index; it is part of the program that fails.
  scale.copy_(scale * 0 + 1);
  Tensor bad = index_select(scale, 0, tensor<int64_t>({1}));
  EXPECT_THROW(bad.eval(), Error);
  EXPECT_EQ(scale.item<float>(), 2);
}

// The learning rate that a schedule has set is no part of the step.
TEST(Undo, ALearningRateThatWasSet) {
  Training training;
  training.step(0).item<float>();
  training.optimizer().set_lr(0.25);
  EXPECT_THROW(training.step(batch(2, 11), batch(3)).item<float>(), Error);
  EXPECT_EQ(training.optimizer().lr(), 0.25);
}

// Counts what lives.
class CountingAllocator : public runtime::Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    live += bytes;
    return std::aligned_alloc(static_cast<size_t>(alignment),
                              static_cast<size_t>((bytes + alignment) / alignment * alignment));
  }
  void free(void *pointer, int64_t bytes) override {
    live -= bytes;
    std::free(pointer);
  }
  runtime::AllocatorStats stats() const override {
    return {};
  }
  std::atomic<int64_t> live{0};
};

// Good programs pay nothing: parameters and moments are updated where they lie (all that kernels
// allow), nothing of an earlier step lives on, and steps share one program.
TEST(Undo, GoodStepsTakeNoMemoryForIt) {
  auto allocator = std::make_shared<CountingAllocator>();
  set_allocator(allocator);
  {
    Training training;
    std::vector<int64_t> live;
    tests::Compiles compiles;
    for (int i = 0; i < 6; ++i) {
      Evaluation step = explain(training.step(i));
      synchronize();
      live.push_back(allocator->live);
      if (step.backend == "cpu")
        EXPECT_GE(step.donated, 8);
    }
    EXPECT_EQ(live, std::vector<int64_t>(live.size(), live[1]));
    EXPECT_LE(compiles.count(), 3u);
  }
  synchronize();
  set_allocator(nullptr);
}

// A gradient has no value to go back to: who adds to it, or takes it, is told so, and what to do.
TEST(Undo, AGradientThatIsLost) {
  Model model;
  model.eval();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  auto loss_of = [&](int64_t bad) {
    return cross_entropy(model(batch(2, bad)), batch(3));
  };
  auto expect_advice = [](const Error &error, const std::string &call, int line) {
    EXPECT_EQ(error.kind(), ErrorKind::kState);
    EXPECT_EQ(error.line(), line) << error.what();
    for (const std::string &part :
         {call + ": the gradient of the parameter '", std::string("was lost with the program"),
          std::string("zero_grad()"), std::string("float32 [")})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
    EXPECT_EQ(error.message().find("index 11"), std::string::npos) << "told already";
  };
  loss_of(-1).backward();
  optimizer.step();
  optimizer.zero_grad();

  Tensor bad = loss_of(kVocabulary);
  bad.backward();
  EXPECT_THROW(bad.item<float>(), Error);
  // Where the body ends with zero_grad(), nobody has dropped the gradients.
  Error added = error_of([&] { loss_of(-1).backward(); });
  expect_advice(added, "backward", __LINE__ - 1);
  Error taken = error_of([&] { optimizer.step(); });
  expect_advice(taken, "step", __LINE__ - 1);
  optimizer.zero_grad();
  Tensor good = loss_of(-1);
  good.backward();
  optimizer.step();
  EXPECT_GT(good.item<float>(), 0);
  Tensor alone = ones({3}).set_requires_grad(true);
  Tensor sum = alone.index_select(0, tensor<int64_t>({3})).sum();
  sum.backward();
  EXPECT_THROW(alone.grad().eval(), Error);
  EXPECT_NE(error_of([&] { (alone * 2).sum().backward(); })
                .message()
                .find("the gradient of a tensor, float32 [3]"),
            std::string::npos);
}

// Every op that writes where indices say checks them before it writes.
TEST(Undo, OfEachWriteAtIndices) {
  Tensor seven = tensor<int64_t>({7});
  std::vector<std::pair<std::string, std::function<void(Tensor &)>>> writes = {
      {"index_put_", [&](Tensor &x) { x.index_put_({seven}, 5); }},
      {"index_put_ accumulate", [&](Tensor &x) { x.index_put_({seven}, ones({1}), true); }},
      {"index_add_", [&](Tensor &x) { x.index_add_(0, seven, ones({1})); }},
      {"scatter_", [&](Tensor &x) { x.scatter_(0, seven, ones({1})); }},
      {"scatter_add_", [&](Tensor &x) { x.scatter_add_(0, seven, ones({1})); }},
      {"scatter_reduce_", [&](Tensor &x) { x.scatter_reduce_(0, seven, ones({1}), "prod"); }},
      {"what is selected", [&](Tensor &x) { x += ones({4}).index_select(0, seven); }},
      {"what is gathered", [&](Tensor &x) { x += ones({4}).gather(0, seven); }}};
  for (const auto &[name, write] : writes) {
    SCOPED_TRACE(name);
    Tensor x = (tensor({1.f, 2.f, 3.f, 4.f}) * 2).eval();
    write(x);
    Tensor y = x * 2;
    std::string message = error_of([&] { (void)y.to_vector<float>(); }).message();
    EXPECT_NE(message.find("index 7 at position 0"), std::string::npos) << message;
    EXPECT_EQ(x.to_vector<float>(), (Floats{2, 4, 6, 8}));
  }
}

// Two calls of one structure share a program: each has errors at its own line.
TEST(Undo, TheErrorIsAtTheLineOfTheCall) {
  Tensor e = ones({4}).eval();
  auto index = [](int64_t i) {
    return Tensor::from(std::vector<int64_t>{i}, {1});
  };
  (void)e.index_select(0, index(1)).to_vector<float>();
  Tensor bad = e.index_select(0, index(9));
  int line = __LINE__ - 1;
  try {
    (void)bad.to_vector<float>();
    FAIL() << "no error";
  } catch (const Error &error) {
    EXPECT_EQ(error.line(), line) << error.what();
    EXPECT_NE(error.message().find("index 9 at position 0"), std::string::npos);
  }
}

} // namespace
} // namespace weft

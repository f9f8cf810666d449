// From calls to values: recording, cuts, the cache, long records, threads, failures.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace weft {
namespace {

uint64_t compiles() {
  return statistics().compiles + statistics().disk_hits;
}

class Recorder : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
  }
  void TearDown() override {
    set_config(before_);
  }
  Config before_;
};

TEST_F(Recorder, ComputesWhatWasRecorded) {
  Tensor x = tensor({1.f, 2.f, 3.f});
  Tensor y = x * 2.0 + 1.0;
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST_F(Recorder, ChangingScalarsDoNotRecompile) {
  Tensor x = tensor({1.f, 2.f});
  uint64_t before = compiles();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ((x * (i + 0.5) + i).to_vector<float>()[1], 2.f * (i + 0.5f) + i);
  EXPECT_EQ(compiles() - before, 1u);
}

TEST_F(Recorder, EqualScalarsAreTwoParameters) {
  Tensor x = tensor({1.f});
  uint64_t before = compiles();
  EXPECT_EQ((x * 2.0 + 2.0).item<float>(), 4.f);
  EXPECT_EQ((x * 2.0 + 3.0).item<float>(), 5.f);
  EXPECT_EQ(compiles() - before, 1u);
}

TEST_F(Recorder, SharingIsPartOfTheKey) {
  Tensor x = tensor({2.f}), y = tensor({3.f});
  EXPECT_EQ((x * x + y).item<float>(), 7.f);
  EXPECT_EQ((x * y + y).item<float>(), 9.f);
  EXPECT_EQ((x * y + x).item<float>(), 8.f);
}

TEST_F(Recorder, LiveValuesAreNotComputedTwice) {
  Tensor x = tensor({1.f, 2.f, 3.f});
  Tensor a = exp(x), b = a + 1;
  b.eval();
  Evaluation first = explain(b);
  EXPECT_EQ(first.outputs, 2);
  EXPECT_EQ(explain(a).number, first.number);
}

// Memory whose value nobody can read any more becomes the result's.
TEST_F(Recorder, DeadInputsAreDonated) {
  // Interpretation keeps its inputs.
  int64_t one = before_.backend == "cpu" ? 1 : 0;
  Tensor x = tensor({1.f, 2.f, 3.f});
  const void *memory = x.data_bytes();
  x = x + 1;
  x = x * 2;
  EXPECT_EQ(explain(x).donated, one);
  if (one)
    EXPECT_EQ(x.data_bytes(), memory);
  x = x + 1;
  EXPECT_EQ(explain(x).donated, one);
  if (one)
    EXPECT_EQ(x.data_bytes(), memory);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{5, 7, 9}));
}

TEST_F(Recorder, WhatSomebodyCanReadIsNotDonated) {
  auto expect_kept = [](const Tensor &result, const Tensor &kept) {
    const void *memory = kept.data_bytes();
    EXPECT_EQ(explain(result).donated, 0);
    EXPECT_NE(result.data_bytes(), memory);
    EXPECT_EQ(kept.data_bytes(), memory);
  };
  Tensor x = tensor({1.f, 2.f, 3.f});
  Tensor second = x, view = tensor({4.f, 5.f, 6.f});
  x = x + 1;
  expect_kept(x, second);
  EXPECT_EQ(second.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  // A view reads the memory of what it is a view of.
  Tensor whole = view;
  view = view.narrow(0, 1, 2);
  Tensor sum = whole + 1;
  whole = Tensor();
  EXPECT_EQ(explain(sum).donated, 0);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{5, 6}));
  // The derivative reads x.
  Tensor w = tensor({2.f, 3.f, 4.f}).set_requires_grad(), y = w * 2;
  y.eval();
  Tensor loss = square(y).sum();
  y = Tensor();
  EXPECT_EQ(explain(loss).donated, 0);
  loss.backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{16, 24, 32}));
}

TEST_F(Recorder, AnExponentIsAConstantUntilASecondValue) {
  Tensor x = tensor({3.f});
  std::vector<Evaluation> runs;
  int line = 0;
  for (int i = 0; i < 6; ++i) {
    Tensor y = pow(x, i < 3 ? 2.0 : i);
    line = __LINE__ - 1;
    EXPECT_FLOAT_EQ(y.item<float>(), std::pow(3.f, i < 3 ? 2.f : i));
    runs.push_back(explain(y));
  }
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(runs[i].outcome == CacheOutcome::kMemoryHit, i != 0 && i != 3)
        << i << runs[i].to_string();
  EXPECT_EQ(runs[0].inputs, 1);
  EXPECT_EQ(runs[3].inputs, 2);
  EXPECT_NE(runs[3].difference.find("literal: a second value at"), std::string::npos)
      << runs[3].difference;
  EXPECT_NE(runs[3].difference.find("recorder_test.cpp:" + std::to_string(line)), std::string::npos)
      << runs[3].difference;
}

TEST_F(Recorder, AConstantExponentOfTwoIsAMultiplication) {
  std::string folder = testing::TempDir() + "/weft_pow_dump";
  std::filesystem::remove_all(folder);
  Config options = config();
  options.dump_dir = folder;
  set_config(options);
  Tensor w = tensor({3.f, 4.f}).set_requires_grad();
  Tensor loss = pow(w, 2.0).sum();
  loss.backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{6, 8}));
  if (options.backend != "cpu")
    return; // the interpreter has no phases to look into
  std::string text;
  for (const auto &file : std::filesystem::recursive_directory_iterator(folder))
    if (file.path().filename().string().find("graph") != std::string::npos) {
      std::ifstream stream(file.path());
      text.assign(std::istreambuf_iterator<char>(stream), {});
    }
  EXPECT_NE(text.find("weft.mul"), std::string::npos) << text;
  EXPECT_EQ(text.find("weft.pow"), std::string::npos) << text;
}

// Of sums, and of differences a little ahead of where a budget looks for what repeats. Gives what it
// comes to from 0.
float long_chain(Tensor &x) {
  Tensor one = tensor({1.f});
  float expected = 0;
  for (unsigned i = 0; i < 300000; ++i) {
    bool adds = !std::has_single_bit(i + 100);
    x = adds ? x + one : x - one;
    expected += adds ? 1 : -1;
  }
  return expected;
}

TEST_F(Recorder, ALongChain) {
  Config options = config();
  options.budget_ops = 1000000;
  set_config(options);
  Tensor x = tensor({0.f});
  float expected = long_chain(x);
  EXPECT_GE(statistics().live_ops, 300000u);
  EXPECT_EQ(x.item<float>(), expected);
  EXPECT_EQ(statistics().live_ops, 0u);
}

TEST_F(Recorder, ALongChainDies) {
  Config options = config();
  options.budget_ops = 1000000;
  set_config(options);
  {
    Tensor x = tensor({0.f});
    long_chain(x);
    EXPECT_GE(statistics().live_ops, 300000u);
  }
  EXPECT_EQ(statistics().live_ops, 0u);
}

TEST_F(Recorder, ALongChainBackward) {
  Config options = config();
  options.budget_ops = 2000000;
  set_config(options);
  Tensor w = tensor({1.f}).set_requires_grad();
  Tensor x = w;
  for (int i = 0; i < 300000; ++i)
    x = -x;
  x.backward();
  EXPECT_EQ(w.grad().item<float>(), 1.f);
}

TEST_F(Recorder, OneValueWithManyUsers) {
  Config options = config();
  options.budget_ops = 1000000;
  set_config(options);
  Tensor x = tensor({1.f}).set_requires_grad();
  Tensor root = x * 2;
  std::vector<Tensor> users;
  for (int i = 0; i < 40000; ++i)
    users.push_back(root + root);
  Tensor total = users[0];
  for (int i = 1; i < 40000; ++i)
    total = total + users[i];
  users.clear();
  total.backward();
  EXPECT_EQ(total.item<float>(), 160000.f);
  EXPECT_EQ(x.grad().item<float>(), 160000.f);
}

// A step that trains a linear model, submitted like an optimizer does.
struct Trainer {
  Tensor w = tensor({{0.5f}, {-0.5f}}).set_requires_grad();

  void step(const Tensor &x, const Tensor &y, double rate) {
    Tensor loss = square(matmul(x, w) - y).mean();
    w.zero_grad();
    loss.backward();
    {
      NoGrad no_grad;
      w -= w.grad() * rate;
    }
    submit_step(std::vector<Tensor>{w});
  }
};

TEST_F(Recorder, AThousandStepsCompileOnce) {
  Trainer trainer;
  uint64_t before = compiles();
  for (int i = 0; i < 1000; ++i) {
    Tensor x = tensor({{1.f, 2.f}, {3.f, static_cast<float>(i % 7)}, {0.f, 1.f}});
    trainer.step(x, tensor({{1.f}, {2.f}, {3.f}}), 0.01 / (1 + i));
  }
  synchronize();
  EXPECT_EQ(compiles() - before, 1u);
  // A ragged last batch costs one more.
  trainer.step(tensor({{1.f, 2.f}}), tensor({{1.f}}), 0.01);
  trainer.step(tensor({{1.f, 2.f}, {3.f, 4.f}, {0.f, 1.f}}), tensor({{1.f}, {2.f}, {3.f}}), 0.01);
  EXPECT_EQ(compiles() - before, 2u);
  EXPECT_LE(statistics().live_ops, 2u);
}

TEST_F(Recorder, ALoopThatReadsNothingIsCutAtItsPeriod) {
  Config options = config();
  options.budget_ops = 997; // coprime to the loop's length
  set_config(options);
  Tensor x = tensor({0.25f, 0.5f}), a = tensor({0.5f, 0.5f});
  uint64_t before = compiles();
  for (int i = 0; i < 1000; ++i) {
    Tensor y = tanh(x) * a;
    x = y + a * x - y * y + a;
  }
  x.eval();
  EXPECT_LE(compiles() - before, 2u);
  EXPECT_GE(statistics().cuts[static_cast<int>(CutReason::kOps)], 6u);
}

// However long it runs, its programs are those of some whole iterations. The forward pass of what
// is to be differentiated is none of its own.
TEST_F(Recorder, ALongLoopThatReadsNothingIsFewSmallPrograms) {
  for (bool differentiated : {false, true}) {
    Tensor w = tensor({0.5f, 0.5f}), x = tensor({0.25f, 0.5f});
    w.set_requires_grad(differentiated);
    uint64_t before = compiles();
    size_t cuts = statistics().cuts[static_cast<int>(CutReason::kOps)];
    for (int i = 0; i < 1500; ++i) {
      Tensor y = tanh(x) * w;
      x = y + w * x - y * y;
    }
    cuts = statistics().cuts[static_cast<int>(CutReason::kOps)] - cuts;
    if (differentiated) {
      EXPECT_EQ(cuts, 0u);
      continue;
    }
    EXPECT_GE(cuts, 3u);
    x.eval();
    EXPECT_LE(compiles() - before, 3u);
    EXPECT_LE(recent_evaluations().back().ops, 2100);
  }
}

TEST_F(Recorder, ThreadsAtOnce) {
  Tensor shared = tensor({1.f, 2.f});
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Tensor x = shared;
      for (int i = 0; i < 50; ++i) {
        x = x * 1.5 + t;
        if (i % 10 == t % 10)
          x.eval();
      }
      results[t] = x.to_vector<float>()[0];
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int t = 0; t < 8; ++t) {
    float expected = 1;
    for (int i = 0; i < 50; ++i)
      expected = expected * 1.5f + t;
    EXPECT_EQ(results[t], expected) << t;
  }
}

// A write in place is a step for other threads, wherever the record is cut in it.
TEST_F(Recorder, NoWriteOfAThreadIsLost) {
  constexpr int kThreads = 3;
  Tensor x, one = ones({2}).eval();
  auto write = [&](int t) {
    Tensor own = x;
    if (t == 0)
      own.addcmul_(one, one);
    else if (t == 1)
      own.index_add_(0, tensor<int64_t>({0, 1}), one);
    else
      own += 1;
  };
  auto expect_writes = [&](int writes) {
    x = zeros({2}).eval();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < writes; ++i)
          write(t);
      });
    for (std::thread &thread : threads)
      thread.join();
    float all = static_cast<float>(kThreads * writes);
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{all, all}));
  };
  expect_writes(1500); // cut where they repeat
  Config options = config(), eager = options;
  eager.eager = true;
  set_config(eager);
  expect_writes(100);
  set_config(options);
}

// What another thread has recorded so far would make a program of its own each time.
TEST_F(Recorder, StateThatIsMadeLeavesAloneWhatOtherThreadsRecord) {
  Tensor x = tensor({1.f, 2.f}).eval(), half;
  std::thread([&] { half = exp(x) * 2; }).join();
  uint64_t recorded = statistics().live_ops;
  EXPECT_GE(recorded, 1u);
  std::vector<Tensor> made{x * 3};
  submit_init(made);
  EXPECT_EQ(statistics().live_ops, recorded);
  EXPECT_EQ(made[0].to_vector<float>(), (std::vector<float>{3, 6}));
  EXPECT_FLOAT_EQ(half.to_vector<float>()[0], 2 * std::exp(1.f));
}

// What goes by an option and takes the lock for parts of the call alone.
TEST_F(Recorder, OptionsAreSetBesideOtherThreads) {
  Program program = trace([](const Tensor &x) { return exp(x) * 2; }, {ones({3})});
  Config options = config();
  std::atomic<bool> done = false;
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      Program read = Program::parse(program.to_string());
      EXPECT_EQ(read.input_shapes(), program.input_shapes());
      EXPECT_EQ(current_device(), ones({1}).device());
      synchronize();
    }
    done = true;
  });
  while (!done)
    set_config(options);
  other.join();
}

TEST_F(Recorder, ThreadsReadOnePendingValue) {
  Tensor x = exp(tensor({0.f, 1.f})) + 1;
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] { results[t] = (x + t).to_vector<float>()[0]; });
  for (std::thread &thread : threads)
    thread.join();
  for (int t = 0; t < 8; ++t)
    EXPECT_EQ(results[t], 2.f + t);
}

// Handles go wherever the user lets them go, while other threads record: functions that were traced
// or jitted with what they captured, gradients, generators.
TEST_F(Recorder, HandlesGoOutsideOfCalls) {
  constexpr int kRounds = 40;
  Config options = config();
  options.context_bound = 50; // tables are swept meanwhile
  set_config(options);
  Tensor w = ones({4}).set_requires_grad();
  std::vector<std::function<void(int)>> work = {
      [](int i) {
        Program program = trace([](const Tensor &x) { return exp(x) * 2; }, {ones({1 + i % 5})});
        EXPECT_EQ(program.input_shapes()[0], (Shape{1 + i % 5}));
      },
      [](int i) {
        Tensor state = zeros({3}), p = ones({3}).set_requires_grad();
        auto f = jit([&](const Tensor &x) {
          state += x;
          Tensor loss = (p * x * float(i % 3)).sum();
          loss.backward();
          return loss.detach();
        });
        EXPECT_EQ(f(ones({3})).item<float>(), 3.f * (i % 3));
        EXPECT_EQ(state.to_vector<float>()[2], 1.f);
      },
      [](int i) {
        Generator generator(static_cast<uint64_t>(i));
        Tensor a = rand({3}, generator);
        manual_seed(static_cast<uint64_t>(i));
        Tensor b = rand({3});
        generator.manual_seed(static_cast<uint64_t>(i));
        EXPECT_EQ(rand({3}, generator).to_vector<float>(), a.to_vector<float>());
      },
      [&](int i) {
        EXPECT_TRUE(w.is_leaf());
        Tensor y = (w * float(i)).sum();
        EXPECT_FALSE(y.is_leaf());
        EXPECT_EQ(grad({y}, {w})[0].to_vector<float>()[3], float(i));
      },
      [](int i) {
        Tensor x = ones({1 + i % 7, 2 + i % 3}).eval();
        EXPECT_EQ((x + 1).sum().item<float>(), 2.f * (1 + i % 7) * (2 + i % 3));
      }};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < work.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i)
        work[t](i);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(Recorder, TheCacheIsBounded) {
  Config options = config();
  options.cache_entries = 4;
  set_config(options);
  for (int n = 1; n < 20; ++n)
    (ones({n}) * 3).eval();
  EXPECT_LE(statistics().cache_entries, 4u);
}

TEST_F(Recorder, TheContextIsRenewed) {
  Config options = config();
  options.context_bound = 200;
  set_config(options);
  uint64_t before = statistics().context_rebuilds;
  Tensor w = tensor({2.f}).set_requires_grad();
  auto slope = [](float at) { // of ops whose derivatives are known, and are not in the new context
    Tensor x = tensor({at}).set_requires_grad();
    (sigmoid(x) * x).backward();
    return x.grad().item<float>();
  };
  float slope_before = slope(0.5f);
  Tensor kept = exp(w) * 2; // recorded and with history while the context goes
  for (int n = 1; n < 200; ++n)
    EXPECT_EQ((ones({n}) + n).to_vector<float>().back(), 1.f + n);
  EXPECT_GT(statistics().context_rebuilds, before);
  EXPECT_EQ(slope(0.5f), slope_before);
  kept.backward();
  EXPECT_FLOAT_EQ(kept.item<float>(), 2 * std::exp(2.f));
  EXPECT_FLOAT_EQ(w.grad().item<float>(), 2 * std::exp(2.f));
}

// A call by name that computes at its end lets other threads' calls in, which renew the context.
TEST_F(Recorder, TheContextIsRenewedWithinACallByName) {
  Config options = config();
  options.context_bound = 10;
  options.eager = true;
  set_config(options);
  uint64_t before = statistics().context_rebuilds;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        int64_t n = 1 + (4 * i + t) % 30;
        Tensor sums = call_op("weft.cumsum", {ones({n})}, {{"dim", int64_t(0)}})[0];
        EXPECT_EQ(sums.to_vector<float>().back(), static_cast<float>(n));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_GT(statistics().context_rebuilds, before);
}

TEST_F(Recorder, EagerComputesEachCall) {
  Config options = config();
  options.eager = true;
  set_config(options);
  uint64_t before = statistics().cuts[static_cast<int>(CutReason::kEager)];
  Tensor x = tensor({1.f}) + 1;
  Tensor y = x * x;
  EXPECT_EQ(statistics().cuts[static_cast<int>(CutReason::kEager)] - before, 2u);
  EXPECT_EQ(y.item<float>(), 4.f);
}

TEST_F(Recorder, ATensorOutlivesAPointerThatItCannotGive) {
  Tensor x = index_select(ones({2}), 0, tensor<int64_t>({7})), used = x + 1;
  EXPECT_THROW(x.mutable_data<float>(), Error);
  EXPECT_THROW(x.to_vector<float>(), Error) << "its value is lost, and it says so";
  x.fill_(3);
  x.mutable_data<float>()[0] = 4;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4}));
}

TEST_F(Recorder, ALeafGivesItsPointerAgain) {
  Tensor w = zeros({2}).set_requires_grad();
  NoGrad no_grad;
  for (float value : {2.f, 3.f}) {
    w.mutable_data<float>()[0] = value;
    w.zero_grad();
    {
      EnableGrad grad;
      (w * w).sum().backward();
    }
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2 * value, 0}));
  }
  EXPECT_TRUE(w.is_leaf() && w.requires_grad());
}

// A detached tensor and a view lie in another tensor's memory; the error says so for both.
TEST_F(Recorder, MemoryOfAnotherTensorIsNotWrittenDirectly) {
  Tensor x = ones({4}).eval();
  for (Tensor shares : {x.detach(), x.reshape({2, 2})}) {
    try {
      shares.mutable_data<float>();
      ADD_FAILURE() << "no error";
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::kState);
      EXPECT_NE(std::string(error.what()).find("as a view or by detach(); write to that tensor"),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 1.f));
}

TEST_F(Recorder, AFailedRunPoisonsItsResults) {
  Tensor x = tensor({1.f, 2.f}), index = tensor<int64_t>({5});
  Tensor y = index_select(x, 0, index) + 1;
  int line = __LINE__ - 1;
  try {
    y.item<float>();
    FAIL() << "an index out of range was accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
    std::string what = error.what();
    EXPECT_NE(what.find("recorder_test.cpp:" + std::to_string(line)), std::string::npos) << what;
    EXPECT_NE(what.find("weft.index_select"), std::string::npos) << what;
    EXPECT_NE(what.find("index 5 at position 0"), std::string::npos) << what;
    EXPECT_NE(what.find("[-2, 2)"), std::string::npos) << what;
  }
  EXPECT_THROW((y * 2).item<float>(), Error);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
}

// The generator is everybody's: a program that draws and ends at a bad index takes no random
// numbers of others with it, nor its own.
TEST_F(Recorder, AFailedRunDoesNotEndTheGenerator) {
  manual_seed(3);
  Tensor first = randn({4}), second = dropout(ones({64}), 0.5);
  eval({first, second});
  manual_seed(3);
  EXPECT_EQ(randn({4}).to_vector<float>(), first.to_vector<float>());
  for (int time = 0; time < 2; ++time) {
    Tensor lost = dropout(ones({8}), 0.5) + index_select(ones({2}), 0, tensor<int64_t>({5}));
    EXPECT_THROW(lost.eval().item<float>(), Error);
  }
  EXPECT_EQ(dropout(ones({64}), 0.5).to_vector<float>(), second.to_vector<float>());
  // A state that was set is gone on from.
  Generator generator(1);
  generator.set_state(tensor<int64_t>({9, 160}));
  Tensor lost =
      dropout(ones({8}), 0.5, true, generator) + index_select(ones({2}), 0, tensor<int64_t>({5}));
  EXPECT_THROW(lost.eval().item<float>(), Error);
  EXPECT_EQ(generator.state().to_vector<int64_t>(), (std::vector<int64_t>{9, 160}));
}

// As in PyTorch: a target that is no class is an error, in the loss and in its gradient, and
// ignore_index is none.
TEST_F(Recorder, ATargetThatIsNoClass) {
  int line = 0;
  auto loss_of = [&](std::vector<int64_t> targets, Tensor &logits) {
    logits = zeros({2, 3});
    logits.set_requires_grad();
    line = __LINE__ + 1;
    return cross_entropy(logits, Tensor::from(targets));
  };
  Tensor logits;
  EXPECT_NEAR(loss_of({2, -100}, logits).item<float>(), std::log(3.0), 1e-6);
  for (int64_t bad :
       {int64_t(3), int64_t(-1), int64_t(-101), std::numeric_limits<int64_t>::min()}) {
    Tensor loss = loss_of({0, bad}, logits);
    bool read_gradient = bad == 3;
    loss.backward();
    if (read_gradient)
      loss = Tensor();
    try {
      if (read_gradient)
        logits.grad().to_vector<float>();
      else
        loss.item<float>();
      FAIL() << bad << " was accepted";
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRun);
      std::string what = error.what();
      EXPECT_NE(what.find("recorder_test.cpp:" + std::to_string(line)), std::string::npos) << what;
      EXPECT_NE(what.find("weft.cross_entropy"), std::string::npos) << what;
      EXPECT_NE(what.find(" " + std::to_string(bad) + " at position 1 "), std::string::npos)
          << what;
      EXPECT_NE(what.find("[0, 3)"), std::string::npos) << what;
    }
  }
}

TEST_F(Recorder, ExplainSaysWhatHappened) {
  Tensor x = tensor({1.f, 2.f, 3.f});
  Tensor y = tanh(x) * 0.5;
  Evaluation first = explain(y);
  int line = __LINE__ - 1;
  EXPECT_EQ(first.reason, CutReason::kEval);
  EXPECT_EQ(first.line, line);
  EXPECT_EQ(first.ops, 3);
  EXPECT_GE(first.run_ms, 0);
  EXPECT_NE(first.to_string().find("eval"), std::string::npos);
  Evaluation again = explain(tanh(tensor({4.f, 5.f, 6.f})) * 0.25);
  EXPECT_EQ(again.inputs, 2);
  Evaluation longer = explain(tanh(tensor({4.f, 5.f, 6.f, 7.f})) * 0.25);
  EXPECT_NE(longer.outcome, CacheOutcome::kMemoryHit);
  EXPECT_NE(longer.difference.find(
                "dims: input 0 is float32 [4] instead of float32 [3], read by op 0 weft.tanh"),
            std::string::npos)
      << longer.difference;
}

} // namespace
} // namespace weft

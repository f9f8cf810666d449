// Jitted functions and programs that several threads call. To the others each call is one step: no
// write is lost, and none is seen in part. Each test fails, or ends the process, where the
// recorder's lock is given up between what a call reads and what it writes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <latch>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/support/errors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Floats = std::vector<float>;

// What the calls of f(thread), one on each of so many threads at once, throw: a line each.
template <typename F> std::string errors_on_threads(int count, F f) {
  std::mutex mutex;
  std::string errors;
  std::latch start(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      try {
        f(t);
      } catch (const std::exception &error) {
        std::lock_guard lock(mutex);
        errors += std::string(error.what()) + "\n";
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

// Called by a function that is recorded, when it has written: the other threads call it meanwhile.
void let_others_come() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// A thread that calls f() again and again until this goes.
class Beside {
public:
  template <typename F> explicit Beside(F f) {
    thread_ = std::thread([this, f]() mutable {
      try {
        for (; !done_; ++rounds_, rounds_.notify_all())
          f();
      } catch (const std::exception &error) {
        error_ = error.what();
        done_ = true;
        ++rounds_;
        rounds_.notify_all();
      }
    });
  }
  ~Beside() {
    done_ = true;
    thread_.join();
    EXPECT_EQ(error_, "");
  }

  // Until it has called f() once more, so that what this thread does next stands beside it.
  void await_round() const {
    if (uint64_t now = rounds_; !done_)
      rounds_.wait(now);
  }

private:
  std::atomic<bool> done_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::string error_;
  std::thread thread_;
};

// What is recorded, faster than anybody computes it: a call computes what it read, and no later
// value of the storage.
TEST(JitThreads, ReadOneMomentOfWhatAnotherThreadWrites) {
  Tensor base = ones({4}).eval(), a = zeros({4}).eval(), b = zeros({4}).eval();
  Tensor x = zeros({4}).eval();
  auto difference = jit([&](const Tensor &x) { return x + a - b; });
  difference(x).eval();
  Beside writer([&, k = 0]() mutable {
    ++k;
    a.copy_(base * static_cast<float>(k));
    b.copy_(base * static_cast<float>(k)); // a is as new as b, or one newer
  });
  EXPECT_EQ(errors_on_threads(3,
                              [&](int) {
                                for (int i = 0; i < 40; ++i) {
                                  writer.await_round();
                                  float value = difference(x).to_vector<float>()[3];
                                  EXPECT_TRUE(value == 0 || value == 1) << value;
                                }
                              }),
            "");
}

TEST(JitThreads, ReadWeightsBesideATrainer) {
  nn::Linear model(12, 5);
  Tensor x = randn({64, 12}).eval(), y = randint(0, 5, {64}).eval();
  optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
  auto predict = jit([&](const Tensor &x) {
    NoGrad none;
    return model(x);
  });
  Beside trainer([&] {
    optimizer.zero_grad();
    Tensor loss = nn::cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    loss.item<float>();
  });
  EXPECT_EQ(errors_on_threads(6,
                              [&](int) {
                                for (int i = 0; i < 25; ++i) {
                                  trainer.await_round();
                                  EXPECT_TRUE(std::isfinite(predict(x).to_vector<float>()[0]));
                                }
                              }),
            "");
}

// What the function reads is computed first, here by a program that is compiled first. Meanwhile it
// is written.
TEST(JitThreads, RecordWhileAnotherThreadWrites) {
  Tensor base = ones({4}).eval(), w = zeros({4}).eval(), x = zeros({4}).eval();
  std::atomic<int> ops = 0;
  Beside writer([&, k = 0]() mutable {
    Tensor value = base * static_cast<float>(++k);
    for (int i = ops; i > 0; --i)
      value = value + 1.f;
    w.copy_(value);
  });
  for (ops = 1; ops <= 8; ++ops) {
    writer.await_round();
    writer.await_round();
    auto f = jit([&](const Tensor &x) { return x + w; });
    EXPECT_GE(f(x).to_vector<float>()[3], static_cast<float>(ops));
  }
}

// Calls of s += 1, each of which returns what s is then.
struct Counter {
  static constexpr int kThreads = 8, kCalls = 50, kElements = 300'000;
  Tensor s = zeros({kElements}).eval();
  Tensor one = ones({kElements}).eval();

  std::vector<Tensor> operator()(const Tensor &x) {
    s.add_(x);
    return {s * 1.f, s.max()};
  }

  // Each call has met another number, and none is left out.
  template <typename Call> static void expect_each_once(Call call) {
    std::vector<std::vector<Tensor>> met(kThreads);
    std::string errors = errors_on_threads(kThreads, [&](int t) {
      std::vector<Tensor> results;
      for (int i = 0; i < kCalls; ++i) {
        results = call(); // which is held during the next call
        met[t].push_back(results[1]);
      }
    });
    EXPECT_EQ(errors, "");
    Floats numbers;
    for (const std::vector<Tensor> &each : met)
      for (const Tensor &number : each)
        numbers.push_back(number.item<float>());
    std::sort(numbers.begin(), numbers.end());
    Floats expected(numbers.size());
    std::iota(expected.begin(), expected.end(), 1.f);
    EXPECT_EQ(numbers, expected);
  }
};

TEST(ProgramThreads, LoseNoWriteOfTheState) {
  Counter counter;
  Program program = trace(counter, std::vector{counter.one});
  Counter::expect_each_once([&] { return program.run({counter.one}); });
  Tensor state = program.state()[0].second;
  EXPECT_EQ(state.min().item<float>(), Counter::kThreads * Counter::kCalls);
  EXPECT_EQ(state.max().item<float>(), Counter::kThreads * Counter::kCalls);
}

// Of first calls, too: one thread records the function, the others wait for it.
TEST(JitThreads, LoseNoWriteOfACapturedTensor) {
  Counter counter;
  auto add = jit([&](const Tensor &x) {
    auto results = counter(x);
    let_others_come();
    return results;
  });
  Counter::expect_each_once([&] { return add(counter.one); });
  EXPECT_EQ(counter.s.min().item<float>(), Counter::kThreads * Counter::kCalls);
}

// A pointer from data() keeps the memory from being written: each call writes a copy.
TEST(JitThreads, LoseNoWriteBesideAReader) {
  constexpr int kThreads = 4, kCalls = 50;
  Tensor s = zeros({100'000}).eval(), one = ones({100'000}).eval();
  auto add = jit([&](const Tensor &x) {
    s.add_(x);
    return s.sum();
  });
  add(zeros({100'000})).eval();
  {
    Beside reader([&] { EXPECT_GE(*s.data<float>(), 0.f); });
    EXPECT_EQ(errors_on_threads(kThreads,
                                [&](int) {
                                  for (int i = 0; i < kCalls; ++i) {
                                    reader.await_round();
                                    add(one).eval();
                                  }
                                }),
              "");
  }
  EXPECT_EQ(s.min().item<float>(), kThreads * kCalls);
  EXPECT_EQ(s.max().item<float>(), kThreads * kCalls);
}

// Gradients, moments and counts of steps are written as the weights are.
TEST(JitThreads, TrainAsOneThreadDoes) {
  constexpr int kThreads = 4, kCalls = 8;
  Tensor x = randn({16, 6}).eval(), y = randn({16, 3}).eval();
  auto losses_of = [&](int threads, int calls) {
    manual_seed(7);
    nn::Linear model(6, 3);
    optim::Adam optimizer(model.parameters(), {.lr = 0.01});
    auto step = jit([&](const Tensor &x, const Tensor &y) {
      optimizer.zero_grad();
      Tensor loss = mse_loss(model(x), y);
      loss.backward();
      optimizer.step();
      let_others_come();
      return loss.detach();
    });
    std::vector<Floats> losses(threads);
    EXPECT_EQ(errors_on_threads(threads,
                                [&](int t) {
                                  for (int i = 0; i < calls; ++i)
                                    losses[t].push_back(step(x, y).item<float>());
                                }),
              "");
    Floats all;
    for (const Floats &each : losses)
      all.insert(all.end(), each.begin(), each.end());
    std::sort(all.begin(), all.end(), std::greater<>());
    return all;
  };
  Floats expected = losses_of(1, kThreads * kCalls);
  EXPECT_EQ(losses_of(kThreads, kCalls), expected);
}

// What a server does: products of several runs are under way at once, each with a state of the
// library's of its own.
TEST(ProgramThreads, RunOneNetworkAtOnce) {
  constexpr int kThreads = 8, kCalls = 200;
  nn::Linear up(64, 64), down(64, 32);
  Program program =
      trace([&](const Tensor &x) { return down(relu(up(x))); }, std::vector{zeros({32, 64})});
  std::vector<Tensor> xs;
  std::vector<Floats> expected;
  for (int t = 0; t < kThreads; ++t) {
    xs.push_back(randn({32, 64}).eval());
    expected.push_back(program.run({xs.back()})[0].to_vector<float>());
  }
  EXPECT_EQ(errors_on_threads(kThreads,
                              [&](int t) {
                                for (int i = 0; i < kCalls; ++i)
                                  EXPECT_EQ(program.run({xs[t]})[0].to_vector<float>(),
                                            expected[t]);
                              }),
            "");
}

TEST(ProgramThreads, SaveOneMoment) {
  Tensor a = zeros({1000}).eval(), b = zeros({1000}).eval(), one = ones({1000}).eval();
  Program program = trace(
      [&](const Tensor &x) {
        a.add_(x);
        b.add_(x);
        return a.sum();
      },
      std::vector{one});
  std::string path = testing::TempDir() + "/of_one_moment.bc";
  Beside runs([&] { program.run({one}); });
  for (int i = 0; i < 20; ++i) {
    runs.await_round();
    program.save(path, ProgramFormat::bytecode);
    auto state = Program::load(path).state();
    ASSERT_EQ(state.size(), 2u);
    EXPECT_EQ(state[0].second.to_vector<float>(), state[1].second.to_vector<float>());
  }
}

} // namespace
} // namespace weft

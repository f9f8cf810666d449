// Weights that do not change: what is made of them once, and when it is made anew. The interpreter
// makes nothing of them, with the same values.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"

namespace weft {
namespace {

using Floats = std::vector<float>;
// A product with one row alone reads the matrix as it is: nothing is prepared.
constexpr int64_t kRows = 2, kWidth = 256;

// Whole numbers, so that sums are exact on both backends.
Floats numbers(int64_t count, int64_t seed) {
  Floats values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>((i * 7 + seed * 13 + i / 11) % 5 - 2);
  return values;
}
Tensor matrix(int64_t rows, int64_t columns, int64_t seed) {
  return Tensor::from<float>(numbers(rows * columns, seed), {rows, columns});
}

// One weight that libraries read as it is (a library may pack it), and one that is converted before
// they do (work done ahead).
struct Mlp {
  Tensor up = matrix(kWidth, kWidth, 1);
  Tensor down = matrix(kWidth, kWidth, 2).to(DType::kBFloat16).eval();
  Tensor operator()(const Tensor &x) const {
    return matmul(relu(matmul(x, up.transpose(0, 1))), down.to(DType::kFloat32));
  }
};

// The values by plain loops; exact, as all numbers are whole and small.
Floats expected(const Floats &x, const Floats &up, const Floats &down) {
  Floats y(kRows * kWidth);
  for (int64_t row = 0; row < kRows; ++row) {
    Floats hidden(kWidth);
    for (int64_t i = 0; i < kWidth; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < kWidth; ++k)
        sum += x[size_t(row * kWidth + k)] * up[size_t(i * kWidth + k)];
      hidden[size_t(i)] = std::max(sum, 0.f);
    }
    for (int64_t k = 0; k < kWidth; ++k)
      for (int64_t i = 0; i < kWidth; ++i)
        y[size_t(row * kWidth + i)] += hidden[size_t(k)] * down[size_t(k * kWidth + i)];
  }
  return y;
}

bool on_cpu() {
  return config().backend == "cpu";
}
uint64_t compiles() {
  return statistics().compiles;
}
Evaluation last() {
  return recent_evaluations().back();
}

TEST(Prepare, AnInferenceLoopCompilesTwiceAndThenHits) {
  Mlp mlp;
  Floats up = mlp.up.to_vector<float>(), down = mlp.down.to_vector<float>();
  uint64_t before = compiles();
  bool second = false;
  for (int64_t i = 0; i < 8; ++i) {
    Tensor x = matrix(kRows, kWidth, 10 + i);
    Tensor y = mlp(x).eval();
    ASSERT_EQ(y.to_vector<float>(), expected(numbers(kRows * kWidth, 10 + i), up, down)) << i;
    Evaluation evaluation = explain(y);
    if (i == 1)
      second = evaluation.outcome == CacheOutcome::kCompiled;
    if (i == 1 && on_cpu()) {
      EXPECT_NE(evaluation.difference.find("is now stable"), std::string::npos)
          << evaluation.difference;
      EXPECT_EQ(evaluation.prepared_computed, 1) << evaluation.to_string();
      EXPECT_GE(evaluation.prepared_values, 1);
      EXPECT_NE(evaluation.to_string().find("prepared: computed 1 of 1"), std::string::npos)
          << evaluation.to_string();
    }
    if (i > 1)
      EXPECT_EQ(evaluation.outcome, CacheOutcome::kMemoryHit) << evaluation.to_string();
    if (i == 7 && on_cpu()) {
      EXPECT_GE(evaluation.prepared_results, 1);
      EXPECT_EQ(evaluation.prepared_computed, 0) << "everything was found";
      EXPECT_NE(evaluation.to_string().find("prepared: reused"), std::string::npos)
          << evaluation.to_string();
      EXPECT_GE(statistics().prepared_bytes, uint64_t(kWidth * kWidth * 4));
    }
  }
  EXPECT_EQ(second, on_cpu())
      << "only a backend that makes something of stable leaves gets a second program";
  EXPECT_EQ(compiles() - before, on_cpu() ? 2u : 1u);
}

TEST(Prepare, OneEvaluationCompilesOnce) {
  Mlp mlp;
  uint64_t before = compiles();
  (mlp(matrix(3, kWidth, 1)) + 1).eval();
  EXPECT_EQ(compiles() - before, 1u);
}

TEST(Prepare, AWriteInBetweenCounts) {
  Mlp mlp;
  int64_t seed = 0;
  auto check = [&] {
    Tensor x = matrix(kRows, kWidth, ++seed);
    ASSERT_EQ(mlp(x).to_vector<float>(), expected(x.to_vector<float>(), mlp.up.to_vector<float>(),
                                                  mlp.down.to_vector<float>()));
  };
  for (int i = 0; i < 6; ++i)
    check();
  uint64_t written = statistics().prepared_written;
  mlp.down.copy_(matrix(kWidth, kWidth, 9));
  for (int i = 0; i < 3; ++i)
    check();
  mlp.up.copy_(matrix(kWidth, kWidth, 8));
  for (int i = 0; i < 6; ++i)
    check();
  // In the memory itself: of the weight that a library may pack, and of the one that every machine
  // converts ahead.
  float *values = mlp.up.mutable_data<float>();
  for (int64_t i = 0; i < kWidth; ++i)
    values[i] = 3;
  for (int i = 0; i < 6; ++i)
    check();
  std::memset(mlp.down.mutable_data_bytes(), 0, kWidth * byte_size(DType::kBFloat16));
  for (int i = 0; i < 6; ++i)
    check();
  if (on_cpu())
    EXPECT_GT(statistics().prepared_written, written);
}

TEST(Prepare, ATrainingStepKeepsToOneProgram) {
  Tensor w = matrix(kWidth, kWidth, 1).set_requires_grad();
  optim::SGD optimizer({w}, {.lr = 0.5});
  uint64_t after_two = 0;
  for (int i = 0; i < 6; ++i) {
    Tensor loss = matmul(matrix(2, kWidth, i), w).sum();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss.item<float>();
    if (i == 1)
      after_two = compiles();
  }
  EXPECT_EQ(compiles(), after_two);
  for (const Evaluation &evaluation : recent_evaluations())
    if (evaluation.reason == CutReason::kStep)
      EXPECT_EQ(evaluation.prepared_results + evaluation.prepared_waiting, 0);
}

TEST(Prepare, DataThatIsUsedTwiceIsNoWeight) {
  Mlp mlp;
  // Large enough to be looked at.
  Tensor x = matrix(32, kWidth, 1);
  uint64_t before = compiles();
  for (int i = 0; i < 4; ++i)
    mlp(x).eval();
  uint64_t same = compiles() - before;
  EXPECT_LE(same, 2u);
  for (int i = 0; i < 4; ++i)
    mlp(matrix(32, kWidth, i)).eval();
  for (int i = 0; i < 4; ++i)
    mlp(x).eval();
  EXPECT_LE(compiles() - before, 3u);
}

// The small bias is never marked; it does not vary either.
TEST(Prepare, NothingVariesInABenchmarkLoop) {
  Mlp mlp;
  Tensor x = matrix(32, kWidth, 1), bias = matrix(1, kWidth, 3);
  for (int i = 0; i < 6; ++i)
    relu(mlp(x) + bias).eval();
  // The converted weight, and no product of the data. Where the library packs no weights (oneDNN
  // without AVX-512), nothing is marked.
  if (on_cpu())
    EXPECT_LE(last().prepared_values, 1) << last().to_string();
}

TEST(Prepare, WeightsThatDieTakeTheirResultsAlong) {
  synchronize();
  uint64_t bytes = statistics().prepared_bytes;
  {
    Mlp mlp;
    for (int i = 0; i < 6; ++i)
      mlp(matrix(kRows, kWidth, i)).eval();
    if (on_cpu())
      EXPECT_GT(statistics().prepared_bytes, bytes);
  }
  synchronize();
  EXPECT_LE(statistics().prepared_bytes, bytes);
}

TEST(Prepare, SeveralThreadsShareOneSet) {
  Mlp mlp;
  Floats up = mlp.up.to_vector<float>(), down = mlp.down.to_vector<float>();
  for (int i = 0; i < 2; ++i)
    mlp(matrix(kRows, kWidth, i)).eval();
  uint64_t before = compiles(), made = statistics().prepared_made;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 6; ++i)
        ASSERT_EQ(mlp(matrix(kRows, kWidth, t * 6 + i)).to_vector<float>(),
                  expected(numbers(kRows * kWidth, t * 6 + i), up, down));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(compiles(), before);
  EXPECT_LE(statistics().prepared_made - made, 2u)
      << "the converted weight was there; both are packed at most once";
}

TEST(Prepare, GivesWayUnderMemoryPressure) {
  constexpr int64_t kLimit = 8 << 20;
  set_allocator(std::make_shared<runtime::LimitAllocator>(
      std::make_shared<runtime::SystemAllocator>(), kLimit));
  {
    Mlp mlp;
    Floats up = mlp.up.to_vector<float>(), down = mlp.down.to_vector<float>();
    auto check = [&](int64_t i) {
      ASSERT_EQ(mlp(matrix(kRows, kWidth, i)).to_vector<float>(),
                expected(numbers(kRows * kWidth, i), up, down));
    };
    for (int64_t i = 0; i < 6; ++i)
      check(i);
    uint64_t reclaimed = statistics().prepared_reclaimed;
    {
      // Takes what is left but for less than the results hold, as long as they are there.
      std::vector<Tensor> ballast;
      try {
        while (true)
          ballast.push_back(Tensor::from<float>(Floats(16 << 10), {16 << 10}));
      } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::kMemory);
      }
      if (on_cpu())
        EXPECT_GT(statistics().prepared_reclaimed, reclaimed);
      // Room for one run, but not for all results.
      ballast.resize(ballast.size() - 8);
      for (int64_t i = 0; i < 4; ++i)
        check(i);
    }
    for (int64_t i = 0; i < 6; ++i)
      check(i);
  }
  synchronize();
  set_allocator(nullptr);
}

TEST(Prepare, AJittedFunctionNeedsOneProgram) {
  Mlp mlp;
  auto f = jit([&](const Tensor &x) { return mlp(x); });
  uint64_t before = compiles();
  for (int64_t i = 0; i < 6; ++i)
    ASSERT_EQ(f(matrix(kRows, kWidth, i)).to_vector<float>(),
              expected(numbers(kRows * kWidth, i), mlp.up.to_vector<float>(),
                       mlp.down.to_vector<float>()));
  EXPECT_LE(compiles() - before, 1u);
  if (on_cpu())
    EXPECT_GE(last().prepared_results, 1) << last().to_string();
  mlp.up.copy_(matrix(kWidth, kWidth, 4));
  Floats up = mlp.up.to_vector<float>();
  EXPECT_EQ(f(matrix(kRows, kWidth, 3)).to_vector<float>(),
            expected(numbers(kRows * kWidth, 3), up, mlp.down.to_vector<float>()));
}

// Functions that capture one of several weights each count on theirs: they keep their programs.
TEST(Prepare, JittedFunctionsCountOnTheWeightsThatTheyCapture) {
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < 4; ++i)
    weights.push_back(matrix(kWidth, kWidth, i).to(DType::kBFloat16).eval());
  Tensor x = matrix(kRows, kWidth, 9).eval();
  auto chain = [](Tensor y, const std::vector<Tensor> &all) {
    for (const Tensor &weight : all)
      y = matmul(y, weight.to(DType::kFloat32)).clamp(-3, 3);
    return y;
  };
  Floats plain = chain(x, weights).to_vector<float>();
  for (size_t own = 0; own < weights.size(); ++own) {
    auto f = jit([&, own, weight = weights[own]](const Tensor &y, std::vector<Tensor> others) {
      others.insert(others.begin() + static_cast<std::ptrdiff_t>(own), weight);
      return chain(y, others);
    });
    std::vector<Tensor> others = weights;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(own));
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(f(x, others).to_vector<float>(), plain);
    if (on_cpu())
      EXPECT_GE(last().prepared_results, 1) << own << ": " << last().to_string();
  }
}

TEST(Prepare, IsAnOption) {
  Config before = config(), without = before;
  without.prepare = false;
  set_config(without);
  Mlp mlp;
  uint64_t compiled = compiles();
  for (int64_t i = 0; i < 4; ++i)
    mlp(matrix(kRows, kWidth, i) * 2).eval();
  EXPECT_EQ(compiles() - compiled, 1u);
  EXPECT_EQ(last().prepared_results + last().prepared_waiting, 0);
  set_config(before);
}

// What is computed of weights ahead of runs is one result for programs of all batch sizes.
TEST(Prepare, BatchSizesShareWhatIsComputed) {
  if (!on_cpu())
    GTEST_SKIP() << "the interpreter prepares nothing";
  Mlp mlp;
  NoGrad no_history;
  auto run = [&](int64_t rows) {
    for (int i = 0; i < 6; ++i)
      mlp(matrix(rows, kWidth, rows)).eval();
    return statistics().prepared_bytes;
  };
  uint64_t bytes = run(3);
  EXPECT_GT(bytes, 0u);
  for (int64_t rows : {40, 5, 200, 7, 21})
    EXPECT_EQ(run(rows), bytes) << rows;
}

// Rounding: the same bits with and without.
TEST(Prepare, ChangesNoBits) {
  manual_seed(3);
  Tensor w = randn({kWidth, kWidth}).eval();
  std::vector<Floats> results[2];
  for (bool prepare : {false, true}) {
    Config before = config(), changed = before;
    changed.prepare = prepare;
    set_config(changed);
    for (int64_t rows : {1, 3, 17})
      for (int64_t i = 0; i < 6; ++i) {
        Tensor x = matrix(rows, kWidth, i) * 0.37;
        x.eval();
        results[prepare].push_back(
            gelu(matmul(x, w.transpose(0, 1)) *
                 matmul(x, (w * 0.1).to(DType::kBFloat16).to(DType::kFloat32)))
                .to_vector<float>());
      }
    set_config(before);
  }
  EXPECT_TRUE(results[0] == results[1]);
}

// A norm's numbers are part of the weight of the convolution before it, from the first run on: no
// bit changes when the weights are found to be stable, also where nothing varies at all.
TEST(Prepare, ANormGoesIntoItsConvolution) {
  if (!on_cpu())
    GTEST_SKIP() << "of code generation";
  manual_seed(4);
  NoGrad no_history;
  nn::Conv2d conv(16, 32, 3, {.stride = {2, 2}, .bias = false});
  nn::BatchNorm2d norm(32);
  norm.running_mean.copy_(randn({32}));
  norm.running_var.copy_(rand({32}) + 0.5);
  norm.weight.copy_(randn({32}));
  norm.bias.copy_(randn({32}));
  norm.eval();
  eval({conv.weight, norm.running_mean, norm.running_var, norm.weight, norm.bias});
  // What is between the two has no handle when the result is computed.
  auto network = [&](const Tensor &x) {
    return norm(conv(x));
  };
  Tensor images[] = {randn({2, 16, 17, 17}).eval(), randn({2, 16, 17, 17}).eval()};
  Config before = config(), changed = before;
  changed.math = Math::kExact;
  for (int64_t kinds : {2, 1}) { // of images, in turns
    std::vector<Floats> results;
    for (int64_t i = 0; i < 6; ++i)
      results.push_back(network(images[i % kinds]).to_vector<float>());
    EXPECT_EQ(last().prepared_values, 2) << kinds << ": the weight, and the bias";
    for (size_t i = static_cast<size_t>(kinds); i < results.size(); ++i)
      EXPECT_TRUE(results[i] == results[i % static_cast<size_t>(kinds)]) << kinds << ", run " << i;
    set_config(changed);
    Floats exact = network(images[0]).to_vector<float>();
    EXPECT_EQ(last().prepared_values, 0);
    set_config(before);
    ASSERT_EQ(exact.size(), results[0].size());
    double largest = 0, error = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      largest = std::max(largest, std::abs(double{exact[i]}));
      error = std::max(error, std::abs(double{exact[i]} - double{results[0][i]}));
    }
    EXPECT_LT(error, 1e-5 * largest);
  }
  // New numbers count at once.
  norm.bias.fill_(100.f);
  norm.weight.fill_(0.f);
  EXPECT_EQ(network(images[0]).to_vector<float>(), Floats(2 * 32 * 8 * 8, 100.f));
}

// Programs for many sizes count on stable leaves as well, and share what is computed ahead.
TEST(Prepare, SizesShareTheWeightsOfANorm) {
  if (!on_cpu())
    GTEST_SKIP() << "of code generation";
  manual_seed(4);
  NoGrad no_history;
  nn::Conv2d conv(16, 32, 3);
  nn::BatchNorm2d norm(32);
  norm.running_var.copy_(rand({32}) + 0.5);
  norm.eval();
  eval({conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias});
  // What is between the two has no handle when the result is computed.
  auto network = [&](const Tensor &x) {
    return norm(conv(x));
  };
  Floats image = randn({1, 16, 9, 9}).to_vector<float>(), first;
  for (int64_t batch : {2, 3, 5, 7, 4, 6, 1, 5}) {
    Floats images;
    for (int64_t i = 0; i < batch; ++i)
      images.insert(images.end(), image.begin(), image.end());
    Tensor x = Tensor::from(images, {batch, 16, 9, 9});
    Floats results = network(x).to_vector<float>();
    if (first.empty())
      first.assign(results.begin(), results.begin() + 32 * 7 * 7);
    for (int64_t i = 0; i < batch; ++i)
      ASSERT_TRUE(std::equal(first.begin(), first.end(), results.begin() + i * 32 * 7 * 7))
          << "image " << i << " of " << batch;
  }
  EXPECT_NE(last().symbolic, "");
  EXPECT_EQ(last().prepared_computed, 0) << last().to_string();
  EXPECT_GE(last().prepared_values, 2) << last().to_string();
}

} // namespace
} // namespace weft

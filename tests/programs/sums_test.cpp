// Long sums, and what is made of them: their error is some units in the last place, however long
// they are, on each backend that compiles kernels.
//
// What the order of kernels promises (compiler/codegen/Schedule.h): chains of 32 additions, 16 to
// 32 lanes in a tree, eight such blocks one by one, and totals that keep what they lose; some 46
// roundings, 23 units of eps, at the very worst, and a few where roundings do not all go one way.
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "compiler/backend/Backend.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using Doubles = std::vector<double>;
constexpr double kEps = std::numeric_limits<float>::epsilon();
constexpr double kUnits = 8;

struct On {
  std::string backend;
  std::vector<int64_t> lengths;
};
std::vector<On> backends() {
  std::vector<On> all = {{"cpu", {1'000'000, 10'000'000}}};
  for (const std::string &name : compiler::backendNames())
    if (name.find("simulated") != std::string::npos)
      all.push_back({name, {40'000}});
  return all;
}

// One number many times, each of whose roundings goes the same way; numbers of one sign, no two
// alike.
std::vector<float> alike(int64_t n) {
  return std::vector<float>(static_cast<size_t>(n), 0.1f);
}
std::vector<float> various(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  uint64_t state = 88172645463325252u;
  for (float &value : values) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    value = float(state >> 40) / float(1 << 24) + 1e-3f;
  }
  return values;
}

class Sums : public testing::TestWithParam<On> {
protected:
  void SetUp() override {
    Config now = before_ = config();
    now.backend = GetParam().backend;
    set_config(now);
  }
  void TearDown() override {
    set_config(before_);
  }
  void each(const std::function<void(const std::vector<float> &)> &test) {
    for (int64_t n : GetParam().lengths)
      for (auto make : {alike, various}) {
        SCOPED_TRACE(std::to_string(n) + (make == alike ? " alike" : " various"));
        test(make(n));
      }
  }
  Config before_;
};

double total(const std::vector<float> &values, const std::function<double(double)> &of) {
  long double sum = 0;
  for (float value : values)
    sum += of(value);
  return double(sum);
}
double identity(double value) {
  return value;
}

// Elements [first + i * step] of those of `values`, `count` of them, added up.
double part(const std::vector<float> &values, int64_t first, int64_t step, int64_t count) {
  long double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += values[static_cast<size_t>(first + i * step)];
  return double(sum);
}

void near(const Tensor &result, const Doubles &expected, const char *what, double units = kUnits) {
  std::vector<float> values = result.to_vector<float>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double off = std::abs(double(values[i]) / expected[i] - 1) / kEps;
    worst = off <= worst ? worst : off; // NaN counts
  }
  EXPECT_LE(worst, units) << what << ", in units of eps";
}

TEST_P(Sums, OfEverything) {
  each([](const std::vector<float> &values) {
    Tensor x = Tensor::from(values);
    double n = double(values.size()), sum = total(values, identity),
           squares = total(values, [](double v) { return v * v; });
    near(x.sum(), {sum}, "sum");
    near(x.mean(), {sum / n}, "mean");
    near(norm(x), {std::sqrt(squares)}, "norm");
    near(dot(x, x), {squares}, "dot");
    near(logsumexp(x), {std::log(total(values, [](double v) { return std::exp(v); }))},
         "logsumexp");
    // Simulated, a warp of threads for each row takes long.
    if (GetParam().backend == "cpu")
      near(cross_entropy(stack({x, zeros_like(x)}, 1), zeros({x.size(0)}, int64)),
           {total(values, [](double v) { return std::log1p(std::exp(-v)); }) / n}, "cross_entropy");
    near(mse_loss(x, zeros_like(x)), {squares / n}, "mse_loss");
    if (values[0] != values[1])
      near(var(x),
           {total(values, [&](double v) { return (v - sum / n) * (v - sum / n); }) / (n - 1)},
           "var");
  });
}

TEST_P(Sums, OfRowsColumnsAndMiddleDims) {
  each([](const std::vector<float> &values) {
    Tensor x = Tensor::from(values);
    int64_t n = static_cast<int64_t>(values.size()), half = n / 2;
    near(x.view({2, half}).sum(1), {part(values, 0, 1, half), part(values, half, 1, half)}, "rows");
    for (int64_t columns : {1, 10, 80}) {
      Doubles expected, twice(static_cast<size_t>(columns));
      for (int64_t c = 0; c < columns; ++c)
        expected.push_back(part(values, c, columns, n / columns));
      near(x.view({n / columns, columns}).sum(0), expected, "columns");
      expected.clear();
      for (int64_t side = 0; side < 2; ++side)
        for (int64_t c = 0; c < columns; ++c)
          expected.push_back(part(values, side * half + c, columns, half / columns));
      near(x.view({2, half / columns, columns}).sum(1), expected, "middle dims");
    }
    Doubles channels(4);
    int64_t pixels = 250;
    for (int64_t i = 0; i < n / pixels; ++i)
      channels[static_cast<size_t>(i % 4)] += part(values, i * pixels, 1, pixels);
    near(x.view({n / pixels / 4, 4, pixels}).sum({0, 2}), channels, "channels");
    near(matmul(x.view({2, half}), x.narrow(0, 0, half)),
         {total({values.begin(), values.begin() + half}, [](double v) { return v * v; }),
          std::inner_product(values.begin(), values.begin() + half, values.begin() + half, 0.0,
                             std::plus<>(), [](double a, double b) { return a * b; })},
         "a matrix times a vector");
    near(adaptive_avg_pool2d(x.view({1, 2, 1000, n / 2000}), 1),
         {part(values, 0, 1, half) / double(half), part(values, half, 1, half) / double(half)},
         "a mean over a window");
  });
}

// Sums over rows beside what else is done with the rows.
TEST_P(Sums, OfGradients) {
  each([](const std::vector<float> &values) {
    for (int64_t columns : {10, 400}) {
      int64_t rows = static_cast<int64_t>(values.size()) / columns;
      Tensor upstream = Tensor::from(values).view({rows, columns}),
             x = rand({rows, columns}).eval();
      Tensor weight = ones({columns}).requires_grad_(), bias = zeros({columns}).requires_grad_(),
             offset = zeros({columns}).requires_grad_();
      Tensor leaf = x.detach().requires_grad_();
      (layer_norm(leaf, {columns}, weight, bias) * upstream).sum().backward();
      Doubles expected;
      for (int64_t c = 0; c < columns; ++c)
        expected.push_back(part(values, c, columns, rows));
      eval({bias.grad(), weight.grad(), leaf.grad()});
      near(bias.grad(), expected, "layer_norm's bias");
      ((x + offset) * upstream).sum().backward();
      near(offset.grad(), expected, "a bias");
    }
  });
}

TEST_P(Sums, OfStatistics) {
  each([](const std::vector<float> &values) {
    if (values[0] == values[1])
      return;
    double n = double(values.size()), mean = total(values, identity) / n,
           variance = total(values, [&](double v) { return (v - mean) * (v - mean); }) / n;
    auto normalized = [&](const Tensor &y, const char *what) {
      std::vector<float> results = y.to_vector<float>();
      double worst = 0;
      for (size_t i = 0; i < results.size(); ++i)
        worst = std::max(
            worst, std::abs(double(results[i]) - (values[i] - mean) / std::sqrt(variance + 1e-5)));
      EXPECT_LE(worst, 2 * kUnits * kEps) << what;
    };
    Tensor x = Tensor::from(values);
    int64_t size = x.size(0);
    normalized(layer_norm(x.view({1, size}), {size}), "layer_norm");
    Tensor seen = zeros({1}), spread = ones({1});
    normalized(batch_norm(x.view({size / 100, 1, 10, 10}), seen, spread, Tensor(), Tensor(),
                          {.training = true}),
               "batch_norm");
    near(seen, {0.1 * mean}, "the running mean");
    normalized(group_norm(x.view({1, 10, size / 100, 10}), 1), "group_norm");
  });
}

TEST_P(Sums, OfManyInFewPlaces) {
  each([](const std::vector<float> &values) {
    Tensor x = Tensor::from(values);
    int64_t n = x.size(0), half = n / 2;
    near(zeros({2}).index_add(0, arange(n) % 2, x),
         {part(values, 0, 2, half), part(values, 1, 2, half)}, "index_add");
    near(zeros({3}).scatter_add(0, arange(n) % 2, x).narrow(0, 0, 2),
         {part(values, 0, 2, half), part(values, 1, 2, half)}, "scatter_add");
    near(zeros({1, 2}).index_add(0, zeros({half}, int64), x.view({half, 2})),
         {part(values, 0, 2, half), part(values, 1, 2, half)}, "index_add of rows");
  });
}

// Each of the sums, which never turn back.
TEST_P(Sums, AsTheyRun) {
  each([](const std::vector<float> &values) {
    Tensor x = Tensor::from(values);
    int64_t n = x.size(0);
    // Lines of `size`, `step` apart within a line, which begin at first(line).
    auto check = [&](const Tensor &y, int64_t size, int64_t step,
                     const std::function<int64_t(int64_t)> &first, const char *what,
                     bool reverse = false) {
      std::vector<float> sums = y.to_vector<float>();
      double worst = 0;
      bool turns = false;
      for (int64_t line = 0; line < n / size; ++line) {
        long double sum = 0;
        float before = 0;
        for (int64_t i = 0; i < size; ++i) {
          auto at = static_cast<size_t>(first(line) + (reverse ? size - 1 - i : i) * step);
          sum += values[at];
          double off = std::abs(double(sums[at] / sum - 1)) / kEps;
          worst = off <= worst ? worst : off;
          turns = turns || sums[at] < before;
          before = sums[at];
        }
      }
      EXPECT_LE(worst, kUnits) << what << ", in units of eps";
      EXPECT_FALSE(turns) << what;
    };
    auto line = [](int64_t) -> int64_t {
      return 0;
    };
    check(cumsum(x, 0), n, 1, line, "one line");
    int64_t size = n / 20;
    auto rows = [&](int64_t row) {
      return row * size;
    };
    check(cumsum(x.view({20, size}), 1), size, 1, rows, "rows");
    auto columns = [](int64_t column) {
      return column;
    };
    check(cumsum(x.view({size, 20}), 0), size, 20, columns, "columns");
    // The gradient of running sums runs back.
    Tensor leaf = zeros({20, size}).requires_grad_();
    (cumsum(leaf, 1) * x.view({20, size})).sum().backward();
    check(leaf.grad(), size, 1, rows, "from the end", true);
  });
}

TEST_P(Sums, InDoublePrecision) {
  constexpr double kFine = std::numeric_limits<double>::epsilon();
  int64_t n = GetParam().lengths.front();
  Tensor x = full({n}, 0.1, float64).eval();
  double sum = 0.1 * double(n);
  EXPECT_LE(std::abs(x.sum().item<double>() / sum - 1), kUnits * kFine);
  EXPECT_LE(std::abs(x.view({n / 5, 5}).sum(0)[0].item<double>() / sum * 5 - 1), kUnits * kFine);
  EXPECT_LE(std::abs(cumsum(x, 0)[n - 1].item<double>() / sum - 1), kUnits * kFine);
  EXPECT_LE(
      std::abs(zeros({1}, float64).index_add(0, zeros({n}, int64), x).item<double>() / sum - 1),
      kUnits * kFine);
  // A product's parts are chains of 256 fused multiply-adds.
  Tensor left = x.view({2, n / 2}), product = matmul(left, left.t());
  EXPECT_LE(std::abs(product[0][1].item<double>() / (sum * 0.1) * 2 - 1), 64 * kFine);
}

// Infinities and what is no number go through, and a total that is infinite stays so.
TEST_P(Sums, OfInfinities) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  int64_t n = 20'000;
  std::vector<float> values(static_cast<size_t>(n), 1.0f);
  values[3000] = kInfinity;
  Tensor x = Tensor::from(values), one = zeros({n}, int64);
  EXPECT_EQ(x.sum().item<float>(), kInfinity);
  EXPECT_EQ(x.view({n, 1}).sum(0).item<float>(), kInfinity);
  EXPECT_EQ(zeros({1}).index_add(0, one, x).item<float>(), kInfinity);
  std::vector<float> sums = cumsum(x, 0).to_vector<float>();
  EXPECT_EQ(sums[2999], 3000.0f);
  EXPECT_EQ(sums[3000], kInfinity);
  EXPECT_EQ(sums.back(), kInfinity);
  values[15'000] = -kInfinity;
  x = Tensor::from(values);
  EXPECT_TRUE(std::isnan(x.sum().item<float>()));
  EXPECT_TRUE(std::isnan(x.view({n, 1}).sum(0).item<float>()));
  EXPECT_TRUE(std::isnan(zeros({1}).index_add(0, one, x).item<float>()));
  sums = cumsum(x, 0).to_vector<float>();
  EXPECT_EQ(sums[14'999], kInfinity);
  EXPECT_TRUE(std::isnan(sums.back()));
}

// As many as fit no float: a broadcast, which is nowhere in memory.
TEST_P(Sums, OfAHundredMillion) {
  if (GetParam().backend != "cpu")
    GTEST_SKIP() << "one length is enough";
  for (auto make : {alike, various}) {
    std::vector<float> values = make(10'000);
    Tensor x = Tensor::from(values).expand({10'000, 10'000});
    near(x.sum(), {1e4 * total(values, identity)}, "everything");
    near((x * 2.0).sum(0).narrow(0, 0, 1), {2e4 * values[0]}, "a column");
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Sums, testing::ValuesIn(backends()),
                         [](const testing::TestParamInfo<On> &info) {
                           std::string name = info.param.backend;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace weft::tests

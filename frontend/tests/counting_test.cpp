// Orders with places, scatters that combine, counting, search and draws: what PyTorch's numbers
// (tests/golden) do not show: integers, NaN, empty tensors, many dtypes, errors, distributions.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Bools = std::vector<bool>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

TEST(ScatterReduce, CombinesIntegersOfAllWidths) {
  Tensor at = tensor<int64_t>({0, 2, 0, -1, 0});
  for (DType dtype : {int8, int16, int32, int64, uint8}) {
    Tensor x = tensor<int64_t>({3, 4, 5}).to(dtype), s = tensor<int64_t>({7, 2, 1, 9, 4}).to(dtype);
    auto reduced = [&](const char *reduce, bool self = true) {
      Tensor result = scatter_reduce(x, 0, at, s, reduce, self);
      EXPECT_EQ(result.dtype(), dtype);
      return result.to_vector<int64_t>();
    };
    EXPECT_EQ(reduced("sum"), (Ints{15, 4, 16}));
    EXPECT_EQ(reduced("prod"), (Ints{84, 4, 90}));
    EXPECT_EQ(reduced("amax"), (Ints{7, 4, 9}));
    EXPECT_EQ(reduced("amin"), (Ints{1, 4, 2}));
    EXPECT_EQ(reduced("mean"), (Ints{3, 4, 5}));
    EXPECT_EQ(reduced("amax", false), (Ints{7, 4, 9}));
    EXPECT_EQ(reduced("amin", false), (Ints{1, 4, 2}));
    EXPECT_EQ(reduced("prod", false), (Ints{28, 4, 18}));
    EXPECT_EQ(reduced("mean", false), (Ints{4, 4, 5}));
  }
  // The least number of the dtype stays, where it is all there is.
  Tensor least = tensor<int64_t>({INT64_MIN});
  EXPECT_EQ(scatter_reduce(tensor<int64_t>({5}), 0, tensor<int64_t>({0}), least, "amax", false)
                .to_vector<int64_t>(),
            (Ints{INT64_MIN}));
}

TEST(ScatterReduce, NanWinsAndHalvesRoundOnce) {
  Tensor at = tensor<int64_t>({0, 0, 1});
  Tensor most = scatter_reduce(tensor({1.f, 2.f, 3.f}), 0, at, tensor({kNan, 5.f, -1.f}), "amax");
  std::vector<float> values = most.to_vector<float>();
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ((Floats{values[1], values[2]}), (Floats{2, 3}));
  // 256 + 1 + 1 is no bfloat16 on the way, but their mean is one.
  Tensor mean = scatter_reduce(tensor({256.f}).to(bfloat16), 0, tensor<int64_t>({0, 0}),
                               tensor({1.f, 1.f}).to(bfloat16), "mean");
  EXPECT_EQ(mean.dtype(), bfloat16);
  EXPECT_EQ(mean.item<float>(), 86.f);
}

TEST(ScatterReduce, Errors) {
  Tensor x = zeros({2, 3}), at = zeros({1, 3}, int64), s = zeros({1, 3});
  EXPECT_NE(message_of([&] { scatter_reduce(x, 0, at, s, "max"); }, ErrorKind::kValue)
                .find("reduce is \"max\""),
            std::string::npos);
  EXPECT_NE(message_of([&] { scatter_reduce(x, 0, at, s.to(float64), "amax"); }, ErrorKind::kDType)
                .find("one dtype"),
            std::string::npos);
  EXPECT_NE(message_of([&] { scatter_reduce(x, 0, zeros({1, 4}, int64), zeros({1, 4}), "amin"); },
                       ErrorKind::kShape)
                .find("scatter_reduce: indices of shape [1, 4] do not fit into x of shape [2, 3]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { index_reduce(x, 1, tensor<int64_t>({0}), zeros({2, 2}), "prod"); },
                       ErrorKind::kShape)
                .find("it must be [2, 1]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { scatter_reduce(x, 0, at + 2, s, "amax").eval(); }).find("index 2"),
            std::string::npos);
}

TEST(Extremes, PlacesOfTiesAndNan) {
  auto [values, places] = max_with_indices(tensor({{1.f, 3.f, 3.f}, {kNan, 5.f, kNan}}), 1);
  EXPECT_EQ(places.to_vector<int64_t>(), (Ints{1, 0}));
  EXPECT_TRUE(std::isnan(values.to_vector<float>()[1]));
  EXPECT_EQ(min_with_indices(Tensor::from<int64_t>({4, 2, 2, 9}, {2, 2}), 0, true).second.shape(),
            (Shape{1, 2}));
  EXPECT_EQ(max_with_indices(scalar(3), 0).second.to_vector<int64_t>(), (Ints{0}));
  Tensor truth = Tensor::from<int64_t>({0, 1, 1, 0, 0, 0}, {2, 3}).to(boolean);
  EXPECT_EQ(max_with_indices(truth, 1).first.to_vector<bool>(), (Bools{true, false}));
  EXPECT_EQ(max_with_indices(truth, 1).second.to_vector<int64_t>(), (Ints{1, 0}));

  auto [running, at] = cummax(tensor({2.f, 1.f, 2.f, kNan, 5.f, kNan}), 0);
  EXPECT_EQ(at.to_vector<int64_t>(), (Ints{0, 0, 2, 3, 3, 5}));
  EXPECT_EQ(cummin(tensor<int64_t>({3, 3, 4, 1, 1}), 0).second.to_vector<int64_t>(),
            (Ints{0, 1, 1, 3, 4}));
  EXPECT_EQ(cummax(zeros({0, 3}), 0).first.shape(), (Shape{0, 3}));
  EXPECT_EQ(logcumsumexp(tensor({-kInf, -kInf, 0.f, 0.f}), 0).to_vector<float>(),
            (Floats{-kInf, -kInf, 0, std::log(2.f)}));
  EXPECT_MESSAGE(max_with_indices(zeros({2, 0}), 1), "max_with_indices: x has shape [2, 0]");
}

TEST(Extremes, ModesAndQuantiles) {
  auto [value, place] = mode(Tensor::from<int64_t>({5, 1, 5, 1, 7, 0, 0, 3, 3, 3}, {2, 5}), 1);
  EXPECT_EQ(value.to_vector<int64_t>(), (Ints{1, 3}));
  EXPECT_EQ(place.to_vector<int64_t>(), (Ints{3, 4}));
  EXPECT_EQ(mode(Tensor::from<int64_t>({4, 4}, {1, 2}), 1, true).first.shape(), (Shape{1, 1}));
  Tensor x = tensor({{1.f, 2.f, 4.f}, {kNan, 2.f, 3.f}});
  EXPECT_EQ(quantile(x, 0.75, 1).to_vector<float>()[0], 3.f);
  EXPECT_TRUE(std::isnan(quantile(x, 0.0, 1).to_vector<float>()[1]));
  EXPECT_EQ(quantile(x, {0.0, 1.0}, 1, true).shape(), (Shape{2, 2, 1}));
  EXPECT_EQ(quantile(tensor({1.f, 2.f}).to(float16), 0.25).dtype(), float16);
  EXPECT_MESSAGE(quantile(x, 1.5), "quantile: q is 1.5");
  EXPECT_MESSAGE(quantile(tensor<int64_t>({1}), 0.5), "it must be floating");
}

TEST(Counting, BincountAndHistogram) {
  Tensor x = tensor<int32_t>({4, 0, 4, 1});
  EXPECT_EQ(bincount(x).to_vector<int64_t>(), (Ints{1, 1, 0, 0, 2}));
  EXPECT_EQ(bincount(x).dtype(), int64);
  EXPECT_EQ(bincount(x, Tensor(), 7).shape(), (Shape{7}));
  EXPECT_EQ(bincount(zeros({0}, int64)).shape(), (Shape{0}));
  EXPECT_EQ(bincount(x, tensor<int64_t>({1, 2, 3, 4})).dtype(), float64);
  EXPECT_EQ(bincount(x.to(uint8)).shape(), (Shape{5}));
  EXPECT_MESSAGE(bincount(tensor<int64_t>({1, -2})), "x has the element -2");
  EXPECT_MESSAGE(bincount(tensor({1.f})), "it must be a vector of integers");
  EXPECT_EQ(histc(tensor({0.f, 0.5f, 1.f, 2.f, kNan}), 2, 0, 1).to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(histc(tensor({3.f, 3.f}), 3).to_vector<float>(), (Floats{0, 2, 0}));
  EXPECT_EQ(histc(tensor({kInf, 1.f, 2.f}), 4, 0, 3).to_vector<float>(), (Floats{0, 1, 1, 0}));
  EXPECT_EQ(histc(zeros({0}), 2).to_vector<float>(), (Floats{0, 0}));
  // Of its own range, as PyTorch, which refuses it, too.
  for (float beyond : {kNan, kInf, -kInf})
    EXPECT_MESSAGE((void)histc(tensor({beyond, 1.f, 2.f}), 4).to_vector<float>(),
                   "histc: x has an element that is not finite");
}

TEST(Counting, SearchIsWhatLowerAndUpperBoundFind) {
  for (int64_t n : {0, 1, 2, 7, 8, 9, 100}) {
    std::vector<int64_t> row, asked, left, right;
    for (int64_t i = 0; i < n; ++i)
      row.push_back(i / 3 * 2);
    for (int64_t i = -2; i < n + 2; ++i) {
      asked.push_back(i);
      left.push_back(std::lower_bound(row.begin(), row.end(), i) - row.begin());
      right.push_back(std::upper_bound(row.begin(), row.end(), i) - row.begin());
    }
    Tensor sorted = Tensor::from(row, {n}), values = Tensor::from(asked, {n + 4});
    EXPECT_EQ(searchsorted(sorted, values).to_vector<int64_t>(), left) << n;
    EXPECT_EQ(searchsorted(sorted, values, true).to_vector<int64_t>(), right) << n;
    EXPECT_EQ(searchsorted(sorted.to(float16), values.to(float16)).to_vector<int64_t>(), left) << n;
  }
  EXPECT_EQ(bucketize(tensor({{0.5f}, {kNan}}), tensor({0.f, 1.f})).to_vector<int64_t>(),
            (Ints{1, 2}));
  EXPECT_MESSAGE(searchsorted(zeros({2, 3}), zeros({3, 1})),
                 "sorted has shape [2, 3], values have shape [3, 1]");
  EXPECT_EQ(isin(tensor<int64_t>({1, 5, 2, 9}), tensor<int64_t>({9, 1})).to_vector<bool>(),
            (Bools{true, false, false, true}));
  EXPECT_EQ(isin(tensor({1.f}), zeros({0})).item<bool>(), false);
  // A NaN equals nothing, and hides none of the others.
  Tensor x = tensor({1.f, 5.f, kNan, INFINITY, 3.f});
  EXPECT_EQ(isin(x, tensor({kNan, 3.f, 1.f, kNan})).to_vector<bool>(),
            (Bools{true, false, false, false, true}));
  EXPECT_EQ(isin(x, tensor({kNan})).to_vector<bool>(), Bools(5, false));
  EXPECT_EQ(isin(x, tensor({kNan, INFINITY})).to_vector<bool>(),
            (Bools{false, false, false, true, false}));
}

TEST(Counting, UniqueValues) {
  Tensor x = Tensor::from<int64_t>({3, 1, 3, 2, 1, 3}, {2, 3});
  UniqueResult found = unique(x);
  EXPECT_EQ(found.values.to_vector<int64_t>(), (Ints{1, 2, 3}));
  EXPECT_EQ(found.inverse.shape(), (Shape{2, 3}));
  EXPECT_EQ(found.inverse.to_vector<int64_t>(), (Ints{2, 0, 2, 1, 0, 2}));
  EXPECT_EQ(found.counts.to_vector<int64_t>(), (Ints{2, 1, 3}));
  UniqueResult runs = unique_consecutive(tensor({2.f, 2.f, kNan, kNan, 2.f}));
  EXPECT_EQ(runs.counts.to_vector<int64_t>(), (Ints{2, 1, 1, 1}));
  EXPECT_EQ(runs.inverse.to_vector<int64_t>(), (Ints{0, 0, 1, 2, 3}));
  EXPECT_EQ(unique(zeros({0})).values.shape(), (Shape{0}));
  EXPECT_EQ(unique(ones({4}, boolean)).counts.to_vector<int64_t>(), (Ints{4}));
}

TEST(Multinomial, DrawsAsOftenAsTheProbabilitiesSay) {
  Generator generator(7);
  constexpr int64_t kDraws = 40000;
  Tensor p = tensor({{1.f, 0.f, 3.f, 4.f}, {0.f, 2.f, 0.f, 0.f}});
  std::vector<int64_t> drawn = multinomial(p, kDraws, true, generator).to_vector<int64_t>();
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < kDraws; ++i)
    ++counts[drawn[static_cast<size_t>(i)]];
  // Six standard deviations of a binomial count.
  for (auto [category, share] : {std::pair{0, 0.125}, {1, 0.0}, {2, 0.375}, {3, 0.5}})
    EXPECT_NEAR(static_cast<double>(counts[category]), share * kDraws,
                6 * std::sqrt(share * (1 - share) * kDraws))
        << category;
  EXPECT_TRUE(std::all_of(drawn.begin() + kDraws, drawn.end(), [](int64_t i) { return i == 1; }));

  // Without replacement: no category twice, none of probability 0, and the first draw as with it.
  Tensor rows = tensor({1.f, 0.f, 3.f, 4.f}).expand({10000, 4});
  std::vector<int64_t> without = multinomial(rows, 3, false, generator).to_vector<int64_t>();
  std::map<int64_t, int64_t> first;
  for (size_t i = 0; i < without.size(); i += 3) {
    EXPECT_EQ((std::set<int64_t>{without[i], without[i + 1], without[i + 2]}),
              (std::set<int64_t>{0, 2, 3}));
    ++first[without[i]];
  }
  for (auto [category, share] : {std::pair{0, 0.125}, {2, 0.375}, {3, 0.5}})
    EXPECT_NEAR(static_cast<double>(first[category]), share * 10000,
                6 * std::sqrt(share * (1 - share) * 10000))
        << category;
}

TEST(Multinomial, SeedsDecideAndBadDistributionsEndTheRun) {
  Generator a(3), b(3);
  Tensor p = rand({5, 9}, a), q = rand({5, 9}, b);
  EXPECT_EQ(multinomial(p, 4, false, a).to_vector<int64_t>(),
            multinomial(q, 4, false, b).to_vector<int64_t>());
  EXPECT_EQ(multinomial(tensor({1.f, 2.f}), 1).shape(), (Shape{1}));
  for (Tensor bad :
       {tensor({0.f, 0.f}), tensor({1.f, -1.f}), tensor({kNan, 1.f}), tensor({kInf, 1.f})})
    EXPECT_MESSAGE(multinomial(bad, 1, true).eval(), "each row of probabilities must be finite");
  EXPECT_MESSAGE(multinomial(tensor({1.f, 0.f}), 2).eval(),
                 "positive for as many categories as there are samples");
  EXPECT_MESSAGE(multinomial(tensor({1.f, 2.f}), 3), "multinomial: samples is 3");
  EXPECT_MESSAGE(multinomial(tensor<int64_t>({1, 2}), 1), "probabilities is int64 [2]");
}

TEST(Random, BernoulliOfAProbabilityForEachElement) {
  constexpr int64_t kDraws = 40000;
  Tensor p = tensor({0.f, 0.25f, 0.9f, 1.f});
  Generator generator(5);
  Tensor drawn = bernoulli(p.expand({kDraws, 4}), generator);
  EXPECT_EQ(drawn.dtype(), float32);
  EXPECT_EQ(drawn.shape(), (Shape{kDraws, 4}));
  std::vector<float> means = drawn.mean(0).to_vector<float>();
  EXPECT_EQ(means[0], 0.f);
  EXPECT_NEAR(means[1], 0.25, 0.02);
  EXPECT_NEAR(means[2], 0.9, 0.02);
  EXPECT_EQ(means[3], 1.f);
  Generator a(7), b(7);
  EXPECT_EQ(bernoulli(full({64}, 0.5), a).to_vector<float>(),
            bernoulli({64}, 0.5, float32, b).to_vector<float>());
  EXPECT_EQ(bernoulli(ones({2}, bfloat16)).dtype(), bfloat16);
  EXPECT_FALSE(bernoulli(ones({2}).set_requires_grad()).requires_grad());
  for (float wrong : {-0.5f, 1.5f, NAN})
    EXPECT_MESSAGE(bernoulli(tensor({0.5f, wrong})).to_vector<float>(),
                   "bernoulli: an element of p is not in [0, 1]");
  EXPECT_MESSAGE(bernoulli(tensor<int64_t>({0, 1})), "p is int64 [2]; it must be floating");
}

TEST(Random, RandintBelowABound) {
  Generator a(3), b(3);
  EXPECT_EQ(randint(9, {50}, a).to_vector<int64_t>(), randint(0, 9, {50}, b).to_vector<int64_t>());
  EXPECT_MESSAGE(randint(0, {2}), "randint: the range [0, 0)");
}

TEST(Counting, RepeatsOfEachElement) {
  Tensor x = tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({3, 2});
  Tensor counts = tensor<int64_t>({2, 0, 1});
  EXPECT_EQ(repeat_interleave(x, counts, 0).to_vector<float>(), (Floats{1, 2, 1, 2, 5, 6}));
  EXPECT_EQ(repeat_interleave(x, counts, 0, 3).shape(), (Shape{3, 2}));
  EXPECT_EQ(repeat_interleave(x, tensor<int32_t>({1, 2}), -1).to_vector<float>(),
            (Floats{1, 2, 2, 3, 4, 4, 5, 6, 6}));
  EXPECT_EQ(repeat_interleave(x, tensor<int64_t>({2})).shape(), (Shape{12}));
  EXPECT_EQ(repeat_interleave(x, tensor<int64_t>({0, 0, 0}), 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(repeat_interleave(zeros({0, 2}), zeros({0}, int64), 0).shape(), (Shape{0, 2}));
  Tensor leaf = x.detach().clone().requires_grad_();
  EXPECT_EQ(grad({repeat_interleave(leaf, counts, 0).sum()}, {leaf})[0].to_vector<float>(),
            (Floats{2, 2, 0, 0, 1, 1}));
  EXPECT_MESSAGE(repeat_interleave(x, tensor<int64_t>({1, -1, 1}), 0),
                 "counts has a negative number");
  EXPECT_MESSAGE(repeat_interleave(x, counts, 1), "counts has shape [3]; along dimension 1");
  for (int64_t wrong : {2, 4})
    EXPECT_MESSAGE(repeat_interleave(x, counts, 0, wrong).to_vector<float>(),
                   "counts must not be negative, and add up to output_size");
  EXPECT_MESSAGE(
      repeat_interleave(x, tensor<int64_t>({4, -1, 0}), 0, 3).to_vector<float>(),
      "counts must not be negative, and add up to output_size");
  EXPECT_MESSAGE(repeat_interleave(x, tensor({1.f}), 0), "int");
}

// Means, medians and ends of many samples, within what chance leaves of them.
TEST(Random, Distributions) {
  constexpr int64_t kDraws = 1 << 16;
  Generator generator(3);
  auto mean = [](const Tensor &x) { return x.mean().item<float>(); };
  Tensor e = exponential({kDraws}, 2, float32, generator);
  EXPECT_NEAR(mean(e), 0.5, 0.01);
  EXPECT_NEAR(mean(square(e)), 0.5, 0.02);
  EXPECT_GT(e.min().item<float>(), 0);
  Tensor g = geometric({kDraws}, 0.25, float32, generator);
  EXPECT_NEAR(mean(g), 4, 0.06);
  EXPECT_EQ(g.min().item<float>(), 1);
  EXPECT_EQ(geometric({64}, 1, float32, generator).to_vector<float>(), Floats(64, 1));
  Tensor c = cauchy({kDraws}, 3, 2, float32, generator);
  EXPECT_NEAR(mean((c < 3).to(float32)), 0.5, 0.01);
  EXPECT_NEAR(mean((abs(c - 3) < 2).to(float32)), 0.5, 0.01);
  Tensor l = log(log_normal({kDraws}, 1, 0.5, float32, generator));
  EXPECT_NEAR(mean(l), 1, 0.01);
  EXPECT_NEAR(mean(square(l - 1)), 0.25, 0.01);
  Tensor d = laplace({kDraws}, -1, 2, float32, generator);
  EXPECT_NEAR(mean(d), -1, 0.05);
  EXPECT_NEAR(mean(abs(d + 1)), 2, 0.05);
  EXPECT_EQ(exponential({3}, 1, bfloat16, generator).dtype(), bfloat16);
  EXPECT_MESSAGE(exponential({3}, 0), "rate is 0.000000; it must be positive");
  EXPECT_MESSAGE(geometric({3}, 0), "it must be in (0, 1]");
  EXPECT_MESSAGE(cauchy({3}, 0, 1, int64), "samples are floating-point numbers");
}

TEST(Random, GumbelSoftmax) {
  constexpr int64_t kDraws = 1 << 14;
  Generator generator(5);
  Tensor logits = log(tensor({0.2f, 0.5f, 0.3f})).expand({kDraws, 3});
  Tensor hard = gumbel_softmax(logits, 0.7, true, -1, generator);
  EXPECT_EQ(hard.sum(-1).min().item<float>(), 1);
  Floats shares = hard.mean(0).to_vector<float>();
  EXPECT_NEAR(shares[0], 0.2, 0.02);
  EXPECT_NEAR(shares[1], 0.5, 0.02);
  Generator again(7), same(7);
  Tensor leaf = tensor({0.1f, -1.f, 2.f}).requires_grad_();
  Tensor weights = tensor({1.f, 2.f, 3.f});
  Floats slope = grad({(gumbel_softmax(leaf, 2, true, 0, again) * weights).sum()}, {leaf})[0]
                     .to_vector<float>();
  Floats smooth = grad({(gumbel_softmax(leaf, 2, false, 0, same) * weights).sum()}, {leaf})[0]
                      .to_vector<float>();
  EXPECT_EQ(slope, smooth);
  EXPECT_MESSAGE(gumbel_softmax(leaf, 0), "tau is 0.000000; it must be positive");
}

} // namespace
} // namespace weft

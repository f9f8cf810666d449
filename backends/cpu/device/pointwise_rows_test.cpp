#include "backends/cpu/device/pointwise_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace weft::backends::cpu {
namespace {

using Values = std::vector<float>;

ConvolutionProblem problem_of(int64_t images, int64_t channels, int64_t results,
                              std::array<int64_t, 2> size) {
  ConvolutionProblem p;
  p.image = {images, channels, size[0], size[1]};
  p.weight = {results, channels, 1, 1};
  p.result = {images, results, size[0], size[1]};
  return p;
}

struct Operands {
  Values image, weight, bias;

  explicit Operands(const ConvolutionProblem &p)
      : image(static_cast<size_t>(p.image[0] * p.image[1] * p.image[2] * p.image[3])),
        weight(static_cast<size_t>(p.weight[0] * p.weight[1])),
        bias(static_cast<size_t>(p.weight[0])) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (Values *values : {&image, &weight, &bias})
      for (float &value : *values)
        value = uniform(random);
  }
};

// The sums of products as double computes them.
std::vector<double> expected(const ConvolutionProblem &p, const Operands &in) {
  int64_t pixels = p.image[2] * p.image[3], channels = p.image[1];
  std::vector<double> result;
  for (int64_t n = 0; n < p.image[0]; ++n)
    for (int64_t o = 0; o < p.weight[0]; ++o)
      for (int64_t x = 0; x < pixels; ++x) {
        double sum = p.bias ? in.bias[static_cast<size_t>(o)] : 0;
        for (int64_t c = 0; c < channels; ++c)
          sum +=
              static_cast<double>(in.image[static_cast<size_t>((n * channels + c) * pixels + x)]) *
              in.weight[static_cast<size_t>(o * channels + c)];
        result.push_back(p.relu && !(sum > 0) ? 0 : sum);
      }
  return result;
}

Values computed(const ConvolutionProblem &p, Operands &in, int threads) {
  std::unique_ptr<runtime::LibraryCallState> state = pointwise_rows(p, threads);
  // With a margin that nothing may be written to.
  Values result(static_cast<size_t>(p.result[0] * p.result[1] * p.result[2] * p.result[3]) + 64,
                -7);
  // Other calls' memory.
  Values scratch(static_cast<size_t>(state->scratch_bytes()) / sizeof(float),
                 std::numeric_limits<float>::quiet_NaN());
  std::vector<void *> operands = {in.image.data(), in.weight.data()};
  if (p.bias)
    operands.push_back(in.bias.data());
  operands.push_back(result.data());
  EXPECT_TRUE(state->run(operands, scratch.data()).ok());
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(result.back(), -7);
    result.pop_back();
  }
  return result;
}

TEST(PointwiseRows, AreSumsOfProducts) {
  for (int64_t channels : {1, 3, 24, 65})
    for (int64_t results : {1, 2, 3, 5, 6, 10, 23, 24, 25, 58})
      for (std::array<int64_t, 2> size : {std::array<int64_t, 2>{1, 1},
                                          {1, 5},
                                          {4, 4},
                                          {5, 5},
                                          {7, 7},
                                          {8, 8},
                                          {14, 14},
                                          {9, 15}}) {
        ConvolutionProblem p = problem_of(2, channels, results, size);
        p.bias = results % 2 == 0;
        p.relu = size[0] == 7;
        ASSERT_TRUE(pointwise_rows_computes(p));
        Operands in(p);
        std::vector<double> wanted = expected(p, in);
        Values found = computed(p, in, 1);
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], wanted[i], 3e-5)
              << channels << " to " << results << " channels, image " << size[0] << "x" << size[1]
              << ", element " << i;
        // Not on a machine's threads do the bits depend, nor on the images of a batch.
        for (int threads : {2, 3})
          ASSERT_EQ(computed(p, in, threads), found);
        ConvolutionProblem single = problem_of(1, channels, results, size);
        single.bias = p.bias;
        single.relu = p.relu;
        Values first = computed(single, in, 1);
        ASSERT_TRUE(std::equal(first.begin(), first.end(), found.begin()));
      }
}

// What is not finite stays in its pixel, or its channel.
TEST(PointwiseRows, InfinitiesStayWhereTheyAre) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                  kNaN = std::numeric_limits<float>::quiet_NaN();
  ConvolutionProblem p = problem_of(1, 3, 7, {7, 7});
  Operands in(p);
  in.weight[3 * 2] = kInfinity;
  in.image[48] = kNaN;
  std::vector<double> wanted = expected(p, in);
  Values found = computed(p, in, 2);
  for (size_t i = 0; i < found.size(); ++i)
    if (std::isfinite(wanted[i]))
      ASSERT_NEAR(found[i], wanted[i], 1e-5) << i;
    else
      ASSERT_TRUE(std::isnan(wanted[i]) ? std::isnan(found[i]) : found[i] == wanted[i]) << i;
  EXPECT_TRUE(std::isnan(found[48]));
  EXPECT_TRUE(std::isinf(found[2 * 49]));
}

TEST(PointwiseRows, LeaveTheRestToTheLibrary) {
  ConvolutionProblem p = problem_of(1, 24, 24, {28, 28});
  EXPECT_TRUE(pointwise_rows_computes(p));
  auto refused = [p](auto change) {
    ConvolutionProblem other = p;
    change(other);
    return !pointwise_rows_computes(other);
  };
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.kind = ConvolutionKind::kInputGradient; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.channels_last = true; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.dtype = DType::kBFloat16; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.groups = 12; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.padding = {1, 1}; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.strides = {2, 2}; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.weight[3] = 3; }));
}

} // namespace
} // namespace weft::backends::cpu

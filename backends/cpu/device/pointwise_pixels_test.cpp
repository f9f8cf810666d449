#include "backends/cpu/device/pointwise_pixels.h"

#include <gtest/gtest.h>

#include "backends/cpu/device/convolution_rows_testing.h"
#include "backends/cpu/device/vector_lanes.h"

namespace weft::backends::cpu {
namespace {

ConvolutionProblem pointwise_problem(int64_t images, int64_t channels, int64_t results,
                                     std::array<int64_t, 2> size) {
  ConvolutionProblem p =
      problem_of(images, channels, results, size, {{1, 1}, {1, 1}, {0, 0}, {1, 1}});
  p.channels_last = true;
  return p;
}

Values computed(const ConvolutionProblem &p, Operands &in, int threads) {
  return computed(pointwise_pixels(p, threads), p, in);
}

TEST(PointwisePixels, AreSumsOfProducts) {
  for (int64_t channels : {1, 16, 37, 72})
    for (int64_t results : {17, 24, 40, 72, 100})
      for (std::array<int64_t, 2> size : {std::array<int64_t, 2>{1, 1}, {5, 1}, {7, 7}, {33, 40}}) {
        ConvolutionProblem p = pointwise_problem(2, channels, results, size);
        p.bias = channels > 1;
        p.relu.follows = results == 24;
        p.relu.most = channels == 16 ? 0.25f : p.relu.most;
        Operands in(p);
        std::vector<double> wanted = channels_last(p.result, expected(p, in));
        in.image = channels_last(p.image, in.image);
        Values found = computed(p, in, 1);
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], wanted[i], 1e-4)
              << channels << " to " << results << " channels, image " << size[0] << "x" << size[1]
              << ", element " << i;
        // Not on a machine's threads do the bits depend, nor on packing.
        for (int threads : {2, 3})
          ASSERT_EQ(computed(p, in, threads), found);
        p.packed_weight = true;
        ASSERT_EQ(computed(packed(pointwise_pixels(p, 2), in), p, in), found);
      }
}

TEST(PointwisePixels, InfinitiesStayWhereTheyAre) {
  ConvolutionProblem p = pointwise_problem(1, 20, 35, {9, 11});
  Operands in(p);
  in.weight[3 * 20] = kInfinity;
  in.image[5 * 99 + 7] = -kInfinity;
  in.image[98] = kNaN;
  std::vector<double> wanted = channels_last(p.result, expected(p, in));
  in.image = channels_last(p.image, in.image);
  expect_special(computed(p, in, 2), wanted, 1e-4, 99);
}

// What a form names is found again by it.
TEST(PointwisePixels, FormsDifferWhereTheirWeightsDo) {
  auto form = [](int64_t channels, int64_t results) {
    return pointwise_pixels(pointwise_problem(1, channels, results, {9, 9}), 1)->form();
  };
  EXPECT_NE(form(24, 72), form(72, 24));
  EXPECT_EQ(form(24, 72), form(24, 72));
}

// NaN stays behind a ReLU.
TEST(PointwisePixels, ReluKeepsNaN) {
  ConvolutionProblem p = pointwise_problem(1, 20, 35, {5, 5});
  p.relu.follows = true;
  Operands in(p);
  in.image[7] = kNaN;
  in.image = channels_last(p.image, in.image);
  Values found = computed(p, in, 1);
  EXPECT_EQ(std::count_if(found.begin(), found.end(), [](float x) { return std::isnan(x); }), 35);
  EXPECT_TRUE(std::none_of(found.begin(), found.end(), [](float x) { return x < 0; }));
}

TEST(PointwisePixels, LeaveTheRestToTheLibrary) {
  ConvolutionProblem p = pointwise_problem(1, 72, 24, {56, 56});
  // Of other processors than those with AVX-512 the library computes them.
  EXPECT_EQ(pointwise_pixels_computes(p), lanes_here() == kMostLanes);
  if (lanes_here() < kMostLanes)
    GTEST_SKIP();
  auto refused = [p](auto change) {
    ConvolutionProblem other = p;
    change(other);
    return !pointwise_pixels_computes(other);
  };
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.kind = ConvolutionKind::kInputGradient; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.channels_last = false; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.dtype = DType::kBFloat16; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.groups = 2; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.result[1] = 8; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.result[1] = 32; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.image[1] = 4096; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.strides = {2, 2}; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.weight[3] = 3; }));
}

} // namespace
} // namespace weft::backends::cpu

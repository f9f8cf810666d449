#include "backends/cpu/device/depthwise_pixels.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/device/convolution_rows_testing.h"
#include "backends/cpu/device/vector_lanes.h"

namespace weft::backends::cpu {
namespace {

ConvolutionProblem depthwise_problem(int64_t images, int64_t channels, std::array<int64_t, 2> size,
                                     const Window &window) {
  ConvolutionProblem p = problem_of(images, channels, channels, size, window);
  p.weight[1] = 1;
  p.groups = channels;
  p.channels_last = true;
  return p;
}

Values computed(const ConvolutionProblem &p, Operands &in, int threads) {
  return computed(depthwise_pixels(p, threads), p, in);
}

TEST(DepthwisePixels, AreSumsOfProducts) {
  for (int64_t stride : {1, 2})
    for (std::array<int64_t, 2> taps :
         {std::array<int64_t, 2>{3, 3}, {5, 5}, {7, 7}, {1, 3}, {4, 5}})
      for (int64_t channels : {16, 37, 72})
        for (std::array<int64_t, 2> size :
             {std::array<int64_t, 2>{7, 7}, {14, 15}, {28, 30}, {9, 4}}) {
          int64_t beside = size[0] == 14 ? 0 : taps[1] / 2;
          ConvolutionProblem p = depthwise_problem(
              2, channels, size, {taps, {stride, stride}, {taps[0] / 2, beside}, {1, 1}});
          if (p.result[2] < 1 || p.result[3] < 1)
            continue;
          p.bias = channels > 16;
          p.relu.follows = size[0] == 9;
          p.relu.most = 0.25f;
          for (bool finite : {true, false}) {
            Operands in(p);
            if (!finite) {
              in.weight[static_cast<size_t>((channels - 1) * taps[0] * taps[1])] = kInfinity;
              in.image[5] = kNaN;
              p.relu = {};
            }
            std::vector<double> wanted = channels_last(p.result, expected(p, in));
            in.image = channels_last(p.image, in.image);
            Values found = computed(p, in, 1);
            // Not on a machine's threads do the bits depend, nor on packing.
            Values by_threads = computed(p, in, 3);
            ConvolutionProblem of_packed = p;
            of_packed.packed_weight = true;
            Operands with_packed = in;
            Values of_weight =
                computed(packed(depthwise_pixels(of_packed, 2), with_packed), p, with_packed);
            size_t bytes = found.size() * sizeof(float);
            ASSERT_EQ(std::memcmp(by_threads.data(), found.data(), bytes), 0);
            ASSERT_EQ(std::memcmp(of_weight.data(), found.data(), bytes), 0);
            if (!finite) {
              // Weights that are not finite meet no padding.
              expect_special(found, wanted, 1e-4, 0);
              continue;
            }
            ASSERT_EQ(found.size(), wanted.size());
            for (size_t i = 0; i < found.size(); ++i)
              ASSERT_NEAR(found[i], wanted[i], 1e-4)
                  << "stride " << stride << ", " << channels << " channels, " << taps[0] << "x"
                  << taps[1] << " taps, image " << size[0] << "x" << size[1] << ", element " << i;
          }
        }
}

// What a form names is found again by it.
TEST(DepthwisePixels, FormsDifferWhereTheirWeightsDo) {
  auto form = [](int64_t channels, std::array<int64_t, 2> taps) {
    return depthwise_pixels(depthwise_problem(1, channels, {9, 9}, {taps, {1, 1}, {0, 0}, {1, 1}}),
                            1)
        ->form();
  };
  EXPECT_NE(form(72, {3, 3}), form(216, {1, 3}));
  EXPECT_EQ(form(72, {3, 3}), form(72, {3, 3}));
}

// NaN stays behind a ReLU.
TEST(DepthwisePixels, ReluKeepsNaN) {
  ConvolutionProblem p = depthwise_problem(1, 20, {8, 9}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}});
  p.relu.follows = true;
  Operands in(p);
  in.image[7] = kNaN;
  in.image = channels_last(p.image, in.image);
  Values found = computed(p, in, 1);
  EXPECT_EQ(std::count_if(found.begin(), found.end(), [](float x) { return std::isnan(x); }), 6);
  EXPECT_TRUE(std::none_of(found.begin(), found.end(), [](float x) { return x < 0; }));
}

TEST(DepthwisePixels, LeaveTheRestToTheLibrary) {
  const Window window = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
  ConvolutionProblem p = depthwise_problem(1, 72, {56, 56}, window);
  // Of other processors than those with AVX-512 the library computes them.
  EXPECT_EQ(depthwise_pixels_computes(p), lanes_here() == kMostLanes);
  if (lanes_here() < kMostLanes)
    GTEST_SKIP();
  auto refused = [p](auto change) {
    ConvolutionProblem other = p;
    change(other);
    return !depthwise_pixels_computes(other);
  };
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.kind = ConvolutionKind::kInputGradient; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.channels_last = false; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.dtype = DType::kBFloat16; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.groups = 36; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.dilation = {2, 2}; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.strides = {1, 2}; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.weight[3] = 4; }));
  // Channels that fill the library's vectors.
  EXPECT_FALSE(depthwise_pixels_computes(depthwise_problem(1, 64, {14, 14}, window)));
  EXPECT_FALSE(depthwise_pixels_computes(depthwise_problem(1, 8, {56, 56}, window)));
}

} // namespace
} // namespace weft::backends::cpu

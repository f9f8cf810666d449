#include "backends/cpu/device/depthwise_blocks.h"

#include <gtest/gtest.h>

#include "backends/cpu/device/convolution_rows_testing.h"

namespace weft::backends::cpu {
namespace {

ConvolutionProblem problem_of(int64_t images, int64_t channels, std::array<int64_t, 2> size,
                              std::array<int64_t, 2> taps, int64_t stride,
                              std::array<int64_t, 2> padding) {
  ConvolutionProblem p;
  p.image = {images, channels, size[0], size[1]};
  p.weight = {channels, 1, taps[0], taps[1]};
  p.strides = {stride, stride};
  p.padding = padding;
  p.groups = channels;
  p.result = {images, channels, (size[0] + 2 * padding[0] - taps[0]) / stride + 1,
              (size[1] + 2 * padding[1] - taps[1]) / stride + 1};
  return p;
}

Values computed(const ConvolutionProblem &p, Operands &in, int threads) {
  return computed(depthwise_blocks(p, threads), p, in);
}

TEST(DepthwiseBlocks, AreSumsOfProducts) {
  int64_t checked = 0;
  for (int64_t stride : {1, 2})
    for (std::array<int64_t, 2> taps :
         {std::array<int64_t, 2>{3, 3}, {5, 5}, {7, 7}, {1, 3}, {4, 5}})
      for (std::array<int64_t, 2> padding : {std::array<int64_t, 2>{0, 0}, {1, 1}, {2, 3}, {3, 2}})
        for (std::array<int64_t, 2> size :
             {std::array<int64_t, 2>{28, 28}, {9, 17}, {7, 7}, {7, 70}, {23, 24}}) {
          // Blocks that are full, and one that is not.
          ConvolutionProblem p =
              problem_of(2, size[0] == 7 ? 37 : 5, size, taps, stride, padding);
          p.bias = padding[0] > 0;
          p.relu.follows = size[0] == 9;
          p.relu.most = 0.25f;
          if (!depthwise_blocks_computes(p))
            continue;
          ++checked;
          Operands in(p);
          std::vector<double> wanted = expected(p, in);
          Values found = computed(p, in, 1);
          ASSERT_EQ(found.size(), wanted.size());
          for (size_t i = 0; i < found.size(); ++i)
            ASSERT_NEAR(found[i], wanted[i], 1e-5)
                << "stride " << stride << ", " << taps[0] << "x" << taps[1] << " taps, image "
                << size[0] << "x" << size[1] << ", element " << i;
          // Not on a machine's threads do the bits depend.
          for (int threads : {2, 3})
            ASSERT_EQ(computed(p, in, threads), found);
        }
  EXPECT_GT(checked, 100);
}

// Weights that are not finite meet no padding, pixels that are not finite stay where they are.
TEST(DepthwiseBlocks, InfinitiesStayWhereTheyAre) {
  for (int64_t stride : {1, 2}) {
    ConvolutionProblem p = problem_of(1, 3, {12, 19}, {3, 3}, stride, {1, 1});
    ASSERT_TRUE(depthwise_blocks_computes(p));
    Operands in(p);
    in.weight[0] = kInfinity;
    in.weight[9 + 4] = kNaN;
    in.image[2 * 12 * 19 + 5 * 19 + 7] = -kInfinity;
    in.image[2 * 12 * 19] = kNaN;
    expect_special(computed(p, in, 2), expected(p, in), 1e-5, 9);
  }
}

// What does not lie in a near cache is computed in bands of rows, of which each has the padding
// that is its own.
TEST(DepthwiseBlocks, BandsAreOneImage) {
  for (int64_t stride : {1, 2})
    for (std::array<int64_t, 2> size :
         {std::array<int64_t, 2>{111, 97}, {9, 1500}, {2000, 5}, {9000, 1}, {1, 9000}}) {
      ConvolutionProblem p = problem_of(1, 3, size, {3, 3}, stride, {1, 1});
      ASSERT_TRUE(depthwise_blocks_computes(p));
      Operands in(p);
      std::vector<double> wanted = expected(p, in);
      for (int threads : {1, 2}) {
        Values found = computed(p, in, threads);
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], wanted[i], 1e-5)
              << "stride " << stride << ", image " << size[0] << "x" << size[1] << ", element "
              << i;
      }
    }
}

TEST(DepthwiseBlocks, LeaveTheRestToTheLibrary) {
  ConvolutionProblem p = problem_of(1, 24, {28, 28}, {3, 3}, 1, {1, 1});
  EXPECT_TRUE(depthwise_blocks_computes(p));
  auto refused = [p](auto change) {
    ConvolutionProblem other = p;
    change(other);
    return !depthwise_blocks_computes(other);
  };
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.kind = ConvolutionKind::kInputGradient; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.channels_last = true; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.dtype = DType::kBFloat16; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.groups = 12; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.dilation = {2, 2}; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.strides = {1, 2}; }));
  EXPECT_TRUE(depthwise_blocks_computes(problem_of(1, 32, {7, 7}, {3, 3}, 1, {1, 1})));
  EXPECT_FALSE(depthwise_blocks_computes(problem_of(1, 32, {3, 3}, {3, 3}, 1, {1, 1})));
  EXPECT_FALSE(depthwise_blocks_computes(problem_of(1, 1, {28, 28}, {3, 3}, 1, {1, 1})));
  // Too few pixels are read, or are a band's.
  EXPECT_FALSE(depthwise_blocks_computes(problem_of(8, 64, {16, 1}, {7, 7}, 2, {0, 6})));
  EXPECT_FALSE(depthwise_blocks_computes(problem_of(8, 64, {8, 2}, {1, 7}, 2, {0, 6})));
  EXPECT_FALSE(depthwise_blocks_computes(problem_of(1, 16, {2800, 6}, {2797, 3}, 1, {0, 0})));
  EXPECT_FALSE(depthwise_blocks_computes(problem_of(1, 16, {1, 400000}, {1, 5}, 1, {0, 2})));
}

} // namespace
} // namespace weft::backends::cpu

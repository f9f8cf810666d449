#include "backends/cpu/device/few_channels_pixels.h"

#include <gtest/gtest.h>

#include "backends/cpu/device/convolution_rows_testing.h"

namespace weft::backends::cpu {
namespace {

ConvolutionProblem row_major_problem(int64_t images, int64_t channels, int64_t results,
                                     std::array<int64_t, 2> size, const Window &window) {
  ConvolutionProblem p = problem_of(images, channels, results, size, window);
  p.channels_last = p.row_major_image = true;
  return p;
}

Values computed(const ConvolutionProblem &p, Operands &in, int threads) {
  return computed(few_channels_pixels(p, threads), p, in);
}

constexpr Window kWindows[] = {
    {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {{7, 7}, {2, 2}, {3, 3}, {1, 1}}, {{5, 4}, {1, 2}, {0, 3}, {1, 1}},
    {{1, 1}, {2, 1}, {0, 0}, {1, 1}}, {{3, 2}, {1, 4}, {4, 2}, {2, 3}},
};

TEST(FewChannelsPixels, AreSumsOfProducts) {
  int64_t checked = 0;
  for (const Window &window : kWindows)
    for (int64_t channels : {1, 3, 4})
      for (int64_t results : {1, 16, 24, 35, 64, 97})
        for (std::array<int64_t, 2> size : {std::array<int64_t, 2>{9, 17}, {33, 40}, {28, 28}}) {
          ConvolutionProblem p = row_major_problem(2, channels, results, size, window);
          p.bias = channels > 1;
          p.relu.follows = results == 24;
          p.relu.most = channels == 4 ? 0.25f : p.relu.most;
          if (!few_channels_pixels_computes(p))
            continue;
          ++checked;
          Operands in(p);
          std::vector<double> wanted = channels_last(p.result, expected(p, in));
          Values found = computed(p, in, 1);
          ASSERT_EQ(found.size(), wanted.size());
          for (size_t i = 0; i < found.size(); ++i)
            ASSERT_NEAR(found[i], wanted[i], 1e-4)
                << channels << " to " << results << " channels, " << window.taps[0] << "x"
                << window.taps[1] << " taps, image " << size[0] << "x" << size[1] << ", element "
                << i;
          // Not on a machine's threads do the bits depend, nor on the images of a batch.
          for (int threads : {2, 3})
            ASSERT_EQ(computed(p, in, threads), found);
          ConvolutionProblem single = row_major_problem(1, channels, results, size, window);
          single.bias = p.bias;
          single.relu = p.relu;
          Values first = computed(single, in, 1);
          ASSERT_TRUE(std::equal(first.begin(), first.end(), found.begin()));
        }
  EXPECT_GT(checked, 100);
}

// Weights that are not finite meet no padding, pixels that are not finite stay where they are.
TEST(FewChannelsPixels, InfinitiesStayWhereTheyAre) {
  for (bool of_weight : {false, true}) {
    ConvolutionProblem p = row_major_problem(1, 3, 17, {20, 35}, kWindows[1]);
    ASSERT_TRUE(few_channels_pixels_computes(p));
    Operands in(p);
    if (of_weight) {
      in.weight[0] = kInfinity;
      in.weight[2 * 27 + 13] = kNaN;
    } else {
      in.image[2 * 20 * 35 + 5 * 35 + 7] = -kInfinity;
      in.image[20 * 35] = kNaN;
    }
    expect_special(computed(p, in, 2), channels_last(p.result, expected(p, in)), 1e-5, 9);
  }
}

TEST(FewChannelsPixels, LeaveTheRestToTheLibrary) {
  ConvolutionProblem p = row_major_problem(1, 3, 24, {56, 56}, kWindows[0]);
  EXPECT_TRUE(few_channels_pixels_computes(p));
  auto refused = [p](auto change) {
    ConvolutionProblem other = p;
    change(other);
    return !few_channels_pixels_computes(other);
  };
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.kind = ConvolutionKind::kInputGradient; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.row_major_image = false; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.channels_last = false; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.dtype = DType::kBFloat16; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.groups = 3; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.image[1] = 5; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.result[1] = 15; }));
  EXPECT_TRUE(refused([](ConvolutionProblem &o) { o.strides[1] = 3; }));
}

} // namespace
} // namespace weft::backends::cpu

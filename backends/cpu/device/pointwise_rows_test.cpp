#include "backends/cpu/device/pointwise_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/device/convolution_rows_testing.h"

namespace weft::backends::cpu {
namespace {

ConvolutionProblem problem_of(int64_t images, int64_t channels, int64_t results,
                              std::array<int64_t, 2> size) {
  ConvolutionProblem p;
  p.image = {images, channels, size[0], size[1]};
  p.weight = {results, channels, 1, 1};
  p.result = {images, results, size[0], size[1]};
  return p;
}

Values computed(const ConvolutionProblem &p, Operands &in, int threads) {
  return computed(pointwise_rows(p, threads), p, in);
}

TEST(PointwiseRows, AreSumsOfProducts) {
  for (int64_t channels : {1, 3, 24, 65, 130})
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
        p.relu.follows = size[0] == 7;
        p.relu.most = 0.25f;
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
  ConvolutionProblem p = problem_of(1, 3, 7, {7, 7});
  Operands in(p);
  in.weight[3 * 2] = kInfinity;
  in.image[48] = kNaN;
  std::vector<double> wanted = expected(p, in);
  Values found = computed(p, in, 2);
  expect_special(found, wanted, 1e-5, 0);
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

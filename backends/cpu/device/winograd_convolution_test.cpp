#include "backends/cpu/device/winograd_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace weft::backends::cpu {
namespace {

using Values = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kNaN = std::numeric_limits<float>::quiet_NaN();

ConvolutionProblem problem_of(ConvolutionKind kind, int64_t images, int64_t channels,
                              int64_t filters, std::array<int64_t, 2> size,
                              std::array<int64_t, 2> padding) {
  ConvolutionProblem p;
  p.kind = kind;
  p.image = {images, channels, size[0], size[1]};
  p.weight = {filters, channels, 3, 3};
  p.padding = padding;
  p.result = {images, filters, size[0] + 2 * padding[0] - 2, size[1] + 2 * padding[1] - 2};
  p.channels_last = true;
  p.winograd = Winograd::kWeightChanges;
  return p;
}

size_t elements(const std::array<int64_t, 4> &dims) {
  return static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]);
}

struct Operands {
  Values read, weight, bias; // read: the image, or the result's gradient

  explicit Operands(const ConvolutionProblem &p)
      : read(elements(p.kind == ConvolutionKind::kForward ? p.image : p.result)),
        weight(elements(p.weight)), bias(p.bias ? static_cast<size_t>(p.weight[0]) : 0) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (Values *values : {&read, &weight, &bias})
      for (float &value : *values)
        value = uniform(random);
  }
};

// The sums of products, as double computes them.
std::vector<double> expected(const ConvolutionProblem &p, const Operands &in) {
  bool forward = p.kind == ConvolutionKind::kForward;
  std::vector<double> sums(elements(forward ? p.result : p.image));
  auto at = [](const std::array<int64_t, 4> &dims, int64_t n, int64_t c, int64_t y, int64_t x) {
    return static_cast<size_t>(((n * dims[2] + y) * dims[3] + x) * dims[1] + c);
  };
  for (int64_t n = 0; n < p.image[0]; ++n)
    for (int64_t y = 0; y < p.result[2]; ++y)
      for (int64_t x = 0; x < p.result[3]; ++x)
        for (int64_t tap = 0; tap < 9; ++tap) {
          int64_t row = y + tap / 3 - p.padding[0], column = x + tap % 3 - p.padding[1];
          if (row < 0 || row >= p.image[2] || column < 0 || column >= p.image[3])
            continue;
          for (int64_t o = 0; o < p.weight[0]; ++o)
            for (int64_t c = 0; c < p.weight[1]; ++c) {
              size_t image = at(p.image, n, c, row, column), result = at(p.result, n, o, y, x);
              double weight = in.weight[static_cast<size_t>((o * p.weight[1] + c) * 9 + tap)];
              sums[forward ? result : image] += weight * in.read[forward ? image : result];
            }
        }
  if (p.bias)
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += in.bias[i % in.bias.size()];
  if (p.relu)
    for (double &sum : sums)
      sum = std::clamp(sum, 0.0, double{p.relu.most});
  return sums;
}

Values run(const ConvolutionProblem &p, int64_t tile, int threads, Operands in) {
  auto state = winograd_convolution(p, tile, threads);
  EXPECT_TRUE(state.ok()) << state.status();
  Values result(elements(p.kind == ConvolutionKind::kForward ? p.result : p.image));
  // What it needs holds anything before.
  auto memory = [](int64_t bytes) {
    return std::vector<float>(static_cast<size_t>(bytes) / 4 + 32, kNaN);
  };
  auto aligned = [](std::vector<float> &values) {
    char *start = reinterpret_cast<char *>(values.data());
    return start + (64 - reinterpret_cast<uintptr_t>(start) % 64);
  };
  std::vector<float> scratch = memory((*state)->scratch_bytes()),
                     packed = memory((*state)->packed_bytes());
  if (p.packed_weight) {
    EXPECT_TRUE((*state)->pack(in.weight.data(), aligned(packed)).ok());
  }
  std::vector<void *> pointers{in.read.data(),
                               p.packed_weight ? aligned(packed) : (void *)in.weight.data()};
  if (p.bias)
    pointers.push_back(in.bias.data());
  pointers.push_back(result.data());
  EXPECT_TRUE((*state)->run(pointers, aligned(scratch)).ok());
  return result;
}

// Odd sizes; channels that fill no vector; a weight that threads share, and several blocks.
const ConvolutionProblem kProblems[] = {
    problem_of(ConvolutionKind::kForward, 2, 16, 24, {12, 11}, {1, 1}),
    problem_of(ConvolutionKind::kForward, 1, 21, 13, {9, 14}, {0, 2}),
    problem_of(ConvolutionKind::kForward, 1, 160, 140, {10, 9}, {1, 1}),
    problem_of(ConvolutionKind::kForward, 3, 32, 32, {31, 30}, {1, 1}),
    problem_of(ConvolutionKind::kForward, 1, 3, 8, {3, 3}, {0, 0}),
    problem_of(ConvolutionKind::kInputGradient, 2, 24, 16, {12, 11}, {1, 1}),
    problem_of(ConvolutionKind::kInputGradient, 1, 21, 13, {9, 14}, {0, 2}),
};

TEST(Winograd, ComputesTheSumsOfItsProducts) {
  for (ConvolutionProblem p : kProblems)
    for (bool epilogue : {false, true})
      for (int64_t tile : {2, 4}) {
        if (epilogue && p.kind != ConvolutionKind::kForward)
          continue;
        p.bias = p.relu.follows = epilogue;
        p.relu.most = 0.25f;
        Operands in(p);
        std::vector<double> sums = expected(p, in);
        Values result = run(p, tile, 1, in);
        ASSERT_EQ(result.size(), sums.size());
        int64_t terms = 9 * (p.kind == ConvolutionKind::kForward ? p.weight[1] : p.weight[0]);
        double bound = kWinogradError * std::sqrt(static_cast<double>(terms));
        for (size_t i = 0; i < sums.size(); ++i)
          ASSERT_NEAR(result[i], sums[i], bound) << "tile " << tile << " element " << i;
      }
}

TEST(Winograd, BitsDependOnNeitherThreadsNorPacking) {
  for (ConvolutionProblem p : kProblems)
    for (int64_t tile : {2, 4}) {
      Operands in(p);
      Values result = run(p, tile, 1, in);
      for (int threads : {2, 3})
        EXPECT_EQ(run(p, tile, threads, in), result) << threads << " threads";
      p.packed_weight = true;
      EXPECT_EQ(run(p, tile, 2, in), result) << "packed";
      p.packed_weight = false;
    }
}

// Where a sum of products has them, and nowhere else, though a tile is computed as one.
TEST(Winograd, KeepsInfinitiesAndNaN) {
  for (float special : {kInfinity, -kInfinity, kNaN})
    for (bool in_weight : {false, true})
      for (int64_t tile : {2, 4}) {
        ConvolutionProblem p = problem_of(ConvolutionKind::kForward, 2, 16, 20, {11, 10}, {1, 1});
        p.bias = true;
        Operands in(p);
        if (in_weight)
          in.weight[9 * 16 * 7 + 9 * 3 + 4] = special;
        else
          in.read[((11 + 5) * 10 + 4) * 16 + 2] = special;
        std::vector<double> sums = expected(p, in);
        Values result = run(p, tile, 2, in);
        int64_t finite = 0;
        for (size_t i = 0; i < sums.size(); ++i) {
          float sum = static_cast<float>(sums[i]);
          ASSERT_EQ(std::isnan(result[i]), std::isnan(sum)) << special << " element " << i;
          if (std::isnan(sum))
            continue;
          if (std::isinf(sum)) {
            ASSERT_EQ(result[i], sum) << special << " element " << i;
          } else {
            ASSERT_NEAR(result[i], sum, 1e-6 * std::abs(sum) + 1e-4) << special << " at " << i;
            ++finite;
          }
        }
        EXPECT_GT(finite, static_cast<int64_t>(sums.size()) / 2);
      }
}

TEST(Winograd, IsTakenWhereItPays) {
  auto forward = [](int64_t channels, int64_t filters, int64_t side) {
    ConvolutionProblem p =
        problem_of(ConvolutionKind::kForward, 1, channels, filters, {side, side}, {1, 1});
    p.winograd = Winograd::kWeightStays;
    return p;
  };
  EXPECT_EQ(winograd_tile(forward(64, 64, 224)), 4);
  EXPECT_EQ(winograd_tile(forward(512, 512, 28)), 4);
  EXPECT_EQ(winograd_tile(forward(512, 512, 14)), 2);
  // Transforms take longer than the products that they save.
  EXPECT_EQ(winograd_tile(forward(512, 512, 7)), 0);
  EXPECT_EQ(winograd_tile(forward(3, 64, 224)), 0);
  ConvolutionProblem changing = forward(512, 512, 14);
  changing.winograd = Winograd::kWeightChanges;
  EXPECT_EQ(winograd_tile(changing), 0);
  ConvolutionProblem never = forward(64, 64, 56), strided = never, narrow = never, rows = never;
  EXPECT_EQ(winograd_tile(never), 4);
  never.winograd = Winograd::kNever;
  strided.strides = {2, 1};
  narrow.dtype = narrow.computed = DType::kBFloat16;
  rows.channels_last = false;
  for (const ConvolutionProblem &p : {never, strided, narrow, rows})
    EXPECT_EQ(winograd_tile(p), 0);
}

} // namespace
} // namespace weft::backends::cpu

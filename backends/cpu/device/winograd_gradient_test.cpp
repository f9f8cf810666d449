#include "backends/cpu/device/winograd_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backends/cpu/device/weight_gradient_parts.h"
#include "backends/cpu/device/winograd_convolution.h"

namespace weft::backends::cpu {
namespace {

using Values = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kNaN = std::numeric_limits<float>::quiet_NaN();

ConvolutionProblem problem_of(int64_t images, int64_t channels, int64_t filters,
                              std::array<int64_t, 2> size, std::array<int64_t, 2> padding) {
  ConvolutionProblem p;
  p.kind = ConvolutionKind::kWeightGradient;
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
  Values image, gradient;

  explicit Operands(const ConvolutionProblem &p)
      : image(elements(p.image)), gradient(elements(p.result)) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (Values *values : {&image, &gradient})
      for (float &value : *values)
        value = uniform(random);
  }
};

// The sums of products, as double computes them.
std::vector<double> expected(const ConvolutionProblem &p, const Operands &in) {
  int64_t channels = p.weight[1], filters = p.weight[0];
  std::vector<double> sums(elements(p.weight));
  for (int64_t n = 0; n < p.image[0]; ++n)
    for (int64_t y = 0; y < p.result[2]; ++y)
      for (int64_t x = 0; x < p.result[3]; ++x)
        for (int64_t tap = 0; tap < 9; ++tap) {
          int64_t row = y + tap / 3 - p.padding[0], column = x + tap % 3 - p.padding[1];
          if (row < 0 || row >= p.image[2] || column < 0 || column >= p.image[3])
            continue;
          const float *pixel = &in.image[static_cast<size_t>(
              ((n * p.image[2] + row) * p.image[3] + column) * channels)];
          const float *gradient = &in.gradient[static_cast<size_t>(
              ((n * p.result[2] + y) * p.result[3] + x) * filters)];
          for (int64_t o = 0; o < filters; ++o)
            for (int64_t c = 0; c < channels; ++c)
              sums[static_cast<size_t>((o * channels + c) * 9 + tap)] +=
                  static_cast<double>(gradient[o]) * pixel[c];
        }
  return sums;
}

std::unique_ptr<runtime::LibraryCallState> direct_state(const ConvolutionProblem &p, int threads) {
  auto direct = weight_gradient_in_parts(p, threads);
  EXPECT_TRUE(direct.ok()) << direct.status();
  return *std::move(direct);
}

Values run(const ConvolutionProblem &p, runtime::LibraryCallState &state, Operands in) {
  Values result(elements(p.weight));
  // What it needs holds anything before.
  Values scratch(static_cast<size_t>(state.scratch_bytes()) / 4 + 32, kNaN);
  char *start = reinterpret_cast<char *>(scratch.data());
  void *pointers[] = {in.image.data(), in.gradient.data(), result.data()};
  EXPECT_TRUE(state.run(pointers, start + (64 - reinterpret_cast<uintptr_t>(start) % 64)).ok());
  return result;
}

Values run(const ConvolutionProblem &p, int64_t tile, int threads, const Operands &in) {
  std::unique_ptr<runtime::LibraryCallState> direct = direct_state(p, threads);
  const runtime::LibraryCallState *given = direct.get();
  auto state = winograd_weight_gradient(p, tile, threads, std::move(direct));
  EXPECT_TRUE(state.ok()) << state.status();
  EXPECT_NE(state->get(), given) << "the library has no fast products";
  return run(p, **state, in);
}

// Odd sizes; channels that fill no vector; several blocks, the last of which is shorter; several
// slabs of filters, which overlap.
const ConvolutionProblem kProblems[] = {
    problem_of(2, 16, 24, {12, 11}, {1, 1}),  problem_of(1, 21, 13, {9, 14}, {0, 2}),
    problem_of(5, 140, 160, {10, 9}, {1, 1}), problem_of(3, 32, 32, {31, 30}, {2, 0}),
    problem_of(1, 3, 8, {3, 3}, {0, 0}),      problem_of(7, 16, 16, {101, 99}, {1, 1}),
    problem_of(2, 240, 260, {7, 9}, {1, 1}),
};

TEST(WinogradGradient, ComputesTheSumsOfItsProducts) {
  for (const ConvolutionProblem &p : kProblems) {
    Operands in(p);
    std::vector<double> sums = expected(p, in);
    for (int64_t tile : {2, 4}) {
      Values result = run(p, tile, 1, in);
      double terms = static_cast<double>(p.result[0] * p.result[2] * p.result[3]),
             bound = kWinogradError * std::sqrt(terms);
      for (size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(result[i], sums[i], bound) << "tile " << tile << " element " << i;
    }
  }
}

TEST(WinogradGradient, BitsDoNotDependOnThreads) {
  for (const ConvolutionProblem &p : kProblems)
    for (int64_t tile : {2, 4}) {
      Operands in(p);
      Values result = run(p, tile, 1, in);
      for (int threads : {2, 3})
        EXPECT_EQ(run(p, tile, threads, in), result) << threads << " threads";
    }
}

// What sums of products give is what such a call gives, bit for bit.
TEST(WinogradGradient, KeepsInfinitiesAndNaN) {
  for (float special : {kInfinity, -kInfinity, kNaN})
    for (bool in_image : {false, true})
      for (int64_t tile : {2, 4}) {
        ConvolutionProblem p = problem_of(2, 16, 20, {11, 10}, {1, 1});
        Operands in(p);
        if (in_image)
          in.image[((11 + 5) * 10 + 4) * 16 + 2] = special;
        else
          in.gradient[((11 + 10) * 10 + 9) * 20 + 19] = special;
        Values result = run(p, tile, 2, in), sums = run(p, *direct_state(p, 2), in);
        size_t finite = 0;
        for (size_t i = 0; i < sums.size(); ++i) {
          ASSERT_EQ(std::isnan(result[i]), std::isnan(sums[i])) << special << " element " << i;
          if (!std::isnan(sums[i])) {
            ASSERT_EQ(result[i], sums[i]) << special << " element " << i;
          }
          finite += std::isfinite(sums[i]);
        }
        EXPECT_GT(finite, sums.size() / 2);
        EXPECT_LT(finite, sums.size());
      }
}

// Numbers so large that a tile overflows, though no sum of products does.
TEST(WinogradGradient, KeepsLargeNumbers) {
  for (int64_t tile : {2, 4}) {
    ConvolutionProblem p = problem_of(1, 16, 16, {8, 8}, {1, 1});
    Operands in(p);
    for (float &value : in.image)
      value *= 3e38f;
    for (float &value : in.gradient)
      value *= 1e-3f;
    std::vector<double> sums = expected(p, in);
    Values result = run(p, tile, 2, in);
    for (size_t i = 0; i < sums.size(); ++i)
      ASSERT_NEAR(result[i] / 3e35, sums[i] / 3e35, 1e-3) << "tile " << tile << " element " << i;
  }
}

TEST(WinogradGradient, IsTakenWhereItPays) {
  auto square = [](int64_t images, int64_t channels, int64_t filters, int64_t side) {
    return problem_of(images, channels, filters, {side, side}, {1, 1});
  };
  EXPECT_EQ(winograd_gradient_tile(square(4, 64, 64, 224)), 4);
  EXPECT_EQ(winograd_gradient_tile(square(4, 512, 512, 28)), 4);
  EXPECT_EQ(winograd_gradient_tile(square(4, 512, 512, 14)), 2);
  // Transforms take longer than the products that they save.
  EXPECT_EQ(winograd_gradient_tile(square(4, 3, 64, 224)), 0);
  EXPECT_EQ(winograd_gradient_tile(square(1, 512, 512, 7)), 0);
  ConvolutionProblem never = square(4, 64, 64, 56), strided = never, narrow = never, rows = never,
                     grouped = never, forward = never;
  EXPECT_EQ(winograd_gradient_tile(never), 4);
  never.winograd = Winograd::kNever;
  strided.strides = {2, 1};
  narrow.dtype = DType::kBFloat16;
  rows.channels_last = false;
  grouped.groups = 2;
  forward.kind = ConvolutionKind::kForward;
  for (const ConvolutionProblem &p : {never, strided, narrow, rows, grouped, forward})
    EXPECT_EQ(winograd_gradient_tile(p), 0);
}

} // namespace
} // namespace weft::backends::cpu

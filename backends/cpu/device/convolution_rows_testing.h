// What tests of kernels of ours compare with.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

using Values = std::vector<float>;

struct Window {
  std::array<int64_t, 2> taps, strides, padding, dilation;
};

// A forward convolution without groups.
inline ConvolutionProblem problem_of(int64_t images, int64_t channels, int64_t results,
                                     std::array<int64_t, 2> size, const Window &window) {
  ConvolutionProblem p;
  p.image = {images, channels, size[0], size[1]};
  p.weight = {results, channels, window.taps[0], window.taps[1]};
  p.strides = window.strides;
  p.padding = window.padding;
  p.dilation = window.dilation;
  p.result = {images, results, 0, 0};
  for (size_t i = 0; i < 2; ++i)
    p.result[2 + i] =
        (size[i] + 2 * p.padding[i] - p.dilation[i] * (window.taps[i] - 1) - 1) / p.strides[i] + 1;
  return p;
}

struct Operands {
  Values image, weight, bias;

  explicit Operands(const ConvolutionProblem &p) {
    auto elements = [](const std::array<int64_t, 4> &dims) {
      return static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]);
    };
    image.resize(elements(p.image));
    weight.resize(elements(p.weight));
    bias.resize(static_cast<size_t>(p.weight[0]));
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (Values *values : {&image, &weight, &bias})
      for (float &value : *values)
        value = uniform(random);
  }
};

// The sums of products of a forward convolution, without those of the padding, as double computes
// them.
inline std::vector<double> expected(const ConvolutionProblem &p, const Operands &in) {
  const auto &[images, results, rows, columns] = p.result;
  int64_t of_group = p.weight[1], channels = p.image[1];
  std::vector<double> result;
  for (int64_t n = 0; n < images; ++n)
    for (int64_t o = 0; o < results; ++o)
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t x = 0; x < columns; ++x) {
          double sum = p.bias ? in.bias[static_cast<size_t>(o)] : 0;
          int64_t first = o / (results / p.groups) * of_group;
          for (int64_t c = 0; c < of_group; ++c)
            for (int64_t i = 0; i < p.weight[2]; ++i)
              for (int64_t j = 0; j < p.weight[3]; ++j) {
                int64_t row = y * p.strides[0] + i * p.dilation[0] - p.padding[0],
                        column = x * p.strides[1] + j * p.dilation[1] - p.padding[1];
                if (row < 0 || row >= p.image[2] || column < 0 || column >= p.image[3])
                  continue;
                size_t pixel = static_cast<size_t>(
                           ((n * channels + first + c) * p.image[2] + row) * p.image[3] + column),
                       tap = static_cast<size_t>(
                           ((o * of_group + c) * p.weight[2] + i) * p.weight[3] + j);
                sum += static_cast<double>(in.image[pixel]) * in.weight[tap];
              }
          result.push_back(p.relu ? std::clamp(sum, 0.0, double{p.relu.most}) : sum);
        }
  return result;
}

// Of row-major numbers of those dims, with their channels last.
template <typename T>
std::vector<T> channels_last(const std::array<int64_t, 4> &dims, const std::vector<T> &numbers) {
  const auto &[images, channels, rows, columns] = dims;
  std::vector<T> turned(numbers.size());
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < rows * columns; ++i)
        turned[static_cast<size_t>((n * rows * columns + i) * channels + c)] =
            numbers[static_cast<size_t>((n * channels + c) * rows * columns + i)];
  return turned;
}

inline constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                       kNaN = std::numeric_limits<float>::quiet_NaN();

// What a call gives, with other calls' memory as its scratch. Nothing is written behind the result.
inline Values computed(const std::unique_ptr<runtime::LibraryCallState> &state,
                       const ConvolutionProblem &p, Operands &in) {
  constexpr size_t kMargin = 64;
  Values result(
      static_cast<size_t>(p.result[0] * p.result[1] * p.result[2] * p.result[3]) + kMargin, -7);
  Values scratch(static_cast<size_t>(state->scratch_bytes()) / sizeof(float),
                 std::numeric_limits<float>::quiet_NaN());
  std::vector<void *> operands = {in.image.data(), in.weight.data()};
  if (p.bias)
    operands.push_back(in.bias.data());
  operands.push_back(result.data());
  EXPECT_TRUE(state->run(operands, scratch.data()).ok());
  for (size_t i = 0; i < kMargin; ++i) {
    EXPECT_EQ(result.back(), -7);
    result.pop_back();
  }
  return result;
}

// A call of a packed weight, which is packed in its operands.
inline std::unique_ptr<runtime::LibraryCallState>
packed(std::unique_ptr<runtime::PackedCallState> state, Operands &in) {
  EXPECT_EQ(state->operand(), 1);
  Values plain = in.weight;
  in.weight.assign(static_cast<size_t>(state->packed_bytes()) / sizeof(float), kNaN);
  EXPECT_TRUE(state->pack(plain.data(), in.weight.data()).ok());
  return state;
}

// Infinities and NaN where they are wanted, more than `least` of them, the other numbers as exact
// as given.
inline void expect_special(const Values &found, const std::vector<double> &wanted, double error,
                           int64_t least) {
  int64_t special = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    special += !std::isfinite(wanted[i]);
    if (std::isfinite(wanted[i]))
      ASSERT_NEAR(found[i], wanted[i], error) << i;
    else
      ASSERT_TRUE(std::isnan(wanted[i]) ? std::isnan(found[i]) : found[i] == wanted[i]) << i;
  }
  EXPECT_GT(special, least);
}

} // namespace weft::backends::cpu

#include "backends/cpu/device/convolution_entry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "backends/cpu/device/convolution_parts.h"
#include "backends/cpu/device/library_registry.h"
#include "backends/cpu/device/onednn_convolution.h"
#include "backends/cpu/device/widened_call.h"
#include "runtime/core/float16.h"

namespace weft::backends::cpu {
namespace {

using runtime::Config;
using runtime::LibraryCall;
using runtime::TensorRef;
using Ints = std::vector<int64_t>;

TensorRef tensor(const Ints &dims) {
  TensorRef t{0, 0, DType::kFloat32, dims, Ints(dims.size())};
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    t.strides[i] = stride;
  return t;
}
int64_t elements(const Ints &dims) {
  int64_t n = 1;
  for (int64_t dim : dims)
    n *= dim;
  return n;
}

struct Problem {
  Ints image, weight;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool channels_last = false;

  Ints result() const {
    Ints dims{image[0], weight[0]};
    for (size_t i = 2; i < 4; ++i)
      dims.push_back((image[i] + 2 * padding - dilation * (weight[i] - 1) - 1) / stride + 1);
    return dims;
  }
  LibraryCall call(const std::string &kind, const Config &more = {}) const {
    Ints operands[3] = {image, weight, result()};
    if (kind == "input_gradient")
      std::swap(operands[0], operands[2]);
    if (kind == "weight_gradient")
      std::swap(operands[1], operands[2]);
    LibraryCall call{"onednn.convolution",
                     {{"kind", kind},
                      {"strides", Ints{stride, stride}},
                      {"padding", Ints{padding, padding}},
                      {"dilation", Ints{dilation, dilation}},
                      {"groups", groups}},
                     {},
                     0,
                     -1,
                     -1};
    size_t weight_at = kind == "weight_gradient" ? 2 : 1;
    for (size_t i = 0; i < 3; ++i) {
      const Ints &d = operands[i];
      call.operands.push_back(
          tensor(channels_last && i != weight_at ? Ints{d[0], d[2], d[3], d[1]} : d));
    }
    if (channels_last)
      call.config.emplace_back("channels_last", int64_t{1});
    call.config.insert(call.config.end(), more.begin(), more.end());
    std::sort(call.config.begin(), call.config.end());
    call.inputs = 2;
    return call;
  }
};

using Values = std::vector<std::vector<float>>;

Values random_operands(const LibraryCall &call) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values values;
  for (const TensorRef &operand : call.operands) {
    values.emplace_back(elements(operand.dims));
    for (float &value : values.back())
      value = uniform(random);
  }
  return values;
}

absl::Status run(const LibraryCall &call, Values &values, int threads) {
  auto state = convolution_entry().init(call, threads);
  if (!state.ok())
    return state.status();
  std::vector<void *> pointers;
  for (std::vector<float> &value : values)
    pointers.push_back(value.data());
  std::vector<char> scratch(static_cast<size_t>((*state)->scratch_bytes()) + 64);
  char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  return (*state)->run(pointers, aligned);
}

// The sum of products that each element of the last operand is, with the sum of their absolute
// values.
void expected(const Problem &p, const std::string &kind, const Values &in,
              std::vector<double> &sums, std::vector<double> &sizes) {
  Ints result = p.result();
  size_t image = kind == "input_gradient" ? 2 : 0, weight = kind == "weight_gradient" ? 2 : 1;
  size_t out = 3 - image - weight;
  sums.assign(in[2].size(), 0);
  sizes.assign(in[2].size(), 0);
  int64_t inputs = p.weight[1], outputs = p.weight[0] / p.groups;
  for (int64_t n = 0; n < result[0]; ++n)
    for (int64_t o = 0; o < result[1]; ++o)
      for (int64_t c = 0; c < inputs; ++c)
        for (int64_t y = 0; y < result[2]; ++y)
          for (int64_t x = 0; x < result[3]; ++x)
            for (int64_t i = 0; i < p.weight[2]; ++i)
              for (int64_t j = 0; j < p.weight[3]; ++j) {
                int64_t row = y * p.stride + i * p.dilation - p.padding,
                        column = x * p.stride + j * p.dilation - p.padding;
                if (row < 0 || row >= p.image[2] || column < 0 || column >= p.image[3])
                  continue;
                size_t at[3];
                at[image] = static_cast<size_t>(
                    ((n * p.image[1] + o / outputs * inputs + c) * p.image[2] + row) * p.image[3] +
                    column);
                at[weight] =
                    static_cast<size_t>(((o * inputs + c) * p.weight[2] + i) * p.weight[3] + j);
                at[out] =
                    static_cast<size_t>(((n * result[1] + o) * result[2] + y) * result[3] + x);
                double product = double(in[0][at[0]]) * double(in[1][at[1]]);
                sums[at[2]] += product;
                sizes[at[2]] += std::abs(product);
              }
}

const Problem kProblems[] = {
    {{5, 16, 12, 11}, {24, 16, 3, 3}, 1, 1},
    {{4, 16, 13, 12}, {8, 16, 3, 3}, 2, 1},
    {{3, 12, 9, 9}, {20, 12, 1, 1}},
    {{2, 32, 10, 10}, {32, 1, 3, 3}, 1, 1, 1, 32},
    {{2, 8, 15, 15}, {12, 4, 3, 3}, 1, 2, 2, 2},
    {{1, 3, 31, 30}, {16, 3, 7, 7}, 2, 3},
    {{3, 4, 8, 8}, {4, 4, 3, 3}, 3},
};

TEST(Convolution, ComputesTheSumsOfItsProducts) {
  for (const Problem &p : kProblems)
    for (const char *kind : {"forward", "input_gradient", "weight_gradient"}) {
      LibraryCall call = p.call(kind);
      Values values = random_operands(call);
      std::vector<double> sums, sizes;
      expected(p, kind, values, sums, sizes);
      ASSERT_TRUE(run(call, values, 1).ok()) << kind;
      for (size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(values[2][i], sums[i], 1e-5 * sizes[i] + 1e-30) << kind << " element " << i;
      Values again = random_operands(call);
      ASSERT_TRUE(run(call, again, 2).ok()) << kind;
      EXPECT_EQ(again[2], values[2]) << kind << ": two threads give other bits than one";
    }
}

// bf16 factors: the sums of the same numbers' products, by the library or on f32 copies; a weight's
// gradient is f32, the others are rounded once.
TEST(Convolution, NarrowFactorsGiveTheirSums) {
  for (Problem p : kProblems)
    for (const char *kind : {"forward", "input_gradient", "weight_gradient"}) {
      LibraryCall call = p.call(kind);
      Values values = random_operands(call);
      std::vector<uint16_t> bits[2];
      for (int i : {0, 1}) {
        for (float &value : values[i]) {
          bits[i].push_back(float_to_bfloat16(value));
          value = bfloat16_to_float(bits[i].back());
        }
        call.operands[i].dtype = DType::kBFloat16;
      }
      std::vector<double> sums, sizes;
      expected(p, kind, values, sums, sizes);
      for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        if (dtype == DType::kBFloat16 && kind == std::string("weight_gradient"))
          continue;
        call.operands[2].dtype = dtype;
        auto run = [&](bool widened, int threads) {
          auto state = widened ? init_widened(call, convolution_entry(), threads)
                               : convolution_entry().init(call, threads);
          EXPECT_TRUE(state.ok()) << state.status();
          std::vector<char> out(sums.size() * 4);
          void *pointers[] = {bits[0].data(), bits[1].data(), out.data()};
          std::vector<char> scratch(static_cast<size_t>((*state)->scratch_bytes()) + 64);
          char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
          EXPECT_TRUE((*state)->run(pointers, aligned).ok());
          std::vector<float> result;
          for (size_t i = 0; i < sums.size(); ++i)
            result.push_back(dtype == DType::kFloat32
                                 ? reinterpret_cast<float *>(out.data())[i]
                                 : bfloat16_to_float(reinterpret_cast<uint16_t *>(out.data())[i]));
          return result;
        };
        for (bool widened : {false, true}) {
          std::vector<float> actual = run(widened, 1);
          for (size_t i = 0; i < sums.size(); ++i)
            ASSERT_NEAR(actual[i], sums[i],
                        1e-5 * sizes[i] + 1e-30 +
                            (dtype == DType::kBFloat16 ? 0x1p-8 * std::abs(sums[i]) : 0))
                << kind << " element " << i;
          EXPECT_EQ(run(widened, 2), actual) << kind << ": two threads give other bits than one";
        }
      }
    }
}

// Also where the library takes an implementation by products of matrices, whose sums may depend on
// how their threads share the work.
TEST(Convolution, BitsDoNotDependOnTheNumberOfThreads) {
  const Problem problems[] = {
      {{1, 12, 9, 9}, {20, 12, 1, 1}},
      {{3, 64, 14, 14}, {256, 64, 1, 1}},
      {{1, 512, 7, 7}, {128, 512, 1, 1}},
      {{5, 30, 9, 11}, {17, 30, 1, 1}, 2},
      {{1, 1024, 3, 3}, {40, 1024, 1, 1}},
      {{2, 10, 15, 13}, {14, 5, 3, 3}, 1, 1, 1, 2},
      {{1, 6, 17, 19}, {10, 3, 5, 5}, 1, 2, 1, 2},
      {{7, 24, 5, 5}, {36, 12, 1, 1}, 1, 0, 1, 2},
  };
  for (Problem p : problems)
    for (bool last : {false, true})
      for (const char *kind : {"forward", "input_gradient"}) {
        p.channels_last = last;
        LibraryCall call = p.call(kind);
        Values one = random_operands(call);
        ASSERT_TRUE(run(call, one, 1).ok()) << kind;
        for (int threads : {2, 3, 8}) {
          Values several = random_operands(call);
          ASSERT_TRUE(run(call, several, threads).ok()) << kind;
          EXPECT_TRUE(several[2] == one[2])
              << kind << (last ? ", channels last, " : ", row-major, ") << threads
              << " threads: " << convolution_implementation(call, threads).value();
        }
      }
}

// Elements of [N, C, H, W] as [N, H, W, C].
std::vector<float> with_channels_last(const std::vector<float> &values, const Ints &dims) {
  std::vector<float> result(values.size());
  size_t at = 0;
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t pixel = 0; pixel < dims[2] * dims[3]; ++pixel)
      for (int64_t c = 0; c < dims[1]; ++c)
        result[at++] = values[static_cast<size_t>((n * dims[1] + c) * dims[2] * dims[3] + pixel)];
  return result;
}

TEST(Convolution, TakesImagesWithChannelsLast) {
  for (Problem p : kProblems)
    for (const char *kind : {"forward", "input_gradient", "weight_gradient"}) {
      LibraryCall row_major = p.call(kind);
      Values values = random_operands(row_major);
      std::vector<double> sums, sizes;
      expected(p, kind, values, sums, sizes);
      size_t weight_at = std::string(kind) == "weight_gradient" ? 2 : 1;
      Values last = values;
      for (size_t i = 0; i < 2; ++i)
        if (i != weight_at)
          last[i] = with_channels_last(values[i], row_major.operands[i].dims);
      p.channels_last = true;
      LibraryCall call = p.call(kind);
      Values again = last;
      ASSERT_TRUE(run(call, last, 1).ok()) << kind;
      auto bring = [&](const std::vector<double> &numbers) {
        std::vector<float> floats(numbers.begin(), numbers.end());
        return weight_at == 2 ? floats : with_channels_last(floats, row_major.operands[2].dims);
      };
      std::vector<float> sum = bring(sums), size = bring(sizes);
      for (size_t i = 0; i < sum.size(); ++i)
        ASSERT_NEAR(last[2][i], sum[i], 1e-5 * size[i] + 1e-30) << kind << " element " << i;
      ASSERT_TRUE(run(call, again, 2).ok()) << kind;
      EXPECT_EQ(again[2], last[2]) << kind << ": two threads give other bits than one";
      p.channels_last = false;
    }
}

// Few images with channels last: the parts are rows of the result, whose windows may end before the
// image does, or step over some of it. Where rows read nothing but padding there is one part.
TEST(Convolution, PartsOfFewImagesAreRows) {
  auto four = [](const Ints &dims) {
    return std::array<int64_t, 4>{dims[0], dims[1], dims[2], dims[3]};
  };
  for (const Problem &p : {Problem{{1, 3, 60, 61}, {64, 3, 11, 11}, 4, 2},
                           {{2, 3, 63, 40}, {32, 3, 7, 7}, 3, 3},
                           {{1, 8, 40, 40}, {40, 8, 5, 5}, 1, 2, 2},
                           {{1, 4, 20, 30}, {60, 4, 3, 3}, 1, 9, 1},
                           {{1, 30, 99, 105}, {31, 30, 2, 2}, 5, 0}}) {
    LibraryCall row_major = p.call("forward");
    Values values = random_operands(row_major);
    std::vector<double> sums, sizes;
    expected(p, "forward", values, sums, sizes);
    values[0] = with_channels_last(values[0], p.image);
    std::vector<float> wanted =
        with_channels_last(std::vector<float>(sums.begin(), sums.end()), p.result());
    ConvolutionProblem problem;
    problem.image = four(p.image), problem.weight = four(p.weight);
    problem.result = four(p.result());
    problem.strides = {p.stride, p.stride}, problem.padding = {p.padding, p.padding};
    problem.dilation = {p.dilation, p.dilation};
    problem.channels_last = true;
    std::vector<std::vector<float>> results;
    for (int threads : {1, 2, 3}) {
      auto state = convolution_in_parts(problem, threads);
      ASSERT_TRUE(state.ok()) << state.status();
      std::vector<char> scratch(static_cast<size_t>((*state)->scratch_bytes()) + 64);
      void *aligned =
          reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
      std::vector<float> &result = results.emplace_back(wanted.size(), -7);
      std::vector<void *> operands = {values[0].data(), values[1].data(), result.data()};
      ASSERT_TRUE((*state)->run(operands, aligned).ok());
      EXPECT_EQ(result, results[0]) << threads << " threads";
    }
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(results[0][i], wanted[i], 1e-4) << p.weight[2] << " taps, element " << i;
  }
}

// The kernel of ours: channels that fill no vector, windows that reach into the padding on both
// sides, images smaller than a window, tiles and parts with a rest.
TEST(Convolution, WeightGradientsOfDepthwiseConvolutions) {
  for (Problem p : {Problem{{3, 72, 28, 28}, {72, 1, 5, 5}, 2, 2, 1, 72, true},
                    {{2, 20, 14, 9}, {20, 1, 5, 5}, 1, 2, 1, 20, true},
                    {{16, 96, 7, 7}, {96, 1, 5, 5}, 1, 2, 1, 96, true},
                    {{1, 37, 12, 31}, {37, 1, 7, 7}, 3, 3, 1, 37, true},
                    {{2, 19, 11, 11}, {19, 1, 3, 5}, 1, 0, 2, 19, true},
                    {{1, 16, 3, 2}, {16, 1, 5, 5}, 1, 4, 1, 16, true},
                    {{2, 24, 40, 4}, {24, 1, 1, 7}, 1, 3, 1, 24, true},
                    {{1, 1100, 5, 5}, {1100, 1, 5, 5}, 2, 3, 1, 1100, true},
                    {{2, 130, 13, 13}, {130, 1, 3, 3}, 1, 1, 1, 130, true},
                    {{3, 24, 1, 1}, {24, 1, 5, 5}, 1, 2, 1, 24, true},
                    {{2, 5, 9, 9}, {5, 1, 5, 5}, 1, 2, 1, 5, true},
                    {{1, 1, 12, 12}, {1, 1, 5, 5}, 1, 2, 1, 1, true},
                    {{40, 12, 6, 6}, {12, 1, 5, 5}, 1, 2, 1, 12, true}}) {
    Problem row_major = p;
    row_major.channels_last = false;
    LibraryCall plain = row_major.call("weight_gradient");
    Values values = random_operands(plain);
    std::vector<double> sums, sizes;
    expected(p, "weight_gradient", values, sums, sizes);
    for (bool channels_last : {false, true}) {
      if (channels_last)
        for (size_t i = 0; i < 2; ++i)
          values[i] = with_channels_last(values[i], plain.operands[i].dims);
      LibraryCall call = channels_last ? p.call("weight_gradient") : plain;
      Values one = values;
      ASSERT_TRUE(run(call, one, 1).ok());
      for (size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(one[2][i], sums[i], 1e-6 * sizes[i] + 1e-30) << p.image[1] << " element " << i;
      for (int threads : {2, 5}) {
        Values more = values;
        ASSERT_TRUE(run(call, more, threads).ok());
        EXPECT_EQ(more[2], one[2]) << threads << " threads";
      }
    }
  }
}

// Where the config allows it (winograd_gradient_test.cpp).
TEST(Convolution, WeightGradientsByWinogradsAlgorithm) {
  Problem p{{2, 64, 28, 28}, {64, 64, 3, 3}, 1, 1, 1, 1, true};
  LibraryCall plain = p.call("weight_gradient"),
              winograd = p.call("weight_gradient", {{"winograd", std::string("changing")}});
  EXPECT_EQ(convolution_implementation(winograd, 2).value(), "winograd of tiles of 4x4");
  EXPECT_FALSE(convolution_implementation(plain, 2).value().starts_with("winograd"));
  Values sums = random_operands(plain), values = sums;
  ASSERT_TRUE(run(plain, sums, 2).ok());
  ASSERT_TRUE(run(winograd, values, 2).ok());
  EXPECT_NE(values[2], sums[2]);
  for (size_t i = 0; i < sums[2].size(); ++i)
    ASSERT_NEAR(values[2][i], sums[2][i], 1e-3) << i;
}

// Scratch of a call is what its threads work in, not what its parts would: no call takes more than
// the images that it reads.
TEST(Convolution, WeightGradientsTakeLittleScratch) {
  for (const Problem &p : {Problem{{16, 480, 14, 14}, {480, 1, 5, 5}, 1, 2, 1, 480, true},
                           {{16, 1152, 7, 7}, {1152, 1, 3, 3}, 1, 1, 1, 1152, true}}) {
    auto state = convolution_entry().init(p.call("weight_gradient"), 2);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_LT((*state)->scratch_bytes(), 4 * elements(p.image));
  }
}

// Of a network's shapes: images are used where they lie.
// But for forward ones of many channels on machines without AVX-512, where blocks are faster by
// more than the copies take.
TEST(Convolution, ImagesWithChannelsLastAreNotCopied) {
  for (const Problem &p : {Problem{{2, 64, 28, 28}, {64, 64, 3, 3}, 1, 1, 1, 1, true},
                           {{2, 64, 28, 28}, {128, 64, 3, 3}, 2, 1, 1, 1, true},
                           {{2, 64, 28, 28}, {32, 64, 1, 1}, 1, 0, 1, 1, true},
                           {{2, 96, 28, 28}, {96, 1, 3, 3}, 1, 1, 1, 96, true}})
    for (const char *kind : {"forward", "input_gradient"}) {
      std::string text = convolution_implementation(p.call(kind), 2).value();
      if (text.ends_with("jit:avx2") && kind == std::string("forward") && p.weight[2] > 1) {
        EXPECT_EQ(text, "3 reorders, jit:avx2");
        continue;
      }
      // The weight alone.
      EXPECT_TRUE(text.starts_with("0 reorders") || text.starts_with("1 reorders"))
          << kind << " " << text;
    }
}

TEST(Convolution, AddsTheBias) {
  Problem p{{2, 8, 9, 9}, {16, 8, 3, 3}, 1, 1};
  LibraryCall call = p.call("forward", {{"bias", int64_t{1}}});
  call.operands.insert(call.operands.begin() + 2, tensor({16, 1, 1}));
  Values values = random_operands(call), plain = {values[0], values[1], values[3]};
  ASSERT_TRUE(run(call, values, 2).ok());
  ASSERT_TRUE(run(p.call("forward"), plain, 2).ok());
  for (size_t i = 0; i < plain[2].size(); ++i)
    ASSERT_NEAR(values[3][i], plain[2][i] + values[2][i / 81 % 16], 1e-5);
}

TEST(Convolution, KeepsNaN) {
  Problem p{{1, 8, 9, 9}, {16, 8, 3, 3}, 1, 1};
  LibraryCall call = p.call("forward");
  Values values = random_operands(call);
  values[0][0] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(run(call, values, 1).ok());
  for (size_t o = 0; o < 16; ++o) {
    EXPECT_TRUE(std::isnan(values[2][o * 81]));
    EXPECT_FALSE(std::isnan(values[2][o * 81 + 80]));
  }
}

// Whoever computes the convolution: the bits are those of max(x, 0) behind it, NaN kept.
TEST(Convolution, ReluKeepsNan) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  struct Case {
    Problem problem;
    Config more = {};
  };
  for (const Case &c : {
           Case{{{2, 24, 14, 14}, {58, 24, 1, 1}}},
           Case{{{2, 20, 14, 14}, {20, 1, 3, 3}, 1, 1, 1, 20}},
           Case{{{2, 64, 28, 28}, {64, 64, 3, 3}, 1, 1, 1, 1, true},
                {{"winograd", std::string("stable")}}},
           // The library's.
           Case{{{2, 16, 14, 14}, {24, 16, 3, 3}, 2, 1}},
           Case{{{1, 3, 64, 64}, {64, 3, 7, 7}, 2, 3, 1, 1, true}},
           Case{{{2, 64, 28, 28}, {64, 64, 3, 3}, 1, 1, 1, 1, true}},
           Case{{{2, 19, 15, 13}, {37, 19, 3, 3}, 1, 1, 1, 1, true}},
           Case{{{1, 24, 14, 14}, {144, 24, 1, 1}, 1, 0, 1, 1, true}},
           Case{{{2, 128, 7, 7}, {256, 128, 1, 1}, 2, 0, 1, 1, true}},
           Case{{{2, 32, 14, 14}, {32, 1, 3, 3}, 2, 1, 1, 32, true}},
           Case{{{2, 36, 14, 14}, {36, 1, 5, 5}, 1, 2, 1, 36, true}},
           Case{{{2, 32, 14, 14}, {64, 8, 3, 3}, 1, 1, 1, 4, true}},
           Case{{{1, 16, 9, 9}, {16, 16, 5, 5}, 1, 4, 2, 1, true}},
       })
    for (const std::string &post_ops : {"relu", "relu6"})
      for (bool has_nan : {false, true}) {
        Config with_relu = c.more;
        with_relu.emplace_back("post_ops", post_ops);
        LibraryCall plain = c.problem.call("forward", c.more),
                    call = c.problem.call("forward", with_relu);
        Values values = random_operands(plain);
        for (float &pixel : values[0])
          pixel *= 4; // so that results are beyond 6
        if (has_nan) {
          values[0][5] = kNaN;
          values[0][99] = -kInfinity;
        }
        Values with = values;
        ASSERT_TRUE(run(plain, values, 1).ok());
        int64_t nans = 0, zeros = 0, sixes = 0;
        for (float &value : values[2]) {
          value = value <= 0 ? 0 : value;
          value = post_ops == "relu6" && value >= 6 ? 6 : value;
          nans += std::isnan(value);
          zeros += value == 0;
          sixes += value == 6;
        }
        EXPECT_EQ(nans > 0, has_nan);
        EXPECT_GT(zeros, 0);
        EXPECT_EQ(sixes > 0, post_ops == "relu6");
        for (int threads : {1, 2}) {
          ASSERT_TRUE(run(call, with, threads).ok());
          ASSERT_EQ(std::memcmp(with[2].data(), values[2].data(), values[2].size() * sizeof(float)),
                    0)
              << c.problem.image[1] << " channels, " << post_ops << ", " << threads << " threads";
        }
      }
}

// The first run that meets a NaN computes anew, and so do more of them; between them others do not.
TEST(Convolution, ReluKeepsNanInEachRun) {
  Problem p{{1, 32, 16, 16}, {32, 32, 3, 3}, 2, 1, 1, 1, true};
  for (int threads : {1, 2}) {
    LibraryCall call = p.call("forward", {{"post_ops", std::string("relu")}});
    Values finite = random_operands(call), of_nan = finite;
    of_nan[0][0] = std::numeric_limits<float>::quiet_NaN();
    auto state = convolution_entry().init(call, threads);
    ASSERT_TRUE(state.ok()) << state.status();
    std::vector<char> room(static_cast<size_t>((*state)->scratch_bytes()) + 64);
    auto at = reinterpret_cast<uintptr_t>(room.data());
    auto nans = [&](Values &values) {
      void *operands[] = {values[0].data(), values[1].data(), values[2].data()};
      EXPECT_TRUE((*state)->run(operands, reinterpret_cast<void *>((at + 63) / 64 * 64)).ok());
      return std::ranges::count_if(values[2], [](float x) { return std::isnan(x); });
    };
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(nans(finite), 0);
      EXPECT_EQ(nans(of_nan), 32); // of one pixel
    }
  }
}

// Ones times ones: each element is the number of its products.
TEST(Convolution, IsMadeByThreadsAtTheSameTime) {
  constexpr int kMade = 100;
  constexpr int64_t kChannels = 19;
  struct Made {
    LibraryCall call;
    std::unique_ptr<runtime::LibraryCallState> state;
  };
  auto make = [](DType dtype, std::vector<Made> &made) {
    for (int64_t i = 0; i < kMade; ++i) {
      Problem p{{1, kChannels, 4, 7 + i}, {16, kChannels, 3, 3}, 1, 1};
      p.channels_last = true;
      LibraryCall call = p.call("forward");
      for (TensorRef &operand : call.operands)
        operand.dtype = dtype;
      auto state = convolution_entry().init(call, 1);
      ASSERT_TRUE(state.ok()) << state.status();
      made.push_back({call, *std::move(state)});
    }
  };
  std::vector<Made> made[2];
  std::thread narrow([&] { make(DType::kBFloat16, made[1]); });
  make(DType::kFloat32, made[0]);
  narrow.join();
  for (bool is_narrow : {false, true})
    for (auto &[call, state] : made[is_narrow]) {
      std::vector<std::vector<char>> operands;
      for (const TensorRef &operand : call.operands)
        for (int64_t k = operands.emplace_back().size(); k < elements(operand.dims); ++k) {
          uint32_t one = 0x3f800000;
          const char *bytes = reinterpret_cast<const char *>(&one);
          operands.back().insert(operands.back().end(), bytes + (is_narrow ? 2 : 0), bytes + 4);
        }
      void *pointers[] = {operands[0].data(), operands[1].data(), operands[2].data()};
      std::vector<char> scratch(static_cast<size_t>(state->scratch_bytes()) + 64);
      char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
      ASSERT_TRUE(state->run(pointers, aligned).ok());
      const Ints &dims = call.operands[2].dims; // n, y, x, channel
      int wrong = 0;
      for (int64_t k = 0; k < elements(dims); ++k) {
        int64_t x = k / dims[3] % dims[2], y = k / dims[3] / dims[2];
        double expected =
            kChannels * (3 - (x == 0) - (x == dims[2] - 1)) * (3 - (y == 0) - (y == dims[1] - 1));
        uint32_t bits = 0;
        int width = is_narrow ? 2 : 4;
        std::memcpy(reinterpret_cast<char *>(&bits) + 4 - width, operands[2].data() + k * width,
                    static_cast<size_t>(width));
        wrong += std::bit_cast<float>(bits) != expected;
      }
      EXPECT_EQ(wrong, 0) << (is_narrow ? "bf16" : "f32") << " of width " << dims[2];
    }
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  auto message = [](const LibraryCall &call) {
    return std::string(convolution_entry().init(call, 1).status().message());
  };
  Problem p{{2, 8, 9, 9}, {16, 8, 3, 3}, 1, 1};
  LibraryCall call = p.call("forward");
  call.operands[2] = tensor({2, 16, 8, 9});
  EXPECT_NE(message(call).find("not those of a convolution"), std::string::npos) << message(call);
  EXPECT_NE(message(p.call("sideways")).find("kind"), std::string::npos);
  EXPECT_NE(message(p.call("forward", {{"post_ops", std::string("tanh")}})).find("post_ops"),
            std::string::npos);
  call = p.call("forward");
  call.operands[0].strides[3] = 2;
  EXPECT_NE(message(call).find("row-major"), std::string::npos);
  call = p.call("forward");
  call.operands.pop_back();
  EXPECT_NE(message(call).find("operands"), std::string::npos);
  constexpr int64_t kFar = int64_t(1) << 32;
  ConvolutionProblem far{
      ConvolutionKind::kForward, {kFar, 8, 9, 9}, {16, 8, 3, 3}, {kFar, 16, 7, 7}};
  absl::Status status = OnednnConvolution::create(far, 1, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("at most 1073741824 pixels"), std::string::npos) << status;
}

TEST(Convolution, APackedWeightGivesTheSameBits) {
  int packed_calls = 0;
  for (const Problem &problem : {Problem{{1, 64, 14, 14}, {64, 64, 3, 3}, 1, 1},
                                 {{2, 24, 9, 9}, {40, 24, 3, 3}, 2, 1},
                                 {{1, 3, 32, 32}, {64, 3, 7, 7}, 2, 3},
                                 {{1, 192, 7, 7}, {192, 1, 8, 8}, 1, 4, 1, 192},
                                 {{1, 72, 14, 14}, {24, 72, 1, 1}, 1, 0, 1, 1, true},
                                 {{1, 72, 14, 14}, {72, 1, 5, 5}, 1, 2, 1, 72, true}}) {
    // A call with a ReLU is computed anew, with a plain weight.
    Config relu = {{"post_ops", std::string("relu")}};
    for (bool meets_nan : {false, true}) {
      LibraryCall call = problem.call("forward", meets_nan ? relu : Config());
      EXPECT_EQ(*convolution_entry().init_packed(call, {true, false, false}, 1), nullptr)
          << "the weight is not stable";
      for (int threads : {1, 2}) {
        Values plain = random_operands(call);
        if (meets_nan)
          plain[0][3] = std::numeric_limits<float>::quiet_NaN();
        Values packed = plain;
        ASSERT_TRUE(run(call, plain, threads).ok());
        auto state = convolution_entry().init_packed(call, {false, true, false}, threads);
        ASSERT_TRUE(state.ok()) << state.status();
        if (!*state)
          continue; // the library takes it as it is
        ++packed_calls;
        EXPECT_EQ((*state)->operand(), 1);
        auto aligned = [](std::vector<char> &memory) {
          return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
        };
        std::vector<char> form(static_cast<size_t>((*state)->packed_bytes() + 64)),
            scratch(static_cast<size_t>((*state)->scratch_bytes() + 64));
        ASSERT_TRUE((*state)->pack(packed[1].data(), aligned(form)).ok());
        std::vector<void *> pointers;
        for (std::vector<float> &values : packed)
          pointers.push_back(values.data());
        pointers[1] = aligned(form);
        ASSERT_TRUE((*state)->run(pointers, aligned(scratch)).ok());
        EXPECT_EQ(std::memcmp(packed.back().data(), plain.back().data(),
                              plain.back().size() * sizeof(float)),
                  0)
            << threads << " threads";
        EXPECT_EQ(std::ranges::any_of(packed.back(), [](float x) { return std::isnan(x); }),
                  meets_nan);
      }
    }
  }
  EXPECT_GE(packed_calls, 8);
}

TEST(Convolution, WhatDoesNotPayIsNotPacked) {
  auto packed = [](const Problem &problem, const char *kind) {
    return *convolution_entry().init_packed(problem.call(kind), {true, true, true}, 1) != nullptr;
  };
  EXPECT_TRUE(packed({{1, 64, 32, 32}, {64, 64, 3, 3}, 1, 1}, "forward"));
  EXPECT_FALSE(packed({{2, 64, 32, 32}, {64, 64, 3, 3}, 1, 1}, "forward")) << "many pixels";
  EXPECT_TRUE(packed({{1, 16, 8, 8}, {16, 16, 3, 3}, 1, 1}, "forward"));
  EXPECT_FALSE(packed({{1, 3, 8, 8}, {16, 3, 3, 3}, 1, 1}, "forward")) << "a small weight";
  EXPECT_FALSE(packed({{1, 64, 8, 8}, {64, 64, 3, 3}, 1, 1}, "input_gradient"));
}

TEST(Convolution, IsRegistered) {
  EXPECT_EQ(find_library_entry("onednn.convolution"), &convolution_entry());
}

} // namespace
} // namespace weft::backends::cpu

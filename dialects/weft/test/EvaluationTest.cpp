// Reference evaluation against values worked out by hand: what the rest of the project is compared
// to must itself be right.
#include <cmath>
#include <limits>

#include "dialects/weft/reference/Philox.h"
#include "dialects/weft/test/DialectFixture.h"
#include "runtime/core/float16.h"
#include "llvm/ADT/APFloat.h"

namespace weft::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();
using Numbers = std::vector<double>;

class EvaluationTest : public DialectFixture {
protected:
  Numbers one(llvm::StringRef op, std::vector<HostTensor> inputs, llvm::StringRef type) {
    std::vector<HostTensor> results = evaluateOp(op, std::move(inputs), type);
    EXPECT_EQ(results.size(), 1u) << messages;
    return results.empty() ? Numbers() : numbers(results[0]);
  }
  static void expectNear(const Numbers &actual, const Numbers &expected, double tolerance = 1e-6) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
  }
};

// At each 16-bit float, at the ties between them, and at what is next to a tie in float64 alone.
TEST(Float16, DoublesAreRoundedOnce) {
  auto rounded = [](double value, const llvm::fltSemantics &semantics) {
    llvm::APFloat number(value);
    bool lost;
    number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
    return static_cast<uint16_t>(number.bitcastToAPInt().getZExtValue());
  };
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    for (auto to_float : {bfloat16_to_float, float16_to_float}) {
      double value = to_float(static_cast<uint16_t>(bits)),
             next = to_float(static_cast<uint16_t>(bits + 1)), tie = value + (next - value) / 2;
      for (double x : {value, tie, std::nextafter(tie, -kInf), std::nextafter(tie, kInf)}) {
        ASSERT_EQ(double_to_bfloat16(x), rounded(x, llvm::APFloat::BFloat())) << x;
        ASSERT_EQ(double_to_float16(x), rounded(x, llvm::APFloat::IEEEhalf())) << x;
      }
    }
}

TEST_F(EvaluationTest, IntegersWrapAndDivideWithoutTraps) {
  HostTensor least = tensor(DType::kInt32, {4}, {-2147483648.0, 7, -7, 5}),
             divisor = tensor(DType::kInt32, {4}, {-1, 2, 2, 0});
  EXPECT_EQ(one("weft.div %0, %1 : tensor<4xi32>", {least, divisor}, "tensor<4xi32>"),
            (Numbers{-2147483648.0, 3, -3, 0}));
  EXPECT_EQ(one("weft.neg %0 : tensor<4xi32>", {least}, "tensor<4xi32>"),
            (Numbers{-2147483648.0, -7, 7, -5}));
  EXPECT_EQ(one("weft.abs %0 : tensor<4xi32>", {least}, "tensor<4xi32>"),
            (Numbers{-2147483648.0, 7, 7, 5}));
  EXPECT_EQ(one("weft.sub %0, %1 : tensor<4xi32>",
                {least, tensor(DType::kInt32, {4}, {1, 1, 1, 1})}, "tensor<4xi32>")[0],
            2147483647.0);
  HostTensor leastLong(DType::kInt64, {1}), minusOne(DType::kInt64, {1});
  leastLong.setInt(0, INT64_MIN);
  minusOne.setInt(0, -1);
  EXPECT_EQ(evaluateOp("weft.div %0, %1 : tensor<1xi64>", {leastLong, minusOne}, "tensor<1xi64>")
                .at(0)
                .getInt(0),
            INT64_MIN);
  EXPECT_EQ(evaluateOp("weft.mul %0, %1 : tensor<1xi64>", {leastLong, minusOne}, "tensor<1xi64>")
                .at(0)
                .getInt(0),
            INT64_MIN);
}

TEST_F(EvaluationTest, MinimumAndMaximumOrderZerosAndKeepNaN) {
  HostTensor x = floats({4}, {0.0, -0.0, kNan, 1}), y = floats({4}, {-0.0, 0.0, 1, kNan});
  Numbers least = one("weft.minimum %0, %1 : tensor<4xf32>", {x, y}, "tensor<4xf32>");
  EXPECT_TRUE(std::signbit(least[0]) && std::signbit(least[1]));
  EXPECT_TRUE(std::isnan(least[2]) && std::isnan(least[3]));
  Numbers largest = one("weft.maximum %0, %1 : tensor<4xf32>", {x, y}, "tensor<4xf32>");
  EXPECT_FALSE(std::signbit(largest[0]) || std::signbit(largest[1]));
  EXPECT_TRUE(std::isnan(largest[2]) && std::isnan(largest[3]));
}

TEST_F(EvaluationTest, ReluKeepsNaNAndDropsMinusZero) {
  Numbers y =
      one("weft.relu %0 : tensor<4xf32>", {floats({4}, {kNan, -0.0, -3, 2})}, "tensor<4xf32>");
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_FALSE(std::signbit(y[1]));
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 2);
}

TEST_F(EvaluationTest, GeluIsAccurateInTheTail) {
  // x * Phi(x): Phi(-5) = 2.866515718791939e-7, Phi(-10) = 7.619853024160526e-24.
  HostTensor x = tensor(DType::kFloat64, {3}, {1, -5, -10});
  Numbers y = one("weft.gelu %0 : tensor<3xf64>", {x}, "tensor<3xf64>");
  EXPECT_NEAR(y[0], 0.8413447460685429, 1e-15);
  EXPECT_NEAR(y[1] / (-5 * 2.866515718791939e-7), 1, 1e-12);
  EXPECT_NEAR(y[2] / (-10 * 7.619853024160526e-24), 1, 1e-12);
  // PyTorch's gelu(1, approximate="tanh").
  EXPECT_NEAR(one("weft.gelu %0 {tanh_approximation = true} : tensor<1xf64>",
                  {tensor(DType::kFloat64, {1}, {1})}, "tensor<1xf64>")[0],
              0.8411919906082768, 1e-15);
}

TEST_F(EvaluationTest, ComparisonsOfNaN) {
  HostTensor x = floats({2}, {kNan, 1}), y = floats({2}, {kNan, 1});
  EXPECT_EQ(one("weft.compare eq %0, %1 : tensor<2xf32>", {x, y}, "tensor<2xi1>"), (Numbers{0, 1}));
  EXPECT_EQ(one("weft.compare ne %0, %1 : tensor<2xf32>", {x, y}, "tensor<2xi1>"), (Numbers{1, 0}));
  EXPECT_EQ(one("weft.compare le %0, %1 : tensor<2xf32>", {x, y}, "tensor<2xi1>"), (Numbers{0, 1}));
  EXPECT_EQ(one("weft.compare lt %0, %1 : tensor<2xi1>",
                {tensor(DType::kBool, {2}, {0, 1}), tensor(DType::kBool, {2}, {1, 1})},
                "tensor<2xi1>"),
            (Numbers{1, 0}));
}

TEST_F(EvaluationTest, CastsSaturateRoundAndWrap) {
  HostTensor x = floats({6}, {kNan, kInf, -kInf, 3e9, -2.7, 2.7});
  EXPECT_EQ(one("weft.cast %0 : tensor<6xf32> to tensor<6xi32>", {x}, "tensor<6xi32>"),
            (Numbers{0, 2147483647, -2147483648.0, 2147483647, -2, 2}));
  EXPECT_EQ(one("weft.cast %0 : tensor<6xf32> to tensor<6xi8>", {x}, "tensor<6xi8>"),
            (Numbers{0, 127, -128, 127, -2, 2}));
  EXPECT_EQ(one("weft.cast %0 : tensor<6xf32> to tensor<6xui8>", {x}, "tensor<6xui8>"),
            (Numbers{0, 255, 0, 255, 0, 2}));
  EXPECT_EQ(one("weft.cast %0 : tensor<6xf32> to tensor<6xi1>", {x}, "tensor<6xi1>"),
            (Numbers{1, 1, 1, 1, 1, 1}));
  std::vector<HostTensor> wide =
      evaluateOp("weft.cast %0 : tensor<6xf32> to tensor<6xi64>", {x}, "tensor<6xi64>");
  EXPECT_EQ(wide.at(0).getInt(1), INT64_MAX);
  EXPECT_EQ(wide.at(0).getInt(2), INT64_MIN);
  EXPECT_EQ(one("weft.cast %0 : tensor<2xi64> to tensor<2xi32>", {longs({2}, {4294967297.0, -1})},
                "tensor<2xi32>"),
            (Numbers{1, -1}));
  // 2^24 + 1 lies half way between two floats: to even.
  EXPECT_EQ(one("weft.cast %0 : tensor<2xi64> to tensor<2xf32>", {longs({2}, {16777217, 16777219})},
                "tensor<2xf32>"),
            (Numbers{16777216, 16777220}));
  EXPECT_EQ(one("weft.cast %0 : tensor<2xf32> to tensor<2xbf16>",
                {floats({2}, {1.00390625, 1.01171875})}, "tensor<2xbf16>"),
            (Numbers{1, 1.015625}));
}

TEST_F(EvaluationTest, Movement) {
  HostTensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(one("weft.transpose %0, [1, 0] : tensor<2x3xf32>", {x}, "tensor<3x2xf32>"),
            (Numbers{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(one("weft.reshape %0 : tensor<2x3xf32> to tensor<3x2xf32>", {x}, "tensor<3x2xf32>"),
            (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(one("weft.broadcast %0 : tensor<2x1xf32> to tensor<2x2x3xf32>",
                {floats({2, 1}, {7, 8})}, "tensor<2x2x3xf32>"),
            (Numbers{7, 7, 7, 8, 8, 8, 7, 7, 7, 8, 8, 8}));
  EXPECT_EQ(
      one("weft.slice %0 [[0, 2] : [2, -1] : [1, -2]] : tensor<2x3xf32>", {x}, "tensor<2x2xf32>"),
      (Numbers{2, 0, 5, 3}));
  EXPECT_EQ(
      one("weft.insert_slice %1 into %0 [[1, 0] : [1, 2]] : tensor<1x2xf32> into tensor<2x3xf32>",
          {x, floats({1, 2}, {-1, -2})}, "tensor<2x3xf32>"),
      (Numbers{0, 1, 2, -1, 4, -2}));
  EXPECT_EQ(one("weft.concat %0, %1 dim = 1 : tensor<2x3xf32>, tensor<2x1xf32>",
                {x, floats({2, 1}, {8, 9})}, "tensor<2x4xf32>"),
            (Numbers{0, 1, 2, 8, 3, 4, 5, 9}));
  EXPECT_EQ(one("weft.iota {dim = 1 : i64} : tensor<2x3xi64>", {}, "tensor<2x3xi64>"),
            (Numbers{0, 1, 2, 0, 1, 2}));
}

TEST_F(EvaluationTest, ReductionsAndTheirEmptyForms) {
  HostTensor x = floats({2, 3}, {1, 5, 2, kNan, 4, 3}), none(DType::kFloat32, {2, 0});
  EXPECT_EQ(one("weft.reduce_sum %0, dims = [0] : tensor<2x3xf32>",
                {floats({2, 3}, {1, 2, 3, 4, 5, 6})}, "tensor<3xf32>"),
            (Numbers{5, 7, 9}));
  EXPECT_EQ(one("weft.reduce_sum %0, dims = [0, 1] : tensor<2x3xf32>",
                {floats({2, 3}, {1, 2, 3, 4, 5, 6})}, "tensor<f32>"),
            (Numbers{21}));
  Numbers largest = one("weft.reduce_max %0, dims = [1] : tensor<2x3xf32>", {x}, "tensor<2xf32>");
  EXPECT_EQ(largest[0], 5);
  EXPECT_TRUE(std::isnan(largest[1]));
  EXPECT_EQ(one("weft.reduce_sum %0, dims = [1] : tensor<2x0xf32>", {none}, "tensor<2xf32>"),
            (Numbers{0, 0}));
  EXPECT_EQ(one("weft.reduce_max %0, dims = [1] : tensor<2x0xf32>", {none}, "tensor<2xf32>"),
            (Numbers{-kInf, -kInf}));
  EXPECT_TRUE(std::isnan(
      one("weft.reduce_mean %0, dims = [1] : tensor<2x0xf32>", {none}, "tensor<2xf32>")[0]));
  EXPECT_EQ(one("weft.reduce_max %0, dims = [0] : tensor<0xi32>", {HostTensor(DType::kInt32, {0})},
                "tensor<i32>"),
            (Numbers{-2147483648.0}));
  // In float64 the large terms cancel and the small one stays; in float32 it would be lost.
  EXPECT_EQ(one("weft.reduce_sum %0, dims = [0] : tensor<3xf32>", {floats({3}, {1e8, 1, -1e8})},
                "tensor<f32>"),
            (Numbers{1}));
}

TEST_F(EvaluationTest, MatmulReadsEitherSideTransposedAndBroadcasts) {
  HostTensor a = floats({2, 3}, {1, 2, 3, 4, 5, 6}), b = floats({3, 2}, {7, 8, 9, 10, 11, 12});
  HostTensor at = floats({3, 2}, {1, 4, 2, 5, 3, 6}), bt = floats({2, 3}, {7, 9, 11, 8, 10, 12});
  Numbers product{58, 64, 139, 154};
  EXPECT_EQ(one("weft.matmul %0, %1 : tensor<2x3xf32>, tensor<3x2xf32>", {a, b}, "tensor<2x2xf32>"),
            product);
  EXPECT_EQ(one("weft.matmul %0, %1 {transpose_lhs = true} : tensor<3x2xf32>, tensor<3x2xf32>",
                {at, b}, "tensor<2x2xf32>"),
            product);
  EXPECT_EQ(one("weft.matmul %0, %1 {transpose_rhs = true} : tensor<2x3xf32>, tensor<2x3xf32>",
                {a, bt}, "tensor<2x2xf32>"),
            product);
  EXPECT_EQ(one("weft.matmul %0, %1 {transpose_lhs = true, transpose_rhs = true} : "
                "tensor<3x2xf32>, tensor<2x3xf32>",
                {at, bt}, "tensor<2x2xf32>"),
            product);
  // [2, 1, 1, 2] x [3, 2, 1] broadcasts to [2, 3, 1, 1].
  EXPECT_EQ(one("weft.matmul %0, %1 : tensor<2x1x1x2xf32>, tensor<3x2x1xf32>",
                {floats({2, 1, 1, 2}, {1, 2, 3, 4}), floats({3, 2, 1}, {1, 0, 0, 1, 1, 1})},
                "tensor<2x3x1x1xf32>"),
            (Numbers{1, 2, 3, 3, 4, 7}));
  EXPECT_EQ(one("weft.matmul %0, %1 : tensor<2x0xf32>, tensor<0x2xf32>",
                {HostTensor(DType::kFloat32, {2, 0}), HostTensor(DType::kFloat32, {0, 2})},
                "tensor<2x2xf32>"),
            (Numbers{0, 0, 0, 0}));
}

TEST_F(EvaluationTest, Indexing) {
  HostTensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(one("weft.index_select %0, %1, dim = 0 : tensor<3x2xf32>, tensor<2x1xi64>",
                {x, longs({2, 1}, {-1, 0})}, "tensor<2x1x2xf32>"),
            (Numbers{5, 6, 1, 2}));
  EXPECT_EQ(
      one("weft.index_add %0, %1, %2, dim = 1 : tensor<3x2xf32>, tensor<3xi64>, tensor<3x3xf32>",
          {x, longs({3}, {0, 0, -1}), floats({3, 3}, {1, 10, 100, 1, 10, 100, 1, 10, 100})},
          "tensor<3x2xf32>"),
      (Numbers{12, 102, 14, 104, 16, 106}));
  EXPECT_EQ(one("weft.gather %0, %1, dim = 0 : tensor<3x2xf32>, tensor<1x2xi64>",
                {x, longs({1, 2}, {2, 1})}, "tensor<1x2xf32>"),
            (Numbers{5, 4}));
  EXPECT_EQ(one("weft.scatter_add %0, %1, %2, dim = 0 : tensor<3x2xf32>, tensor<2x2xi64>, "
                "tensor<2x2xf32>",
                {x, longs({2, 2}, {0, -1, 0, 2}), floats({2, 2}, {10, 20, 30, 40})},
                "tensor<3x2xf32>"),
            (Numbers{41, 2, 3, 4, 5, 66}));
  EXPECT_EQ(one("weft.scatter %0, %1, %2, dim = 0 : tensor<3x2xf32>, tensor<2x2xi64>, "
                "tensor<2x2xf32>",
                {x, longs({2, 2}, {0, -1, 0, 2}), floats({2, 2}, {10, 20, 30, 40})},
                "tensor<3x2xf32>"),
            (Numbers{30, 2, 3, 4, 5, 40}));
  HostTensor places = longs({2, 2}, {0, -1, 0, 2}), updates = floats({2, 2}, {10, 2, 0.5, 4});
  auto reduced = [&](const std::string &combiner) {
    return one("weft.scatter_reduce " + combiner +
                   " %0, %1, %2, dim = 0 : tensor<3x2xf32>, tensor<2x2xi64>, tensor<2x2xf32>",
               {x, places, updates}, "tensor<3x2xf32>");
  };
  EXPECT_EQ(reduced("prod"), (Numbers{5, 2, 3, 4, 5, 48}));
  EXPECT_EQ(reduced("max"), (Numbers{10, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reduced("min"), (Numbers{0.5, 2, 3, 4, 5, 2}));
  EXPECT_TRUE(evaluateOp("weft.gather %0, %1, dim = 0 : tensor<3x2xf32>, tensor<1x2xi64>",
                         {x, longs({1, 2}, {0, 3})}, "tensor<1x2xf32>")
                  .empty());
  EXPECT_EQ(messages,
            "weft.gather: index 3 at position 1 is out of range; it must lie in [-3, 3)\n");
  // Whoever recorded the op may have a name of its own, or a message.
  for (auto [user, expected] :
       {std::pair("weft.lookup",
                  "weft.lookup: index 3 at position 1 is out of range; it must lie in [-3, 3)"),
        std::pair("lookup: none is there", "lookup: none is there")}) {
    EXPECT_TRUE(evaluateOp("weft.index_select %0, %1, dim = 0 {user = \"" + std::string(user) +
                               "\"} : tensor<3x2xf32>, tensor<2xi64>",
                           {x, longs({2}, {0, 3})}, "tensor<2x2xf32>")
                    .empty());
    EXPECT_TRUE(llvm::StringRef(messages).ends_with("\n" + std::string(expected) + "\n"))
        << messages;
  }
}

TEST_F(EvaluationTest, SortsAreStableWithNanLast) {
  double nan = std::numeric_limits<double>::quiet_NaN(),
         inf = std::numeric_limits<double>::infinity();
  HostTensor x = floats({2, 5}, {0, nan, -inf, -0.0, inf, 3, 1, 3, nan, 1});
  EXPECT_EQ(one("weft.arg_sort %0, dim = 1 : tensor<2x5xf32>", {x}, "tensor<2x5xi64>"),
            (Numbers{2, 0, 3, 4, 1, 1, 4, 0, 2, 3}));
  EXPECT_EQ(one("weft.arg_sort %0, dim = 1 {descending = true} : tensor<2x5xf32>", {x},
                "tensor<2x5xi64>"),
            (Numbers{1, 4, 0, 3, 2, 3, 0, 2, 1, 4}));
  EXPECT_EQ(
      one("weft.arg_sort %0, dim = 1 {count = 2 : i64} : tensor<2x5xf32>", {x}, "tensor<2x2xi64>"),
      (Numbers{2, 0, 1, 4}));
  EXPECT_EQ(one("weft.arg_sort %0, dim = 0 {count = 1 : i64, descending = true} : tensor<2x5xf32>",
                {x}, "tensor<1x5xi64>"),
            (Numbers{1, 0, 1, 1, 0}));
  HostTensor large(DType::kInt64, {3});
  large.setInt(0, INT64_MAX);
  large.setInt(1, INT64_MIN);
  large.setInt(2, INT64_MAX - 1);
  EXPECT_EQ(one("weft.arg_sort %0, dim = 0 : tensor<3xi64>", {large}, "tensor<3xi64>"),
            (Numbers{1, 2, 0}));
}

TEST_F(EvaluationTest, RandomOpsReadTheStream) {
  HostTensor state(DType::kInt64, {2});
  state.setInt(0, 42);
  state.setInt(1, 1000);
  Numbers samples =
      one("weft.random_uniform %0 {offset = 3 : i64} : tensor<70xf32>", {state}, "tensor<70xf32>");
  for (int64_t i : {0, 1, 15, 16, 63, 64, 69})
    EXPECT_EQ(samples[i], (philoxWord(42, 1003, i) >> 8) * 0x1p-24) << i;
  // Those of f64 go on where the ones of f32 end, with the bits of another stream.
  Numbers wide =
      one("weft.random_uniform %0 {offset = 3 : i64} : tensor<70xf64>", {state}, "tensor<70xf64>");
  for (int64_t i : {0, 1, 15, 16, 63, 64, 69}) {
    EXPECT_EQ(std::floor(wide[i] * 0x1p24) * 0x1p-24, samples[i]) << i;
    EXPECT_EQ(wide[i],
              philoxWord(42, 1003, i) * 0x1p-32 + (philoxWord(42, 1003, i, 1) >> 11) * 0x1p-53)
        << i;
  }
  // Advancing the state by what a tensor takes continues the stream.
  EXPECT_EQ(one("weft.random_advance %0, 16 : tensor<2xi64>", {state}, "tensor<2xi64>"),
            (Numbers{42, 1016}));
  for (const char *type : {"tensor<4096xbf16>", "tensor<4096xf16>"})
    for (double sample : one(std::string("weft.random_uniform %0 : ") + type, {state}, type))
      EXPECT_TRUE(sample >= 0 && sample < 1) << sample;

  Numbers normal = one("weft.random_normal %0 : tensor<20000xf64>", {state}, "tensor<20000xf64>");
  double mean = 0, square = 0;
  for (double x : normal)
    mean += x / 20000, square += x * x / 20000;
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(square, 1, 0.05);
}

TEST_F(EvaluationTest, Softmax) {
  HostTensor x = floats({1, 3}, {1000, 1000 + std::log(2.0f), -kInf});
  expectNear(one("weft.softmax %0, dim = 1 : tensor<1x3xf32>", {x}, "tensor<1x3xf32>"),
             {1.0 / 3, 2.0 / 3, 0}, 1e-4);
  Numbers logs = one("weft.log_softmax %0, dim = 1 : tensor<1x3xf32>", {x}, "tensor<1x3xf32>");
  EXPECT_NEAR(logs[0], std::log(1.0 / 3), 1e-4);
  EXPECT_EQ(logs[2], -kInf);
  expectNear(one("weft.softmax %0, dim = 0 : tensor<2x2xf32>", {floats({2, 2}, {0, 1, 0, 1})},
                 "tensor<2x2xf32>"),
             {.5, .5, .5, .5});
}

TEST_F(EvaluationTest, LayerNorm) {
  HostTensor x = floats({2, 2}, {1, 3, 5, 5}), weight = floats({2}, {2, 3}),
             bias = floats({2}, {10, 20});
  std::vector<HostTensor> y =
      evaluateOp("weft.layer_norm %0 weight %1 bias %2 {normalized_rank = 1 : i64, eps = 0.0} : "
                 "(tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> "
                 "(tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)",
                 {floats({2, 2}, {1, 3, 5, 9}), weight, bias},
                 "tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>");
  ASSERT_EQ(y.size(), 3u) << messages;
  EXPECT_EQ(numbers(y[0]), (Numbers{8, 23, 8, 23}));
  EXPECT_EQ(numbers(y[1]), (Numbers{2, 7}));
  EXPECT_EQ(numbers(y[2]), (Numbers{1, 0.5}));
  // bias without weight
  y = evaluateOp("weft.layer_norm %0 bias %1 {normalized_rank = 1 : i64, eps = 4.0} : "
                 "(tensor<2x2xf32>, tensor<2xf32>) -> "
                 "(tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)",
                 {x, bias}, "tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>");
  ASSERT_EQ(y.size(), 3u) << messages;
  expectNear(numbers(y[0]), {10 - 1 / std::sqrt(5.0), 20 + 1 / std::sqrt(5.0), 10, 20});
}

TEST_F(EvaluationTest, AttentionMasks) {
  HostTensor zeros = floats({2, 1}, {0, 0}), keys = floats({3, 1}, {0, 0, 0}),
             values = floats({3, 1}, {1, 2, 6});
  // Equal scores: the mean of the values that are seen. Causal with 2 queries and 3 keys: query 0
  // sees 2 keys, query 1 all.
  std::vector<HostTensor> y = evaluateOp("weft.attention %0, %1, %2 {causal = true, scale = 1.0} : "
                                         "(tensor<2x1xf32>, tensor<3x1xf32>, tensor<3x1xf32>) -> "
                                         "(tensor<2x1xf32>, tensor<2xf32>)",
                                         {zeros, keys, values}, "tensor<2x1xf32>, tensor<2xf32>");
  ASSERT_EQ(y.size(), 2u) << messages;
  expectNear(numbers(y[0]), {1.5, 3});
  expectNear(numbers(y[1]), {std::log(2.0), std::log(3.0)});
  // A mask that hides all from query 0 and the last key from query 1.
  y = evaluateOp("weft.attention %0, %1, %2 mask %3 {scale = 1.0} : (tensor<2x1xf32>, "
                 "tensor<3x1xf32>, tensor<3x1xf32>, tensor<2x3xi1>) -> "
                 "(tensor<2x1xf32>, tensor<2xf32>)",
                 {zeros, keys, values, tensor(DType::kBool, {2, 3}, {0, 0, 0, 1, 1, 0})},
                 "tensor<2x1xf32>, tensor<2xf32>");
  ASSERT_EQ(y.size(), 2u) << messages;
  expectNear(numbers(y[0]), {0, 1.5});
  EXPECT_EQ(numbers(y[1])[0], -kInf);
}

TEST_F(EvaluationTest, CrossEntropy) {
  HostTensor logits = floats({2, 2}, {0, 0, 0, std::log(3.0f)});
  std::vector<HostTensor> y =
      evaluateOp("weft.cross_entropy %0, %1 : tensor<2x2xf32>, tensor<2xi64>",
                 {logits, longs({2}, {-100, 1})}, "tensor<2xf32>, tensor<2xf32>");
  ASSERT_EQ(y.size(), 2u) << messages;
  expectNear(numbers(y[0]), {0, std::log(4.0 / 3)});
  expectNear(numbers(y[1]), {std::log(2.0), std::log(4.0)});
  EXPECT_TRUE(evaluateOp("weft.cross_entropy %0, %1 : tensor<2x2xf32>, tensor<2xi64>",
                         {logits, longs({2}, {0, 2})}, "tensor<2xf32>, tensor<2xf32>")
                  .empty());
  EXPECT_EQ(messages, "weft.cross_entropy: index 2 at position 1 is out of range; it must lie in "
                      "[0, 2) or be ignore_index, -100\n");
  // Rows that have no loss, as PyTorch has it: all classes impossible, one certain. A row that is
  // ignored has one.
  y = evaluateOp("weft.cross_entropy %0, %1 : tensor<3x2xf32>, tensor<3xi64>",
                 {floats({3, 2}, {-kInf, -kInf, kInf, 0, -kInf, -kInf}), longs({3}, {0, 0, -100})},
                 "tensor<3xf32>, tensor<3xf32>");
  ASSERT_EQ(y.size(), 2u) << messages;
  EXPECT_TRUE(std::isnan(numbers(y[0])[0]) && std::isnan(numbers(y[0])[1]));
  EXPECT_EQ(numbers(y[0])[2], 0);
  for (double logSumExp : numbers(y[1]))
    EXPECT_TRUE(std::isnan(logSumExp));
}

TEST_F(EvaluationTest, Dropout) {
  HostTensor state(DType::kInt64, {2}), x(DType::kFloat32, {1000});
  for (int64_t i = 0; i < 1000; ++i)
    x.set(i, 3);
  std::vector<HostTensor> y = evaluateOp("weft.dropout %0, %1 {rate = 0.25} : tensor<1000xf32>",
                                         {x, state}, "tensor<1000xf32>, tensor<1000xi1>");
  ASSERT_EQ(y.size(), 2u) << messages;
  int64_t kept = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(y[0].getDouble(i), y[1].getInt(i) ? 4 : 0);
    EXPECT_EQ(y[1].getInt(i), (philoxWord(0, 0, i) >> 8) * 0x1p-24 >= 0.25);
    kept += y[1].getInt(i);
  }
  EXPECT_NEAR(kept, 750, 60);
}

TEST_F(EvaluationTest, ConstantsOfEveryDtypeAndForm) {
  EXPECT_EQ(one("weft.constant dense<[true, false, true]> : tensor<3xi1>", {}, "tensor<3xi1>"),
            (Numbers{1, 0, 1}));
  EXPECT_EQ(one("weft.constant dense<true> : tensor<11xi1>", {}, "tensor<11xi1>"), Numbers(11, 1));
  EXPECT_EQ(one("weft.constant dense<[1.5, -2.0]> : tensor<2xbf16>", {}, "tensor<2xbf16>"),
            (Numbers{1.5, -2}));
  EXPECT_EQ(one("weft.constant dense<-3> : tensor<2x2xi8>", {}, "tensor<2x2xi8>"), Numbers(4, -3));
  EXPECT_EQ(one("weft.constant dense<> : tensor<0xf32>", {}, "tensor<0xf32>"), Numbers());
}

TEST_F(EvaluationTest, HugeResultsAreErrors) {
  EXPECT_TRUE(evaluateOp("weft.broadcast %0 : tensor<f32> to tensor<4294967296x4294967296xf32>",
                         {floats({}, {1})}, "tensor<4294967296x4294967296xf32>")
                  .empty());
  EXPECT_NE(messages.find("too large for memory"), std::string::npos) << messages;
}

} // namespace
} // namespace weft::ir

// Derivatives where a function has none, or where its formula has a pole: they are PyTorch's
// (https://pytorch.org/docs, autograd notes), and never NaN where PyTorch's are not. And graphs too
// long or too wide for recursion.
#include <cmath>
#include <limits>

#include "compiler/graph/Differentiate.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;
using Numbers = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

HostTensor tensor(std::vector<int64_t> shape, const Numbers &values) {
  HostTensor t(DType::kFloat64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i)
    t.set(i, values[i]);
  return t;
}

class SpecialPointsTest : public testing::Test {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;

  // The `order`-th derivative of the sum of what @f returns, by its first argument; cotangents of 1
  // throughout.
  Numbers gradient(const std::string &text, std::vector<HostTensor> inputs, int order = 1,
                   int64_t argument = 0) {
    context.loadDialect<ir::WeftDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return {};
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    for (int i = 0; i < order; ++i) {
      compiler::DifferentiateOptions options;
      options.arguments = {argument};
      options.result = i == 0 ? 0 : function.getNumResults() - 1;
      auto derivative = compiler::differentiate(function, options);
      if (failed(derivative))
        return {};
      auto cotangents = derivative->getNumArguments() - function.getNumArguments();
      if (cotangents) {
        HostTensor ones = HostTensor::of(
            mlir::cast<mlir::RankedTensorType>(derivative->getArgumentTypes().back()));
        for (int64_t j = 0; j < ones.size(); ++j)
          ones.set(j, 1);
        inputs.push_back(ones);
      }
      function = *derivative;
    }
    EXPECT_TRUE(succeeded(mlir::verify(*module)));
    std::string error;
    std::vector<HostTensor> results = evaluate(function, inputs, error);
    EXPECT_EQ(error, "");
    Numbers values;
    if (results.empty())
      return values;
    for (int64_t j = 0; j < results.back().size(); ++j)
      values.push_back(results.back().getDouble(j));
    return values;
  }

  static void expectNear(const Numbers &actual, const Numbers &expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      if (std::isnan(expected[i]))
        EXPECT_TRUE(std::isnan(actual[i])) << i << ": " << actual[i];
      else if (std::isinf(expected[i]))
        EXPECT_EQ(actual[i], expected[i]) << i;
      else
        EXPECT_NEAR(actual[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << i;
    }
  }
};

std::string unary(const std::string &op) {
  return "func.func @f(%x: tensor<4xf64>) -> tensor<4xf64> { %0 = weft." + op +
         " %x : tensor<4xf64> return %0 : tensor<4xf64> }";
}
std::string binary(const std::string &op, int n) {
  std::string type = "tensor<" + std::to_string(n) + "xf64>";
  return "func.func @f(%x: " + type + ", %y: " + type + ") -> " + type + " { %0 = weft." + op +
         " %x, %y : " + type + " return %0 : " + type + " }";
}

TEST_F(SpecialPointsTest, PowAtZero) {
  HostTensor x = tensor({7}, {0, 0, 0, 2, 2, -2, kNan}), y = tensor({7}, {0, 1, 2.5, 0, -1, 3, 0});
  expectNear(gradient(binary("pow", 7), {x, y}), {0, 1, 0, 0, -0.25, 12, 0});
  expectNear(gradient(binary("pow", 7), {x, y}, 1, 1), {0, 0, 0, M_LN2, M_LN2 / 2, kNan, kNan});
  // x^0, x^1 and x^2.5 have no second derivative at 0 that is NaN.
  Numbers second = gradient(binary("pow", 7), {x, y}, 2);
  ASSERT_EQ(second.size(), 7u);
  for (int i : {0, 1, 2, 3})
    EXPECT_EQ(second[i], 0) << i;
  EXPECT_NEAR(second[4], 0.25, 1e-12);
  EXPECT_NEAR(second[5], -12, 1e-12);
}

TEST_F(SpecialPointsTest, KinksAtZero) {
  HostTensor x = tensor({4}, {-1.5, 0, 2, kNan});
  expectNear(gradient(unary("abs"), {x}), {-1, 0, 1, 0});
  // A NaN passes its cotangent on, as in PyTorch.
  expectNear(gradient(unary("relu"), {x}), {0, 0, 1, 1});
  expectNear(gradient(unary("sqrt"), {tensor({4}, {4, 0, 1, kInf})}), {0.25, kInf, 0.5, 0});
}

TEST_F(SpecialPointsTest, StepFunctionsAreFlat) {
  HostTensor x = tensor({4}, {-1.5, 0, 2, kInf});
  for (const char *op : {"sign", "floor", "ceil", "round"})
    expectNear(gradient(unary(op), {x}), {0, 0, 0, 0});
}

TEST_F(SpecialPointsTest, SoftplusIsSmoothAtZero) {
  HostTensor x = tensor({4}, {0, -200, 200, kNan});
  expectNear(gradient(unary("softplus"), {x}), {0.5, std::exp(-200), 1, kNan});
  expectNear(gradient(unary("softplus"), {x}, 2), {0.25, std::exp(-200), 0, kNan});
}

TEST_F(SpecialPointsTest, ProductsWithZeros) {
  const char *rows =
      "func.func @f(%x: tensor<3x3xf64>) -> tensor<3xf64> {"
      " %0 = weft.reduce_prod %x, dims = [1] : tensor<3x3xf64> return %0 : tensor<3xf64> }";
  expectNear(gradient(rows, {tensor({3, 3}, {2, 3, 4, 2, 0, 4, 0, 3, 0})}),
             {12, 8, 6, 0, 8, 0, 0, 0, 0});
  // Of the sum of bc, ac and ab.
  expectNear(gradient(rows, {tensor({3, 3}, {2, 3, 4, 2, 0, 4, 0, 3, 0})}, 2),
             {7, 6, 5, 4, 6, 2, 3, 0, 3});
  expectNear(gradient(rows, {tensor({3, 3}, {2, 3, 4, 2, 0, 4, 0, 3, 0})}, 3),
             {2, 2, 2, 2, 2, 2, 2, 2, 2});
  const char *scattered =
      "func.func @f(%x: tensor<2xf64>, %y: tensor<5xf64>) -> tensor<2xf64> {"
      " %i = weft.constant dense<[0, 0, 1, 1, 1]> : tensor<5xi64>"
      " %0 = weft.scatter_reduce prod %x, %i, %y, dim = 0 : tensor<2xf64>, tensor<5xi64>, "
      "tensor<5xf64> return %0 : tensor<2xf64> }";
  HostTensor x = tensor({2}, {3, 5}), y = tensor({5}, {0, 0, 2, 0, 7});
  expectNear(gradient(scattered, {x, y}, 1, 1), {0, 0, 0, 70, 0});
  expectNear(gradient(scattered, {x, y}, 2, 1), {3, 3, 35, 45, 10});
  expectNear(gradient(scattered, {tensor({2}, {3, 0}), y}, 1, 0), {0, 0});
  expectNear(gradient(scattered, {tensor({2}, {3, 0}), y}, 2, 1), {3, 3, 0, 0, 0});
}

TEST_F(SpecialPointsTest, OfSeveralWritesTheLastHasTheGradient) {
  const char *text = "func.func @f(%x: tensor<3xf64>, %y: tensor<4xf64>) -> tensor<3xf64> {"
                     " %i = weft.constant dense<[1, 2, 1, -1]> : tensor<4xi64>"
                     " %0 = weft.index_put %x, %i, %y, dim = 0 : tensor<3xf64>, tensor<4xi64>, "
                     "tensor<4xf64> return %0 : tensor<3xf64> }";
  HostTensor x = tensor({3}, {1, 2, 3}), y = tensor({4}, {4, 5, 6, 7});
  expectNear(gradient(text, {x, y}), {1, 0, 0});
  expectNear(gradient(text, {x, y}, 1, 1), {0, 0, 1, 1});
}

TEST_F(SpecialPointsTest, TiesShare) {
  HostTensor x = tensor({4}, {1, 2, 3, kNan}), y = tensor({4}, {2, 2, 2, 1});
  expectNear(gradient(binary("maximum", 4), {x, y}), {0, 0.5, 1, 1});
  expectNear(gradient(binary("maximum", 4), {x, y}, 1, 1), {1, 0.5, 0, 1});
  expectNear(gradient(binary("minimum", 4), {x, y}), {1, 0.5, 0, 1});
  expectNear(gradient(binary("minimum", 4), {x, y}, 1, 1), {0, 0.5, 1, 1});
  const char *rows =
      "func.func @f(%x: tensor<3x3xf64>) -> tensor<3xf64> {"
      " %0 = weft.reduce_max %x, dims = [1] : tensor<3x3xf64> return %0 : tensor<3xf64> }";
  expectNear(gradient(rows, {tensor({3, 3}, {1, 4, 2, 3, 0, 3, 5, 5, 5})}),
             {0, 1, 0, 0.5, 0, 0.5, 1. / 3, 1. / 3, 1. / 3});
  // A NaN maximum hides nothing.
  expectNear(gradient(rows, {tensor({3, 3}, {1, kNan, 2, 1, 2, 3, 0, 1, 2})}),
             {kNan, kNan, kNan, 0, 0, 1, 0, 0, 1});
}

TEST_F(SpecialPointsTest, AttentionRowThatSeesNothing) {
  // Four queries, two keys, causal: the first two see no key.
  const char *text =
      "func.func @f(%q: tensor<4x2xf64>, %k: tensor<2x2xf64>, %v: tensor<2x2xf64>) -> "
      "tensor<4x2xf64> {"
      " %r, %l = weft.attention %q, %k, %v {causal = true, scale = 0.5 : f64} :"
      " (tensor<4x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>) -> (tensor<4x2xf64>, tensor<4xf64>)"
      " return %r : tensor<4x2xf64> }";
  HostTensor q = tensor({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), k = tensor({2, 2}, {1, -1, 2, 0.5}),
             v = tensor({2, 2}, {1, 2, -3, 4});
  for (int order : {1, 2}) {
    for (int64_t argument : {0, 1, 2}) {
      Numbers values = gradient(text, {q, k, v}, order, argument);
      ASSERT_FALSE(values.empty());
      for (double value : values)
        EXPECT_TRUE(std::isfinite(value)) << order << " " << argument;
      if (argument == 0)
        for (int i : {0, 1, 2, 3})
          EXPECT_EQ(values[i], 0) << i;
    }
  }
  EXPECT_NE(gradient(text, {q, k, v}, 1, 0)[6], 0);
}

TEST_F(SpecialPointsTest, IgnoredTargetsHaveNoGradient) {
  const char *text = "func.func @f(%x: tensor<2x3xf64>) -> tensor<2xf64> { %t = weft.constant "
                     "dense<[7, 1]> : tensor<2xi64>"
                     " %r, %l = weft.cross_entropy %x, %t {ignore_index = 7 : i64} : "
                     "tensor<2x3xf64>, tensor<2xi64>"
                     " return %r : tensor<2xf64> }";
  Numbers values = gradient(text, {tensor({2, 3}, {1, 2, 3, 0, 0, 0})});
  expectNear(values, {0, 0, 0, 1. / 3, 1. / 3 - 1, 1. / 3});
}

TEST_F(SpecialPointsTest, CastsPassFloatsOnly) {
  const char *text =
      "func.func @f(%x: tensor<4xf64>) -> tensor<4xf64> { %0 = weft.cast %x : tensor<4xf64> to "
      "tensor<4x$xf64>"
      " %1 = weft.cast %0 : tensor<4x$xf64> to tensor<4xf64> return %1 : tensor<4xf64> }";
  auto through = [&](std::string element) {
    std::string spelled = text;
    for (size_t at; (at = spelled.find("$xf64")) != std::string::npos;)
      spelled.replace(at, 5, element);
    return gradient(spelled, {tensor({4}, {0.25, 1, 2, 3})});
  };
  expectNear(through("f32"), {1, 1, 1, 1});
  expectNear(through("i32"), {0, 0, 0, 0});
}

// One op after another, and one value that all of them use.
TEST_F(SpecialPointsTest, LongChainsAndManyUsers) {
  context.loadDialect<ir::WeftDialect, mlir::func::FuncDialect>();
  constexpr int kChain = 300000, kUsers = 40000;
  mlir::OpBuilder b(&context);
  mlir::Location loc = b.getUnknownLoc();
  module = mlir::ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  auto type = mlir::RankedTensorType::get({}, b.getF64Type());
  auto function = mlir::func::FuncOp::create(b, loc, "f", b.getFunctionType({type}, {type}));
  b.setInsertionPointToStart(function.addEntryBlock());
  ir::Val x(b, loc, function.getArgument(0)), chain = x;
  for (int i = 0; i < kChain; ++i)
    chain = -chain;
  for (int i = 0; i < kUsers; ++i)
    chain = chain + x;
  mlir::func::ReturnOp::create(b, loc, mlir::ValueRange{chain.value()});
  auto derivative = compiler::differentiate(function, {});
  ASSERT_TRUE(succeeded(derivative));
  std::string error;
  std::vector<HostTensor> results = evaluate(*derivative, {tensor({}, {2})}, error);
  ASSERT_EQ(error, "");
  EXPECT_EQ(results[1].getDouble(0), kUsers + 1);
}

} // namespace
} // namespace weft::tests

// Every decomposition against the op's own reference evaluation, in float64 and float32: on the
// cases of all ops, and on inputs where a formula that is not careful overflows or gives NaN.
#include <cmath>
#include <limits>

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"
#include "tests/support/Compare.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;
using Tensors = std::vector<HostTensor>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// Replaces the op by its decomposition, again and again until nothing is left that has one.
testing::AssertionResult decomposeAll(OpModule &made) {
  mlir::Block &block = made.main.getBody().front();
  for (auto it = block.begin(); it != block.end();) {
    auto op = mlir::dyn_cast<ir::WeftOp>(*it);
    if (!op || !op.missingRule(ir::RuleKind::Decomposition).empty()) {
      ++it;
      continue;
    }
    mlir::OpBuilder builder(op);
    auto values = op.decompose(builder);
    if (failed(values))
      return testing::AssertionFailure() << "decompose failed";
    for (auto [result, value] : llvm::zip_equal(op->getResults(), *values)) {
      if (!result.use_empty() && result.getType() != value.getType())
        return testing::AssertionFailure() << "a value of another type";
      result.replaceAllUsesWith(value);
    }
    op->erase();
    it = block.begin();
  }
  if (failed(mlir::verify(*made.module)))
    return testing::AssertionFailure() << "the decomposition does not verify";
  return testing::AssertionSuccess();
}

// Results rounded at each step: the error of some tens of roundings of values of the largest
// result's size.
double tolerance(DType dtype, const HostTensor &expected) {
  double largest = 1;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected.getDouble(i)))
      largest = std::max(largest, std::abs(expected.getDouble(i)));
  return largest * (dtype == DType::kFloat64 ? 1e-13 : 2e-5);
}

class DecompositionTest : public testing::TestWithParam<std::string> {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};

  // Returns whether the record takes this dtype.
  bool check(const OpCase &c, DType dtype, const Tensors *inputs = nullptr) {
    OpModule made = buildModule(context, c, dtype);
    if (!made)
      return false;
    if (inputs)
      made.inputs = *inputs;
    std::string error;
    Tensors expected = evaluate(made.main, made.inputs, error);
    EXPECT_EQ(error, "") << c.name();
    EXPECT_TRUE(decomposeAll(made)) << c.name();
    Tensors actual = evaluate(made.main, made.inputs, error);
    EXPECT_EQ(error, "") << c.name();
    EXPECT_EQ(actual.size(), expected.size()) << c.name();
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i)
      EXPECT_EQ(compareWithin(actual[i], expected[i], 0, {tolerance(dtype, expected[i])}), "")
          << c.name() << ", " << name(dtype) << ", result " << i;
    return true;
  }
};

TEST_P(DecompositionTest, EqualsTheReference) {
  int checked = 0;
  for (const OpCase &c : allCases(context))
    if (c.op == GetParam())
      for (DType dtype : {DType::kFloat64, DType::kFloat32})
        checked += check(c, dtype);
  EXPECT_GT(checked, 0) << GetParam() << " has no case: add one to tests/support/OpCases.cpp";
}

std::vector<std::string> decomposableOps() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<std::string> ops;
  for (const std::string &op : opsWithCases(context))
    if (mlir::OperationName(op, &context)
            .getInterface<ir::WeftOp>()
            ->missingRule(ir::RuleKind::Decomposition)
            .empty())
      ops.push_back(op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, DecompositionTest, testing::ValuesIn(decomposableOps()),
                         [](const testing::TestParamInfo<std::string> &info) {
                           return llvm::StringRef(info.param).drop_front(5).str();
                         });

class ExtremeInputsTest : public DecompositionTest {
protected:
  void checkRows(const std::string &op, const std::string &attributes, std::vector<int64_t> shape,
                 const std::vector<double> &values, Tensors more = {}) {
    for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
      HostTensor x(dtype, shape);
      for (size_t i = 0; i < values.size(); ++i)
        x.set(i, values[i]);
      Tensors inputs{x};
      OpCase c{op, "extreme", {{shape}}, attributes};
      for (HostTensor &t : more) {
        inputs.push_back(t);
        c.operands.push_back({t.shape, t.dtype, Values::Booleans});
      }
      EXPECT_TRUE(check(c, dtype, &inputs)) << op;
    }
  }
};

TEST_F(ExtremeInputsTest, Softmax) {
  const std::vector<double> rows = {1e4,   -1e4,  9999,  0,     -kInf, 1, 2,      -kInf,
                                    1,     kNan,  2,     3,     kInf,  0, 1,      2,
                                    -kInf, -kInf, -kInf, -kInf, 1e-30, 0, -1e-30, 88};
  checkRows("weft.softmax", "{dim = 1 : i64}", {6, 4}, rows);
  checkRows("weft.log_softmax", "{dim = 1 : i64}", {6, 4}, rows);
}

TEST_F(ExtremeInputsTest, CrossEntropy) {
  HostTensor targets(DType::kInt64, {5});
  for (int i = 0; i < 5; ++i)
    targets.setInt(i, i == 4 ? -100 : i % 3);
  checkRows("weft.cross_entropy", "{ignore_index = -100 : i64}", {5, 3},
            {1e4, -1e4, 9999, -kInf, 1, 2, 1, kNan, 2, -kInf, 0, 1, 5, 6, 7}, {targets});
}

TEST_F(ExtremeInputsTest, TargetsOutOfRangeAreErrorsInBothForms) {
  OpCase c{"weft.cross_entropy",
           "range",
           {{{2, 3}}, {{2}, DType::kInt64, Values::Indices, 0, 0, 3}},
           "{ignore_index = -100 : i64}"};
  OpModule made = buildModule(context, c, DType::kFloat32);
  ASSERT_TRUE(made);
  made.inputs[1].setInt(0, 3);
  made.inputs[1].setInt(1, -1);
  std::string error;
  evaluate(made.main, made.inputs, error);
  EXPECT_NE(
      error.find("index 3 at position 0 is out of range; it must lie in [0, 3) or be ignore_index"),
      std::string::npos)
      << error;
  ASSERT_TRUE(decomposeAll(made));
  error.clear();
  evaluate(made.main, made.inputs, error);
  EXPECT_NE(error.find("index 3 at position 0 is out of range; it must lie in [0, 3)"),
            std::string::npos)
      << error;
}

TEST_F(ExtremeInputsTest, AttentionRowsThatSeeNothingAndInfiniteMasks) {
  for (bool causal : {false, true}) {
    OpCase c{"weft.attention",
             "masked",
             {{{4, 2}}, {{3, 2}}, {{3, 2}}, {{4, 3}, DType::kBool, Values::Booleans}},
             std::string("{scale = 0.5 : f64, causal = ") + (causal ? "true}" : "false}")};
    OpModule made = buildModule(context, c, DType::kFloat64);
    ASSERT_TRUE(made);
    for (int i = 0; i < 12; ++i)
      made.inputs[3].setInt(i, i / 3 != 2 && i != 4);
    EXPECT_TRUE(check(c, DType::kFloat64, &made.inputs));
  }
  OpCase c{"weft.attention",
           "float mask",
           {{{4, 2}}, {{3, 2}}, {{3, 2}}, {{4, 3}}},
           "{scale = 0.5 : f64}"};
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    OpModule made = buildModule(context, c, dtype);
    ASSERT_TRUE(made);
    for (int i = 0; i < 12; ++i)
      made.inputs[3].set(i, i / 3 == 2 || i == 4 ? -kInf : i == 0 ? 1e4 : i);
    EXPECT_TRUE(check(c, dtype, &made.inputs));
    made.inputs[0].set(0, kNan);
    EXPECT_TRUE(check(c, dtype, &made.inputs));
  }
}

TEST_F(ExtremeInputsTest, LayerNormOfConstantAndLargeRows) {
  checkRows(
      "weft.layer_norm",
      "{normalized_rank = 1 : i64, eps = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 0, 0>}",
      {4, 3}, {2, 2, 2, 1, kNan, 3, 1e3, 1e3 + 1, 1e3 - 1, kInf, 0, 1});
}

// An infinite factor meets no padding, nor the gaps between the elements of a gradient: that would
// be NaN.
TEST_F(ExtremeInputsTest, InfiniteFactorsOfPaddedConvolutions) {
  std::vector<int64_t> image = {2, 4, 5, 4}, weight = {6, 2, 3, 2}, result = {2, 6, 3, 5};
  std::string attributes = "{strides = array<i64: 2, 1>, padding = array<i64: 1, 1>, dilation = "
                           "array<i64: 1, 1>, groups = 2 : i64}";
  const OpCase cases[] = {
      {"weft.conv2d", "extreme", {{image}, {weight}}, attributes},
      {"weft.conv2d_input_gradient", "extreme", {{result}, {weight}}, attributes, {{image}}},
      {"weft.conv2d_weight_gradient", "extreme", {{image}, {result}}, attributes, {{weight}}},
  };
  for (const OpCase &c : cases)
    for (DType dtype : {DType::kFloat64, DType::kFloat32})
      for (int operand : {0, 1})
        for (double special : {kInf, kNan}) {
          OpModule made = buildModule(context, c, dtype);
          ASSERT_TRUE(made);
          made.inputs[operand].set(1, special);
          EXPECT_TRUE(check(c, dtype, &made.inputs));
        }
}

} // namespace
} // namespace weft::tests

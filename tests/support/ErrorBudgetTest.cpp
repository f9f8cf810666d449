#include "tests/support/ErrorBudget.h"

#include <cmath>
#include <set>

#include "dialects/weft/ir/Weft.h"
#include "tests/support/Compare.h"
#include "tests/support/OpCases.h"
#include "tests/support/OpModule.h"
#include "tests/support/OpRows.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;

// A record that becomes Untested takes its op's row away, and with it all tolerance: what such an
// op gives is compared exactly.
TEST(OpRows, AreThoseOfAllOpsButWhatIsExact) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  std::vector<std::string> without;
  for (mlir::RegisteredOperationName op : context.getRegisteredOperationsByDialect("weft")) {
    auto *rules = op.getInterface<ir::WeftOp>();
    // Exchanges are no program's.
    if (rules && rules->kind() != ir::Kind::Structure && rules->kind() != ir::Kind::Exchange &&
        !findRow(op.getStringRef()))
      without.push_back(op.getStringRef().str());
  }
  llvm::sort(without);
  // It gives its operand's bits.
  EXPECT_EQ(without, std::vector<std::string>{"weft.check_index"})
      << "give the op's record Tests, or say here why its results are exact";
  EXPECT_EQ(findRow("weft.no_such_op"), nullptr);
  EXPECT_STREQ(findRow("weft.matmul")->mnemonic, "matmul");
}

// What a record refuses is no case: an operand of a dtype that the op does not take would leave all
// tests of the op untried in that dtype, unseen.
TEST(OpCases, RunInFloatsOf16BitsWhereInFloat32) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::set<std::string> refused;
  for (const OpCase &c : allCases(context))
    if (buildModule(context, c, DType::kFloat32))
      for (DType dtype : {DType::kBFloat16, DType::kFloat16})
        if (!buildModule(context, c, dtype))
          refused.insert(c.op);
  EXPECT_EQ(refused, std::set<std::string>());
}

TEST(ErrorBudget, OfAnOpWithoutARowIsExact) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  OpModule made = buildModule(context,
                              {"weft.check_index",
                               "",
                               {{{3}, DType::kInt64, Values::Indices, 0, 0, 3}},
                               "{size = 3 : i64, user = \"weft.cross_entropy\"}"},
                              DType::kFloat32);
  ASSERT_TRUE(made);
  Budget budget = budgetOf(made, DType::kInt64, made.inputs[0]);
  EXPECT_EQ(budget.ulps, 0);
  EXPECT_TRUE(budget.bound.empty());
}

// gelu in doubles over its tail, down to where its result is no normal number, as `compute` has it,
// with the reference's values.
class GeluTail : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    bool tanh = GetParam();
    OpCase c{"weft.gelu", "tail", {{{5003}, {}, Values::Numbers, tanh ? -21.5 : -37.5, 0}}};
    c.attributes = tanh ? "{tanh_approximation = true}" : "{tanh_approximation = false}";
    made = buildModule(context, c, DType::kFloat64);
    ASSERT_TRUE(made);
    std::string error;
    expected = evaluate(made.main, made.inputs, error).front();
    ASSERT_EQ(error, "");
    budget = budgetOf(made, DType::kFloat64, expected);
  }

  template <typename T> T compute(T x) const {
    if (!GetParam())
      return x * std::erfc(-x / std::sqrt(T(2))) / 2;
    T w = x * (2 * T(0.79788456080286535588L) +
               2 * T(0.79788456080286535588L) * T(0.044715L) * (x * x));
    return x * (std::exp(w) / (1 + std::exp(w)));
  }
  // What compute() gives in numbers of type T, rounded to doubles, off by a part of itself.
  template <typename T> HostTensor computed(double off = 0) const {
    HostTensor result(DType::kFloat64, expected.shape);
    for (int64_t i = 0; i < result.size(); ++i)
      result.set(i, static_cast<double>(compute(static_cast<T>(made.inputs[0].getDouble(i)))) *
                        (1 + off));
    return result;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  OpModule made;
  HostTensor expected;
  Budget budget;
};

TEST_P(GeluTail, AnyOrderOfRoundingsIsWithinTheBudget) {
  EXPECT_EQ(compareWithin(computed<double>(), expected, budget.ulps, budget.bound), "");
  EXPECT_EQ(compareWithin(computed<long double>(), expected, budget.ulps, budget.bound), "");
}

TEST_P(GeluTail, ASinglesRoundingIsNot) {
  EXPECT_NE(compareWithin(computed<double>(0x1p-24), expected, budget.ulps, budget.bound), "");
  EXPECT_NE(compareWithin(computed<double>(0x1p-40), expected, budget.ulps, budget.bound), "");
}

// Where nothing is magnified there is nothing to allow for: near 0 a result is within the units of
// any function.
TEST_P(GeluTail, IsTightNearZero) {
  for (int64_t i = 0; i < expected.size(); ++i) {
    double x = made.inputs[0].getDouble(i), e = std::abs(expected.getDouble(i));
    if (x < -0.5)
      continue;
    EXPECT_LE(budget.bound[static_cast<size_t>(i)], 20 * 0x1p-52 * e) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, GeluTail, testing::Bool(),
                         [](const auto &info) { return info.param ? "tanh" : "erf"; });

// A product's error is relative to its size, but for factors whose own product lies below the
// normal range: {1e-40, 0.3, 1e15} in order loses four digits in its first step.
TEST(ErrorBudget, OfAProductAllowsForPartsBelowTheNormalRange) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  OpModule made = buildModule(
      context, {"weft.reduce_prod", "", {{{2, 3}}}, "{dims = array<i64: 1>}"}, DType::kFloat32);
  ASSERT_TRUE(made);
  volatile float factors[2][3] = {{1e-40f, 0.3f, 1e15f}, {2, 3, 0.5f}};
  for (int64_t i = 0; i < 6; ++i)
    made.inputs[0].set(i, factors[i / 3][i % 3]);
  std::string error;
  HostTensor expected = evaluate(made.main, made.inputs, error).front();
  ASSERT_EQ(error, "");
  Budget budget = budgetOf(made, DType::kFloat32, expected);
  HostTensor forward = expected, backward = expected, off = expected;
  for (int64_t i = 0; i < 2; ++i) {
    volatile float *row = factors[i];
    volatile float first = row[0] * row[1], last = row[2] * row[1];
    forward.set(i, first * row[2]);
    backward.set(i, last * row[0]);
    off.set(i, expected.getDouble(i) * 1.001);
  }
  EXPECT_NE(forward.getDouble(0), backward.getDouble(0));
  EXPECT_EQ(compareWithin(forward, expected, budget.ulps, budget.bound), "");
  EXPECT_EQ(compareWithin(backward, expected, budget.ulps, budget.bound), "");
  EXPECT_NE(compareWithin(off, expected, budget.ulps, budget.bound), "");
  EXPECT_LE(budget.bound[1], 8 * 0x1p-24 * 3);
}

} // namespace
} // namespace weft::tests

// The derivative of every differentiable op against central differences in float64, first and
// second order, by reference evaluation. Ties and other points without a derivative are left out by
// the cases' inputs; SpecialPointsTest has them.
#include <cmath>

#include "compiler/graph/Differentiate.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;
using ir::Val;
using Tensors = std::vector<HostTensor>;

// A central difference with this step is off by step^2 f''' / 6 + rounding / step: some 1e-8 for
// the functions here.
constexpr double kStep = 1e-4, kTolerance = 2e-6;

// But weft.detach: that no gradient passes it is what it is for, whatever differences say
// (program_derivative_test).
bool isDifferentiable(mlir::MLIRContext &context, llvm::StringRef op) {
  if (op == ir::DetachOp::getOperationName())
    return false;
  mlir::OperationName name(op, &context);
  return name.getInterface<ir::WeftOp>()->missingRule(ir::RuleKind::Derivative).empty();
}

bool isFloat64(mlir::Type type) {
  return mlir::cast<mlir::RankedTensorType>(type).getElementType().isF64();
}

// Weights that make one number of many, each different.
Val weighted(Val x, double seed) {
  int64_t n = 1;
  for (int64_t extent : x.shape())
    n *= extent;
  HostTensor weights(DType::kFloat64, x.shape());
  for (int64_t i = 0; i < n; ++i)
    weights.set(i, std::sin(seed + 1.7 * static_cast<double>(i)) + 0.1);
  Val w = x.make<ir::ConstantOp>(weights.toAttribute(x.builder().getContext()));
  return sum(x * w, llvm::to_vector(llvm::seq<int64_t>(0, x.rank())));
}

// Replaces what a function returns by one number: the weighted sum of those of its results (from
// `first` on) that are floating.
void returnWeightedSum(mlir::func::FuncOp function, int64_t first) {
  mlir::Operation *exit = function.getBody().front().getTerminator();
  mlir::OpBuilder builder(exit);
  Val total;
  double seed = 1;
  for (mlir::Value result : exit->getOperands().drop_front(first)) {
    if (!isFloat64(result.getType()))
      continue;
    Val term = weighted(Val(builder, exit->getLoc(), result), seed++);
    total = total ? total + term : term;
  }
  exit->setOperands(mlir::ValueRange{total.value()});
  function.setType(builder.getFunctionType(function.getArgumentTypes(), exit->getOperandTypes()));
}

// The derivative of a function of one result that is a number, by all its floating arguments,
// against central differences.
void checkDerivative(mlir::func::FuncOp function, mlir::func::FuncOp derivative,
                     const Tensors &inputs, const std::string &what) {
  std::string error;
  Tensors results = evaluate(derivative, inputs, error);
  ASSERT_EQ(error, "") << what;
  size_t next = 1; // behind the value
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype != DType::kFloat64)
      continue;
    ASSERT_LT(next, results.size()) << what;
    const HostTensor &gradient = results[next++];
    ASSERT_EQ(gradient.shape, inputs[i].shape) << what;
    for (int64_t j = 0; j < inputs[i].size(); ++j) {
      auto at = [&](double step) {
        Tensors moved = inputs;
        moved[i].set(j, inputs[i].getDouble(j) + step);
        Tensors value = evaluate(function, moved, error);
        return value.empty() ? std::nan("") : value[0].getDouble(0);
      };
      double expected = (at(kStep) - at(-kStep)) / (2 * kStep);
      ASSERT_EQ(error, "") << what;
      ASSERT_NEAR(gradient.getDouble(j), expected, kTolerance * (1 + std::abs(expected)))
          << what << ", argument " << i << " element " << j;
    }
  }
  EXPECT_EQ(next, results.size()) << what;
}

class GradientTest : public testing::TestWithParam<std::string> {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(GradientTest, FirstAndSecondOrderMatchCentralDifferences) {
  int checked = 0;
  for (const OpCase &c : allCases(context)) {
    if (c.op != GetParam() || c.large || !c.smooth)
      continue;
    OpModule made = buildModule(context, gentle(c), DType::kFloat64);
    // Not a case of the record (it takes no float64), or one without a result that central
    // differences can see (a cast to i32).
    if (!made || llvm::none_of(made.op->getResultTypes(), isFloat64))
      continue;
    returnWeightedSum(made.main, 0);
    auto first = compiler::differentiate(made.main, {});
    ASSERT_TRUE(succeeded(first)) << c.name();
    ASSERT_TRUE(succeeded(mlir::verify(*made.module))) << c.name();
    checkDerivative(made.main, *first, made.inputs, c.name());
    if (HasFatalFailure())
      return;
    // The second: of the weighted sum of the first's gradients.
    mlir::func::FuncOp gradients = first->clone();
    gradients.setName("gradients");
    made.module->push_back(gradients);
    returnWeightedSum(gradients, 1);
    auto second = compiler::differentiate(gradients, {});
    ASSERT_TRUE(succeeded(second)) << c.name();
    ASSERT_TRUE(succeeded(mlir::verify(*made.module))) << c.name();
    checkDerivative(gradients, *second, made.inputs, c.name() + ", second order");
    if (HasFatalFailure())
      return;
    ++checked;
  }
  EXPECT_GT(checked, 0) << GetParam()
                        << " has no case with float64 inputs: add one to tests/support/OpCases.cpp";
}

// A rule that reads a value that its record does not save ends the test above (GradContext). This
// one finds the opposite: a value that is saved, and so kept alive until backward, but read by no
// case's derivative.
TEST_P(GradientTest, EverySavedValueIsRead) {
  std::set<std::pair<char, int64_t>> unread;
  bool first = true;
  for (const OpCase &c : allCases(context)) {
    if (c.op != GetParam() || c.large)
      continue;
    OpModule made = buildModule(context, c, DType::kFloat64);
    if (!made)
      continue;
    auto rules = mlir::cast<ir::WeftOp>(made.op);
    if (first)
      for (int64_t i : rules.savedOperands())
        unread.insert({'o', i});
    if (first)
      for (int64_t i : rules.savedResults())
        unread.insert({'r', i});
    first = false;
    mlir::Block scratch;
    mlir::OpBuilder builder(&context);
    builder.setInsertionPointToEnd(&scratch);
    auto argument = [&](mlir::Value like) {
      return scratch.addArgument(like.getType(), like.getLoc());
    };
    llvm::SmallVector<mlir::Value> operands(made.op->getNumOperands()),
        results(made.op->getNumResults()), cotangents;
    llvm::SmallVector<bool> needs(operands.size(), true);
    for (int64_t i : rules.savedOperands())
      if (i < static_cast<int64_t>(operands.size()))
        operands[i] = argument(made.op->getOperand(i));
    for (int64_t i : rules.savedResults())
      results[i] = argument(made.op->getResult(i));
    for (auto [i, operand] : llvm::enumerate(made.op->getOperands()))
      needs[i] = isFloat64(operand.getType());
    for (mlir::Value result : made.op->getResults())
      cotangents.push_back(isFloat64(result.getType()) ? argument(result) : mlir::Value());
    ir::GradContext ctx(builder, made.op->getLoc(), made.op->getName(),
                        made.op->getPropertiesStorage(), made.op->getOperandTypes(),
                        made.op->getResultTypes(), operands, results, cotangents, needs);
    ASSERT_TRUE(succeeded(rules.differentiate(ctx)) && !ctx.isWrong()) << c.name();
    for (auto [i, value] : llvm::enumerate(operands))
      if (value && !value.use_empty())
        unread.erase({'o', i});
    for (auto [i, value] : llvm::enumerate(results))
      if (value && !value.use_empty())
        unread.erase({'r', i});
    // Users stand before what they use in a list of ops that dies from its end.
    while (!scratch.empty())
      scratch.back().erase();
  }
  EXPECT_FALSE(first) << GetParam() << " has no case";
  for (auto [kind, i] : unread)
    ADD_FAILURE() << GetParam() << " saves " << (kind == 'o' ? "operand " : "result ") << i
                  << " but no derivative reads it";
}

std::vector<std::string> differentiableOps() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<std::string> ops;
  for (const std::string &op : opsWithCases(context))
    if (isDifferentiable(context, op))
      ops.push_back(op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(
    Ops, GradientTest, testing::ValuesIn(differentiableOps()),
    [](const testing::TestParamInfo<std::string> &info) {
      return llvm::StringRef(info.param).drop_front(5).str(); // without "weft."
    });

} // namespace
} // namespace weft::tests

// Every op that has a lowering, alone in a fusion, on every dtype that its record allows: the
// kernel against reference evaluation, and one range of pieces against several, bit for bit. A run
// takes every third call in each dtype (Turns.h): conformance compiles all of them.
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include "compiler/fusion/FusionDomain.h"
#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/lowerings/LowerToLinalg.h"
#include "dialects/weft/statements/StatementRules.h"
#include "dialects/weft/test/OtherDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include "tests/support/Compare.h"
#include "tests/support/ErrorBudget.h"
#include "tests/support/OpCases.h"
#include "tests/support/OpModule.h"
#include "tests/support/Turns.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

class KernelOps : public testing::TestWithParam<DType> {};

TEST_P(KernelOps, AgreesWithReference) {
  mlir::MLIRContext context;
  registerCodegenDialects(context);
  int64_t ran = 0;
  for (const tests::OpCase &c : tests::allCases(context)) {
    tests::OpModule made = tests::buildModule(context, c, GetParam());
    if (!made.op || FusionDomain::fusible(made.op) != Refusal::None ||
        !tests::hasTurn(c.name(), "kernel", GetParam()))
      continue;
    std::string error;
    std::vector<HostTensor> expected = tests::evaluate(made.main, made.inputs, error);
    ASSERT_EQ(error, "") << c.name();
    std::vector<tests::Budget> budgets;
    for (const HostTensor &result : expected)
      budgets.push_back(tests::budgetOf(made, GetParam(), result));
    auto kernel = TestKernel::build(fusionAround(made.op), error);
    ASSERT_TRUE(kernel) << c.name() << ": " << error;
    std::vector<HostTensor> one, several;
    EXPECT_EQ(kernel->run(made.inputs, one, 1), WEFT_KERNEL_OK) << c.name();
    EXPECT_EQ(kernel->run(made.inputs, several, 3), WEFT_KERNEL_OK) << c.name();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(tests::compareWithin(one[i], expected[i], budgets[i].ulps, budgets[i].bound), "")
          << c.name() << " " << name(GetParam());
      EXPECT_EQ(tests::compareExact(several[i], one[i]), "")
          << c.name() << " " << name(GetParam()) << ", several ranges of pieces";
    }
    for (auto pair : kernel->info.inPlace) {
      std::vector<HostTensor> shared;
      EXPECT_EQ(kernel->run(made.inputs, shared, 2, pair), WEFT_KERNEL_OK) << c.name();
      EXPECT_EQ(tests::compareExact(shared[pair.first], one[pair.first]), "")
          << c.name() << ", in place of operand " << pair.second;
    }
    ++ran;
  }
  EXPECT_GT(ran, 15);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, KernelOps,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kInt32,
                                         DType::kInt64, DType::kBool, DType::kBFloat16,
                                         DType::kFloat16, DType::kInt8, DType::kUInt8),
                         [](const auto &info) { return std::string(name(info.param)); });

//===-- Reductions of other dialects ----------------------------------------------------------===//

class OtherReductions : public testing::Test {
protected:
  OtherReductions() {
    EXPECT_TRUE(ir::registerExtension("other", "1", [](mlir::DialectRegistry &registry) {
      registry.insert<ir::OtherDialect>();
    }));
  }
  ~OtherReductions() override {
    ir::unregisterExtension("other");
  }
  // What the kernel of op "NAME" gives, which reduces a sample<3x5x20xf32> over `dims`. Nothing
  // where it does not compile, with the reason in `error`.
  std::vector<HostTensor> reduced(const std::string &name, const std::string &dims,
                                  const std::string &result) {
    auto parsed = parseFusion("%x: tensor<3x5x20xf32>",
                              "%r = \"" + name + "\"(%x) {dims = array<i64: " + dims +
                                  ">} : (tensor<3x5x20xf32>) -> " + result,
                              "%r: " + result);
    // A new context has put the rules back.
    ir::OtherRules::get().statement = statement;
    ir::OtherRules::get().lower = lower;
    auto kernel = TestKernel::build(parsed->fusion, error);
    std::vector<HostTensor> outputs;
    if (kernel)
      EXPECT_EQ(kernel->run({sample(parsed->fusion.getInputs()[0].getType(), 1)}, outputs, 2),
                WEFT_KERNEL_OK);
    return outputs;
  }
  static mlir::Value largest(mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange args) {
    return mlir::arith::MaximumFOp::create(b, loc, args[0], args[1]);
  }
  static mlir::TypedAttr lowest(mlir::OpBuilder &b) {
    return b.getF32FloatAttr(-std::numeric_limits<float>::infinity());
  }

  ir::IndexStatement statement;
  std::function<mlir::Value(mlir::OpBuilder &, mlir::Operation *, mlir::ValueRange)> lower =
      [](mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands) {
        return ir::reductionGeneric(b, op, operands, lowest(b), largest);
      };
  std::string error;
};

// Those of the result first, as a rule writes them that begins with addAll(result).
TEST_F(OtherReductions, MayNameTheirDimsInAnyOrder) {
  const int64_t sizes[] = {3, 5, 20};
  for (std::vector<int64_t> dims : {std::vector<int64_t>{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1}}) {
    std::string list, result = "tensor<";
    statement = {};
    ir::Positions at(3), kept;
    for (bool folds : {false, true})
      for (int64_t dim = 0; dim < 3; ++dim) {
        if (llvm::is_contained(dims, dim) != folds)
          continue;
        at[dim] = statement.add(ir::letterOf(dim), ir::Dim(sizes[dim]),
                                folds ? ir::Purpose::Reduced : ir::Purpose::Parallel);
        if (folds) {
          list += (list.empty() ? "" : ", ") + std::to_string(dim);
        } else {
          kept.push_back(at[dim]);
          result += std::to_string(sizes[dim]) + "x";
        }
      }
    statement.operands = {at};
    statement.results = {kept};
    statement.fold = ir::Fold::Other;
    result += "f32>";
    auto other = reduced("other.reduction", list, result);
    ASSERT_EQ(other.size(), 1) << list << ": " << error;
    auto own = reduced("weft.reduce_max", list, result);
    ASSERT_EQ(own.size(), 1) << list << ": " << error;
    EXPECT_EQ(tests::compareExact(other[0], own[0]), "") << list;
  }
}

// What schedules would walk over as if they were others.
TEST_F(OtherReductions, OfOtherLoopsAreNamed) {
  lower = [](mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands) -> mlir::Value {
    auto type = ir::typeOf(op->getResult(0));
    auto init = mlir::arith::ConstantOp::create(
        b, op->getLoc(), mlir::DenseElementsAttr::get(type, mlir::Attribute(lowest(b))));
    auto map = [&](llvm::ArrayRef<unsigned> loops) {
      return mlir::AffineMap::getMultiDimMapWithTargets(3, loops, b.getContext());
    };
    using mlir::utils::IteratorType;
    return mlir::linalg::GenericOp::create(
               b, op->getLoc(), mlir::TypeRange{type}, operands, mlir::ValueRange{init},
               llvm::ArrayRef{map({0, 2, 1}), map({0, 1})},
               llvm::ArrayRef{IteratorType::parallel, IteratorType::parallel,
                              IteratorType::reduction},
               [&](mlir::OpBuilder &inner, mlir::Location at, mlir::ValueRange args) {
                 mlir::linalg::YieldOp::create(inner, at, largest(inner, at, args));
               })
        .getResult(0);
  };
  EXPECT_TRUE(reduced("other.reduction", "1", "tensor<3x20xf32>").empty());
  EXPECT_NE(error.find("'other.reduction' op is at fault in its rule: a reduction's loops are the "
                       "dims of operand 0 in order, of which `dims` are folded"),
            std::string::npos)
      << error;
}

} // namespace
} // namespace weft::compiler

// Ops with elementwise or row-wise formulas become one kernel, together with their derivatives.
#include "compiler/graph/Differentiate.h"
#include "compiler/pipeline/Pipeline.h"
#include "dialects/weft/ir/Weft.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

class KernelCountTest : public testing::TestWithParam<std::string> {
protected:
  // How many fusions the phases up to `fuse` make of the module's @main.
  int kernels(mlir::ModuleOp module) {
    compiler::Pipeline pipeline({}, nullptr, nullptr);
    if (failed(pipeline.run(module, compiler::Phase::Import, compiler::Phase::Fuse)))
      return -1;
    int count = 0;
    module.walk([&](ir::FusionOp) { ++count; });
    return count;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(KernelCountTest, ForwardAndBackwardAreOneKernel) {
  int checked = 0;
  for (const OpCase &c : allCases(context)) {
    if (c.op != GetParam() || !c.large)
      continue;
    OpModule made = buildModule(context, c, DType::kFloat32);
    ASSERT_TRUE(made) << c.name();
    // Rows of a dimension that is not the last one are no rows in memory: such a softmax is several
    // kernels.
    auto dim = made.op->getAttrOfType<mlir::IntegerAttr>("dim");
    if (dim && dim.getInt() + 1 !=
                   mlir::cast<mlir::RankedTensorType>(made.op->getOperand(0).getType()).getRank())
      continue;
    // The first result only, as a model uses it; the others are there for the derivative.
    mlir::OpBuilder builder(&context);
    made.main.getBody().front().getTerminator()->setOperands(made.op->getResult(0));
    made.main.setType(
        builder.getFunctionType(made.main.getArgumentTypes(), made.op->getResult(0).getType()));
    auto derivative = compiler::differentiate(made.main, {});
    ASSERT_TRUE(succeeded(derivative)) << c.name();
    mlir::OwningOpRef<mlir::ModuleOp> backward =
        mlir::ModuleOp::create(builder, builder.getUnknownLoc());
    auto moved = derivative->clone();
    moved.setName("main");
    backward->push_back(moved);
    derivative->erase();
    EXPECT_EQ(kernels(*made.module), 1) << c.name();
    EXPECT_EQ(kernels(*backward), 1) << c.name() << " with its derivative";
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

INSTANTIATE_TEST_SUITE_P(Ops, KernelCountTest,
                         testing::Values("weft.softmax", "weft.log_softmax", "weft.layer_norm",
                                         "weft.cross_entropy", "weft.gelu", "weft.dropout"),
                         [](const auto &info) { return info.param.substr(5); });

} // namespace
} // namespace weft::tests

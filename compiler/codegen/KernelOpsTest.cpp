// Every op that has a lowering, alone in a fusion, on every dtype that its record allows: the kernel against reference evaluation, and
// one range of pieces against several, bit for bit.
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include "compiler/fusion/FusionDomain.h"
#include "dialects/weft/ir/OpTable.h"

#include "gtest/gtest.h"
#include "tests/support/Compare.h"
#include "tests/support/OpCases.h"
#include "tests/support/OpModule.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

// ULP of the result's dtype: the op's record says for f32. In f64 reference evaluation is not exact either: its own formulas
// (1 / (1 + exp(-x)), x * erfc(..)) and libm's errors are in the difference.
double ulps(llvm::StringRef op, DType dtype) {
  for (const ir::OpRow &row : ir::opTable()) {
    if (op.drop_front(5) != row.mnemonic || row.ulp <= 0) continue;
    if (byte_size(dtype) < 4) return 1; // an error of the f32 that it is computed in may round the other way
    return dtype == DType::kFloat64 ? (row.ulp >= 4 ? 128 : 8) : row.ulp;
  }
  return 0;
}

// Bound of a sum or a matrix product against exact arithmetic: n rounded terms of at most 2 * 2 each.
double boundOf(mlir::Operation *op, DType dtype) {
  if (!is_floating(dtype)) return 0;
  int64_t terms = 0;
  auto size = [](mlir::Type type) { return mlir::cast<mlir::RankedTensorType>(type).getNumElements(); };
  if (mlir::isa<ir::ReduceSumOp, ir::ReduceProdOp>(op))
    terms = size(op->getOperand(0).getType()) / std::max<int64_t>(1, size(op->getResult(0).getType()));
  else if (auto matmul = mlir::dyn_cast<ir::MatmulOp>(op)) terms = matmul.getLhs().getType().getShape()[matmul.getLhs().getType().getRank() - (matmul.getTransposeLhs() ? 2 : 1)];
  else if (mlir::isa<ir::CumsumOp>(op))
    terms = mlir::cast<mlir::RankedTensorType>(op->getOperand(0).getType()).getShape()[mlir::cast<ir::CumsumOp>(op).getDim()];
  else if (mlir::isa<ir::IndexAddOp, ir::ScatterAddOp>(op)) terms = size(op->getOperand(2).getType());
  double eps = dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
  return terms * 4.0 * terms * eps;
}

class KernelOps : public testing::TestWithParam<DType> {};

TEST_P(KernelOps, AgreesWithReference) {
  mlir::MLIRContext context;
  registerCodegenDialects(context);
  int64_t ran = 0;
  for (const tests::OpCase &c : tests::allCases(context)) {
    tests::OpModule made = tests::buildModule(context, c, GetParam());
    if (!made.op) continue;
    if (FusionDomain::fusible(made.op) != Refusal::None) continue;
    std::string error;
    std::vector<HostTensor> expected = tests::evaluate(made.main, made.inputs, error);
    ASSERT_EQ(error, "") << c.name();
    double bound = boundOf(made.op, GetParam()), allowed = ulps(c.op, GetParam());
    auto kernel = TestKernel::build(fusionAround(made.op), error);
    ASSERT_TRUE(kernel) << c.name() << ": " << error;
    std::vector<HostTensor> one, several;
    EXPECT_EQ(kernel->run(made.inputs, one, 1), WEFT_KERNEL_OK) << c.name();
    EXPECT_EQ(kernel->run(made.inputs, several, 3), WEFT_KERNEL_OK) << c.name();
    for (size_t i = 0; i < expected.size(); ++i) {
      std::vector<double> bounds;
      if (bound > 0) bounds.push_back(bound);
      EXPECT_EQ(tests::compareWithin(one[i], expected[i], allowed, bounds), "") << c.name() << " " << name(GetParam());
      EXPECT_EQ(tests::compareExact(several[i], one[i]), "") << c.name() << " " << name(GetParam()) << ", several ranges of pieces";
    }
    for (auto pair : kernel->info.inPlace) {
      std::vector<HostTensor> shared;
      EXPECT_EQ(kernel->run(made.inputs, shared, 2, pair), WEFT_KERNEL_OK) << c.name();
      EXPECT_EQ(tests::compareExact(shared[pair.first], one[pair.first]), "") << c.name() << ", in place of operand " << pair.second;
    }
    ++ran;
  }
  EXPECT_GT(ran, 30);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, KernelOps,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool, DType::kBFloat16,
                                         DType::kFloat16, DType::kInt8, DType::kUInt8),
                         [](const auto &info) { return std::string(name(info.param)); });

} // namespace
} // namespace weft::compiler

// Every op that has a lowering, alone in a fusion, on every dtype that its record allows: the
// kernel against reference evaluation, and one range of pieces against several, bit for bit.
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include "compiler/fusion/FusionDomain.h"

#include "tests/support/Compare.h"
#include "tests/support/ErrorBudget.h"
#include "tests/support/OpCases.h"
#include "tests/support/OpModule.h"
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
    if (!made.op)
      continue;
    if (FusionDomain::fusible(made.op) != Refusal::None)
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
  EXPECT_GT(ran, 30);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, KernelOps,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kInt32,
                                         DType::kInt64, DType::kBool, DType::kBFloat16,
                                         DType::kFloat16, DType::kInt8, DType::kUInt8),
                         [](const auto &info) { return std::string(name(info.param)); });

} // namespace
} // namespace weft::compiler

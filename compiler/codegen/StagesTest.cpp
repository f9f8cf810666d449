// What the stages of a kernel must look like: vectors where data is contiguous, masks in tails, no calls, no contraction.
#include "compiler/codegen/KernelTester.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mlir/Parser/Parser.h"

namespace weft::compiler {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Stages {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<TestKernel> kernel;
};

std::unique_ptr<Stages> build(const std::string &text, const std::string &cpu = "") {
  auto stages = std::make_unique<Stages>();
  registerCodegenDialects(stages->context);
  stages->module = mlir::parseSourceString<mlir::ModuleOp>(text, &stages->context);
  ir::FusionOp fusion;
  if (stages->module) stages->module->walk([&](ir::FusionOp op) { fusion = op; });
  std::string error;
  TargetInfo target = TargetInfo::host();
  if (!cpu.empty()) {
    auto named = TargetInfo::named(cpu);
    EXPECT_TRUE(named.ok());
    target = *named;
  }
  if (fusion) stages->kernel = TestKernel::build(fusion, error, /*dump=*/true, target);
  EXPECT_TRUE(stages->kernel) << error;
  return stages;
}

constexpr const char *kElementwise = R"(
  func.func @main(%p: tensor<100xf32>, %q: tensor<f32>) {
    %r = weft.fusion(%a = %p : tensor<100xf32>, %b = %q : tensor<f32>) -> (tensor<100xf32>) {
      %0 = weft.broadcast %b : tensor<f32> to tensor<100xf32>
      %1 = weft.mul %a, %0 : tensor<100xf32>
      %2 = weft.add %1, %0 : tensor<100xf32>
      %3 = weft.exp %2 : tensor<100xf32>
      weft.yield %3 : tensor<100xf32>
    }
    return
  })";

TEST(Stages, ElementwiseIsVectorsAndOneMaskedTail) {
  auto stages = build(kElementwise);
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("linalg"), HasSubstr("linalg.generic"));
  std::string loops = stages->kernel->dump("loops");
  EXPECT_THAT(loops, HasSubstr("vector.load"));
  EXPECT_THAT(loops, HasSubstr("vector.maskedload"));
  EXPECT_THAT(loops, HasSubstr("vector.maskedstore"));
  EXPECT_THAT(loops, HasSubstr("math.exp"));
  EXPECT_THAT(loops, Not(HasSubstr("vector.gather")));
  EXPECT_THAT(stages->kernel->dump("math"), Not(HasSubstr("math.exp")));
}

TEST(Stages, NoCallsAndNoImplicitContraction) {
  auto stages = build(kElementwise);
  ASSERT_TRUE(stages->kernel);
  std::string ll = stages->kernel->dump("ll");
  EXPECT_THAT(ll, Not(HasSubstr("@expf")));
  EXPECT_THAT(ll, Not(HasSubstr("llvm.exp")));
  // a * b + b stays a multiplication and an addition.
  EXPECT_THAT(ll, HasSubstr("fmul <16 x float>"));
  EXPECT_THAT(ll, HasSubstr("fadd <16 x float>"));
  for (const char *flag : {"fast ", "contract", "reassoc", "nnan"}) EXPECT_THAT(ll, Not(HasSubstr(flag))) << flag;
}

TEST(Stages, TargetsChooseRegistersOnly) {
  auto avx2 = build(kElementwise, "x86-64-v3");
  ASSERT_TRUE(avx2->kernel);
  EXPECT_THAT(avx2->kernel->dump("s"), HasSubstr("ymm"));
  EXPECT_THAT(avx2->kernel->dump("s"), Not(HasSubstr("zmm")));
  EXPECT_FALSE(TargetInfo::named("no-such-cpu").ok());
}

TEST(Stages, AScalarSharesNothingAndARowOfTheSameShapeDoes) {
  auto stages = build(kElementwise);
  ASSERT_TRUE(stages->kernel);
  ASSERT_EQ(stages->kernel->info.inPlace.size(), 1u);
  EXPECT_EQ(stages->kernel->info.inPlace[0], (std::pair<int64_t, int64_t>(0, 0)));
}

} // namespace
} // namespace weft::compiler

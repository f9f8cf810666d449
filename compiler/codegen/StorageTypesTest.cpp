// Conversions to and from the 16-bit floats, in kernels with the machine's instructions and without
// them and in host code: every value, and every border between two of them, against LLVM's APFloat.
// And that a kernel writes no more than its elements.
#include "compiler/codegen/KernelTester.h"

#include <cmath>

#include "mlir/Parser/Parser.h"
#include "runtime/core/float16.h"
#include "tests/support/Compare.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

// A kernel that casts `n` elements.
std::unique_ptr<TestKernel> castKernel(mlir::MLIRContext &context, DType from, DType to, int64_t n,
                                       const TargetInfo &target, std::string &error) {
  mlir::OpBuilder b(&context);
  mlir::Location loc = b.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  auto input = mlir::RankedTensorType::get({n}, ir::elementType(from, &context)),
       output = input.clone(ir::elementType(to, &context));
  b.setInsertionPointToEnd(module->getBody());
  auto main = mlir::func::FuncOp::create(b, loc, "main", b.getFunctionType({input}, {output}));
  b.setInsertionPointToStart(main.addEntryBlock());
  auto fusion = ir::FusionOp::create(b, loc, mlir::TypeRange{output}, main.getArguments());
  mlir::func::ReturnOp::create(b, loc, fusion.getResults());
  mlir::Block *body = b.createBlock(&fusion.getBody(), {}, mlir::TypeRange{input}, {loc});
  b.setInsertionPointToEnd(body);
  mlir::Value result = ir::CastOp::create(b, loc, output, body->getArgument(0));
  ir::YieldOp::create(b, loc, result);
  return TestKernel::build(fusion, error, /*dump=*/false, target);
}

TargetInfo withoutF16C() {
  TargetInfo target = TargetInfo::host();
  for (size_t at = target.features.find("+f16c"); at != std::string::npos;
       at = target.features.find("+f16c"))
    target.features[at] = '-';
  return target;
}

class StorageTypesTest : public testing::TestWithParam<DType> {
protected:
  void SetUp() override {
    registerCodegenDialects(context);
  }

  // The kernel's casts of x, on this machine and on one that does not convert f16 itself, against
  // APFloat's.
  void check(const HostTensor &x, DType to) {
    HostTensor expected(to, x.shape);
    for (int64_t i = 0; i < x.size(); ++i)
      expected.set(i, x.getDouble(i));
    for (const TargetInfo &target : {TargetInfo::host(), withoutF16C()}) {
      std::string error;
      auto kernel = castKernel(context, x.dtype, to, x.size(), target, error);
      ASSERT_TRUE(kernel) << error;
      std::vector<HostTensor> results;
      ASSERT_EQ(kernel->run({x}, results), WEFT_KERNEL_OK);
      EXPECT_EQ(tests::compareExact(results[0], expected), "")
          << name(x.dtype) << " to " << name(to) << " on " << target.features;
    }
  }

  // All values of the dtype, by their bits.
  static HostTensor everyValue(DType dtype) {
    HostTensor x(dtype, {65536});
    for (int64_t i = 0; i < 65536; ++i)
      x.as<uint16_t>()[i] = static_cast<uint16_t>(i);
    return x;
  }

  // What lies around the borders between neighbours: each value, the middle to the next one, and
  // what is a little above and below.
  static std::vector<double> borders(DType dtype, double little) {
    HostTensor all = everyValue(dtype);
    std::vector<double> values = {0.0, -0.0, INFINITY, -INFINITY, std::nan("")};
    for (int64_t i = 0; i < 65535; ++i) {
      double x = all.getDouble(i), next = all.getDouble(i + 1);
      if (!std::isfinite(x))
        continue;
      // Beyond the largest one, the middle to what would come next.
      double middle = std::isfinite(next) ? x + (next - x) / 2 : x + (x - all.getDouble(i - 1)) / 2;
      for (double y : {x, middle})
        for (double factor : {1 - little, 1., 1 + little})
          values.push_back(y * factor);
    }
    return values;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(StorageTypesTest, EveryValueWidens) {
  for (DType to : {DType::kFloat32, DType::kFloat64})
    check(everyValue(GetParam()), to);
}

TEST_P(StorageTypesTest, RoundsFloat32ToNearestEven) {
  std::vector<double> values = borders(GetParam(), 0x1p-23);
  HostTensor x(DType::kFloat32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    x.set(static_cast<int64_t>(i), values[i]);
  check(x, GetParam());
}

// A float64 a little beside a tie: through float32, rounded to nearest, it would lie on the tie.
TEST_P(StorageTypesTest, RoundsFloat64Once) {
  std::vector<double> values = borders(GetParam(), 0x1p-40);
  HostTensor x(DType::kFloat64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    x.set(static_cast<int64_t>(i), values[i]);
  check(x, GetParam());
}

TEST_P(StorageTypesTest, HostCodeConvertsAlike) {
  bool brain = GetParam() == DType::kBFloat16;
  HostTensor all = everyValue(GetParam()), one(GetParam(), {1});
  for (int64_t i = 0; i < 65536; ++i) {
    auto bits = static_cast<uint16_t>(i);
    double wide = brain ? bfloat16_to_float(bits) : float16_to_float(bits);
    EXPECT_TRUE(wide == all.getDouble(i) || (std::isnan(wide) && std::isnan(all.getDouble(i))))
        << i;
  }
  for (double value : borders(GetParam(), 0x1p-23)) {
    auto x = static_cast<float>(value);
    one.set(0, x);
    if (!std::isnan(x))
      EXPECT_EQ(brain ? float_to_bfloat16(x) : float_to_float16(x), *one.as<uint16_t>()) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StorageTypesTest,
                         testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto &info) { return std::string(name(info.param)); });

// TestKernel checks the bytes around each buffer. LLVM 22 stores four bytes for a last single lane
// that was truncated.
TEST(NarrowStores, EndWithTheirElements) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  registerCodegenDialects(context);
  for (DType to : {DType::kBFloat16, DType::kFloat16, DType::kInt8, DType::kUInt8, DType::kInt16,
                   DType::kBool})
    for (int64_t n : {1, 2, 3, 9, 15, 17, 31, 33}) {
      HostTensor x(DType::kFloat32, {n});
      for (int64_t i = 0; i < n; ++i)
        x.set(i, static_cast<double>(i - 3));
      std::string error;
      auto kernel = castKernel(context, DType::kFloat32, to, n, TargetInfo::host(), error);
      ASSERT_TRUE(kernel) << error;
      std::vector<HostTensor> results;
      ASSERT_EQ(kernel->run({x}, results), WEFT_KERNEL_OK);
      for (int64_t i = 0; i < n; ++i) {
        double expected = to == DType::kBool    ? i != 3
                          : to == DType::kUInt8 ? std::max<double>(0, i - 3)
                                                : i - 3;
        EXPECT_EQ(results[0].getDouble(i), expected) << name(to) << " " << n;
      }
    }
}

// A total is a scalar of float64 (of float32, it is added up in that), rounded to 16 bits and read
// again by a function that ends in the sign of what it is given: LLVM 22 made one rounding of
// them, by a function of a library that no kernel has.
TEST(NarrowTotals, NeedNoLibraryOnAnyProcessor) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  registerCodegenDialects(context);
  std::vector<TargetInfo> targets = {TargetInfo::host(), withoutF16C()};
  for (const char *cpu : {"x86-64-v3", "x86-64-v4", "skylake-avx512", "znver4", "sapphirerapids"}) {
    auto target = TargetInfo::named(cpu);
    ASSERT_TRUE(target.ok()) << target.status();
    targets.push_back(*target);
  }
  for (std::string narrow : {"f16", "bf16"})
    for (std::string wide : {"f32", "f64"}) {
      std::string type = "tensor<" + narrow + ">", total = "tensor<" + wide + ">",
                  row = "tensor<60000x" + wide + ">";
      auto module = mlir::parseSourceString<mlir::ModuleOp>(
          "func.func @main(%p: " + row + ") { %r = weft.fusion(%x = %p : " + row + ") -> (" + type +
              ") { %0 = weft.reduce_sum %x, dims = [0] : " + row + " %1 = weft.cast %0 : " + total +
              " to " + type + " %2 = weft.tanh %1 : " + type + " weft.yield %2 : " + type +
              " } return }",
          &context);
      ASSERT_TRUE(module);
      ir::FusionOp fusion;
      module->walk([&](ir::FusionOp op) { fusion = op; });
      for (const TargetInfo &target : targets) {
        mlir::OwningOpRef<mlir::ModuleOp> code = mlir::ModuleOp::create(fusion.getLoc());
        ASSERT_TRUE(mlir::succeeded(buildKernel(fusion, "kernel", *code, target)));
        EXPECT_EQ(emitObject(*code, target).status(), absl::OkStatus())
            << narrow << " of " << wide << " on " << target.cpu << " " << target.features;
      }
      std::string error;
      auto kernel = TestKernel::build(fusion, error);
      ASSERT_TRUE(kernel) << error;
      HostTensor x(wide == "f32" ? DType::kFloat32 : DType::kFloat64, {60000});
      for (double sign : {1., -1.}) {
        x.set(7, sign * 0.75);
        std::vector<HostTensor> results;
        ASSERT_EQ(kernel->run({x}, results), WEFT_KERNEL_OK);
        EXPECT_NEAR(results[0].getDouble(0), sign * std::tanh(0.75), 0x1p-8);
      }
    }
}

// What is neither declared nor a plain memory operation.
TEST(Objects, NeedOnlyWhatKernelsAreLinkedTo) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  registerCodegenDialects(context);
  auto module =
      mlir::parseSourceString<mlir::ModuleOp>("llvm.func @declared(f64) -> f64\n"
                                              "llvm.func @kernel(%x: f64) -> f64 {\n"
                                              "  %0 = llvm.call @declared(%x) : (f64) -> f64\n"
                                              "  %1 = llvm.frem %0, %x : f64\n"
                                              "  llvm.return %1 : f64\n"
                                              "}",
                                              &context);
  ASSERT_TRUE(module);
  std::string message(emitObject(*module, TargetInfo::host()).status().message());
  EXPECT_NE(message.find("'fmod'"), std::string::npos) << message;
}

// LLVM's passes serve one module after the other.
TEST(Objects, AreTheSameWhateverWasMadeBefore) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  registerCodegenDialects(context);
  auto object = [&](llvm::StringRef text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    auto made = emitObject(*module, TargetInfo::host());
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or("");
  };
  const char *one = "llvm.func @one(%x: vector<8xf32>, %p: !llvm.ptr) -> vector<8xf32> {\n"
                    "  %0 = llvm.mlir.constant(dense<[1., 2., 3., 4., 5., 6., 7., 8.]> : "
                    "vector<8xf32>) : vector<8xf32>\n"
                    "  %1 = llvm.fmul %0, %x : vector<8xf32>\n"
                    "  llvm.store %1, %p : vector<8xf32>, !llvm.ptr\n"
                    "  llvm.return %1 : vector<8xf32>\n"
                    "}";
  const char *other = "llvm.func internal @callee(%x: i64, %y: i64) -> i64 {\n"
                      "  %0 = llvm.sdiv %x, %y : i64\n"
                      "  llvm.return %0 : i64\n"
                      "}\n"
                      "llvm.func @other(%x: i64) -> i64 {\n"
                      "  %0 = llvm.call @callee(%x, %x) : (i64, i64) -> i64\n"
                      "  llvm.return %0 : i64\n"
                      "}";
  std::string first = object(one), second = object(other);
  EXPECT_FALSE(first.empty());
  EXPECT_NE(first, second);
  EXPECT_EQ(object(one), first);
  EXPECT_EQ(object(one), first);
  EXPECT_EQ(object(other), second);
}

} // namespace
} // namespace weft::compiler

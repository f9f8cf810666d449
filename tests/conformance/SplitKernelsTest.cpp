// A kernel that cannot be compiled becomes smaller ones: on each backend, of fusions that are
// written here since the fuse phase makes none that are refused.
#include "compiler/backend/CompileReport.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "tests/support/BackendRun.h"
#include "tests/support/Compare.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;

// The ops of a fusion by hand, and the same ops for the compiler to fuse.
struct Case {
  const char *name, *arguments, *inputs, *body, *values, *types;
};

// Rows of a matrix and of its transpose; a constant and a broadcast that both halves read; a result
// that is given twice.
constexpr Case kTwoKindsOfRows = {"two kinds of rows",
                                  "%x: tensor<6x8xf32>, %y: tensor<8xf32>",
                                  "%a = %x : tensor<6x8xf32>, %b = %y : tensor<8xf32>",
                                  R"(
    %half = weft.constant dense<0.5> : tensor<6x8xf32>
    %wide = weft.broadcast %b : tensor<8xf32> to tensor<6x8xf32>
    %0 = weft.add %a, %wide : tensor<6x8xf32>
    %1 = weft.mul %0, %half : tensor<6x8xf32>
    %2 = weft.reduce_sum %1, dims = [1] : tensor<6x8xf32>
    %3 = weft.transpose %1, [1, 0] : tensor<6x8xf32>
    %4 = weft.reduce_max %3, dims = [1] : tensor<8x6xf32>
    %5 = weft.mul %4, %b : tensor<8xf32>
    %6 = weft.mul %half, %wide : tensor<6x8xf32>)",
                                  "%2, %5, %6, %2",
                                  "tensor<6xf32>, tensor<8xf32>, tensor<6x8xf32>, tensor<6xf32>"};
// What the second half reads of the first is in memory because the program returns it, and because
// it does not; some of it has no elements.
constexpr Case kEmptyParts = {"empty parts",
                              "%x: tensor<4x6xf32>",
                              "%a = %x : tensor<4x6xf32>",
                              R"(
    %0 = weft.neg %a : tensor<4x6xf32>
    %1 = weft.slice %0[[0, 0] : [0, 6] : [1, 1]] : tensor<4x6xf32>
    %2 = weft.neg %1 : tensor<0x6xf32>
    %3 = weft.reduce_sum %2, dims = [0] : tensor<0x6xf32>
    %4 = weft.reduce_sum %0, dims = [1] : tensor<4x6xf32>
    %5 = weft.reduce_sum %0, dims = [0] : tensor<4x6xf32>
    %6 = weft.add %5, %3 : tensor<6xf32>)",
                              "%4, %6, %1",
                              "tensor<4xf32>, tensor<6xf32>, tensor<0x6xf32>"};

mlir::OwningOpRef<mlir::ModuleOp> parse(mlir::MLIRContext &context, const Case &c, bool fused) {
  std::string body = c.body, values = c.values;
  std::string text = std::string("func.func @main(") + c.arguments + ") -> (" + c.types + ") {\n";
  if (fused) {
    llvm::SmallVector<llvm::StringRef> names;
    llvm::StringRef(c.values).split(names, ", ");
    text += "%r:" + std::to_string(names.size()) + " = weft.fusion(" + c.inputs + ") -> (" +
            c.types + ") {" + body + "\nweft.yield " + values + " : " + c.types + "\n}\n";
    values = "%r#0";
    for (size_t i = 1; i < names.size(); ++i)
      values += ", %r#" + std::to_string(i);
  } else {
    llvm::SmallVector<llvm::StringRef> inputs;
    llvm::StringRef(c.inputs).split(inputs, ", ");
    for (llvm::StringRef input : inputs) {
      auto [inside, rest] = input.split(" = ");
      auto [outside, type] = rest.split(" : ");
      for (size_t at; (at = body.find((inside + " ").str())) != std::string::npos ||
                      (at = body.find((inside + ",").str())) != std::string::npos;)
        body.replace(at, inside.size(), outside.str());
    }
    text += body;
  }
  text += "\nreturn " + values + " : " + c.types + "\n}";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context, "program.mlir");
  EXPECT_TRUE(module) << text;
  return module;
}

// Small whole numbers, of which any order of additions gives the same sum.
std::vector<HostTensor> inputsOf(mlir::ModuleOp module) {
  std::vector<HostTensor> inputs;
  for (mlir::Type type : module.lookupSymbol<mlir::func::FuncOp>("main").getArgumentTypes()) {
    HostTensor tensor(DType::kFloat32, mlir::cast<mlir::RankedTensorType>(type).getShape().vec());
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, double((i * 7 + int64_t(inputs.size())) % 11 - 5));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

class SplitKernels : public testing::TestWithParam<Variant> {
protected:
  SplitKernels() {
    prepare(context);
  }
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(SplitKernels, RunAsSmallerOnes) {
  for (const Case &c : {kTwoKindsOfRows, kEmptyParts}) {
    SCOPED_TRACE(c.name);
    auto fused = parse(context, c, true), apart = parse(context, c, false);
    ASSERT_TRUE(fused && apart);
    compiler::CompileReport report;
    auto one = compile(*fused, GetParam(), &report), other = compile(*apart, GetParam());
    ASSERT_TRUE(one.ok()) << one.status();
    ASSERT_TRUE(other.ok()) << other.status();
    std::string remarks = llvm::join(report.remarks, "\n");
    EXPECT_NE(remarks.find("codegen: refused 1 x does-not-compile: the kernel of weft."),
              std::string::npos)
        << remarks;
    EXPECT_NE(remarks.find("weft.reduce_sum (program.mlir:"), std::string::npos) << remarks;
    EXPECT_GE(report.kernels, 2);
    auto inputs = inputsOf(*fused);
    for (int threads : {1, 2}) {
      auto got = run(*one, inputs, threads), expected = run(*other, inputs, threads);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_EQ(got->size(), expected->size());
      for (size_t i = 0; i < got->size(); ++i)
        EXPECT_EQ(compareExact((*got)[i], (*expected)[i]), "") << "result " << i;
    }
  }
}

// There is nothing smaller than an op: the error says which one it is, where it stands, and why.
TEST_P(SplitKernels, AnOpThatCannotBeCompiledIsNamed) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = weft.fusion(%a = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
    %1 = weft.neg %a : tensor<4x8xf32>
    %2 = weft.softmax %1, dim = 1 : tensor<4x8xf32>
    %3 = weft.neg %2 : tensor<4x8xf32>
    weft.yield %3 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
})",
                                                        &context, "program.mlir");
  ASSERT_TRUE(module);
  auto executable = compile(*module, GetParam());
  ASSERT_FALSE(executable.ok());
  std::string message(executable.status().message());
  EXPECT_NE(message.find("weft.softmax (program.mlir:5) cannot be compiled: "), std::string::npos)
      << message;
  EXPECT_NE(message.find("the op has no lowering to a kernel"), std::string::npos) << message;
}

std::vector<Variant> compiling() {
  std::vector<Variant> some;
  for (const Variant &variant : variants())
    if (variant.backend == "cpu" || llvm::StringRef(variant.backend).ends_with("-simulated"))
      some.push_back(variant);
  return some;
}
INSTANTIATE_TEST_SUITE_P(Backends, SplitKernels, testing::ValuesIn(compiling()),
                         [](const auto &info) {
                           std::string name = info.param.name;
                           for (char &c : name)
                             c = std::isalnum(c) ? c : '_';
                           return name;
                         });

} // namespace
} // namespace weft::tests

#include "backends/reference/Interpreter.h"

#include <gtest/gtest.h>

#include "dialects/weft/ir/Weft.h"
#include "mlir/Parser/Parser.h"

namespace weft::backends::reference {
namespace {

using ir::HostTensor;

class InterpreterTest : public testing::Test {
protected:
  InterpreterTest()
      : diagnostics(&context,
                    [this](mlir::Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; }) {
    context.loadDialect<ir::WeftDialect>();
  }

  static HostTensor floats(std::vector<int64_t> shape, std::vector<float> values) {
    HostTensor tensor(DType::kFloat32, std::move(shape));
    for (size_t i = 0; i < values.size(); ++i)
      tensor.set(i, values[i]);
    return tensor;
  }
  static std::vector<double> numbers(const HostTensor &tensor) {
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.size(); ++i)
      values.push_back(tensor.getDouble(i));
    return values;
  }
  // Runs @main of the program text.
  mlir::FailureOr<llvm::SmallVector<HostTensor>> run(llvm::StringRef text,
                                                     llvm::SmallVector<HostTensor> inputs) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << messages;
    if (!module)
      return mlir::failure();
    return interpret(module->lookupSymbol<mlir::func::FuncOp>("main"), std::move(inputs));
  }

  mlir::MLIRContext context;
  std::string messages;
  mlir::ScopedDiagnosticHandler diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(InterpreterTest, RunsOpsInOrderAndReturnsAValueTwice) {
  auto results = run(
      R"(func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>) {
    %0 = weft.add %x, %x : tensor<2x2xf32>
    %1 = weft.reduce_sum %0, dims = [1] : tensor<2x2xf32>
    return %0, %1, %0 : tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>
  })",
      {floats({2, 2}, {1, 2, 3, 4})});
  ASSERT_TRUE(mlir::succeeded(results)) << messages;
  EXPECT_EQ(numbers((*results)[0]), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(numbers((*results)[1]), (std::vector<double>{6, 14}));
  EXPECT_EQ(numbers((*results)[2]), (std::vector<double>{2, 4, 6, 8}));
}

TEST_F(InterpreterTest, RunsFusionsAndProviderCallsThroughTheirBodies) {
  auto results = run(R"(func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = weft.provider_call "onednn.matmul"(%a = %x : tensor<2x2xf32>) -> (tensor<2x2xf32>) config {} {
      %p = weft.matmul %a, %a : tensor<2x2xf32>, tensor<2x2xf32>
      weft.yield %p : tensor<2x2xf32>
    }
    %1 = weft.fusion(%b = %0 : tensor<2x2xf32>, %c = %x : tensor<2x2xf32>) -> (tensor<2x2xf32>) {
      %n = weft.neg %b : tensor<2x2xf32>
      %s = weft.sub %n, %c : tensor<2x2xf32>
      weft.yield %s : tensor<2x2xf32>
    }
    return %1 : tensor<2x2xf32>
  })",
                     {floats({2, 2}, {1, 2, 3, 4})});
  ASSERT_TRUE(mlir::succeeded(results)) << messages;
  EXPECT_EQ(numbers((*results)[0]), (std::vector<double>{-8, -12, -18, -26}));
}

TEST_F(InterpreterTest, SymbolicDimsTakeTheSizesOfTheInputs) {
  constexpr const char *program =
      R"(func.func @main(%x: tensor<?x2xf32, #weft.dims<n, _>>, %y: tensor<?xf32, #weft.dims<n>>) -> tensor<2x?xf32, #weft.dims<_, n>> {
    %0 = weft.transpose %x, [1, 0] : tensor<?x2xf32, #weft.dims<n, _>>
    %1 = weft.broadcast %y : tensor<?xf32, #weft.dims<n>> to tensor<2x?xf32, #weft.dims<_, n>>
    %2 = weft.mul %0, %1 : tensor<2x?xf32, #weft.dims<_, n>>
    return %2 : tensor<2x?xf32, #weft.dims<_, n>>
  })";
  auto results = run(program, {floats({3, 2}, {1, 2, 3, 4, 5, 6}), floats({3}, {1, 10, 100})});
  ASSERT_TRUE(mlir::succeeded(results)) << messages;
  EXPECT_EQ((*results)[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(numbers((*results)[0]), (std::vector<double>{1, 30, 500, 2, 40, 600}));

  EXPECT_TRUE(mlir::failed(run(program, {floats({3, 2}, {}), floats({4}, {})})));
  EXPECT_NE(messages.find("'n' is already 3"), std::string::npos) << messages;
}

TEST_F(InterpreterTest, ReportsWhatAProgramHitsWhenItRuns) {
  HostTensor indices(DType::kInt64, {2});
  indices.setInt(1, -4);
  EXPECT_TRUE(
      mlir::failed(run(R"(func.func @main(%x: tensor<3xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
    %0 = weft.index_select %x, %i, dim = 0 : tensor<3xf32>, tensor<2xi64>
    return %0 : tensor<2xf32>
  })",
                       {floats({3}, {1, 2, 3}), indices})));
  EXPECT_NE(messages.find("weft.index_select: index -4 at position 1 is out of range; it must lie "
                          "in [-3, 3)"),
            std::string::npos)
      << messages;
}

TEST_F(InterpreterTest, RefusesInputsOfAnotherTypeOrNumber) {
  constexpr const char *program =
      "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }";
  EXPECT_TRUE(mlir::failed(run(program, {floats({2}, {1, 2})})));
  EXPECT_NE(messages.find("argument 0 is float32[3] but the given tensor is float32[2]"),
            std::string::npos)
      << messages;
  EXPECT_TRUE(mlir::failed(run(program, {})));
  EXPECT_NE(messages.find("takes 1 arguments but is given 0"), std::string::npos) << messages;
}

TEST_F(InterpreterTest, RunsALongChain) {
  constexpr int count = 300000;
  context.loadDialect<mlir::func::FuncDialect>();
  mlir::OpBuilder b(&context);
  mlir::Location loc = b.getUnknownLoc();
  auto type = mlir::RankedTensorType::get({}, b.getF32Type());
  mlir::OwningOpRef<mlir::ModuleOp> chain = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(chain->getBody());
  auto function = mlir::func::FuncOp::create(b, loc, "main", b.getFunctionType({type}, {type}));
  b.setInsertionPointToEnd(function.addEntryBlock());
  mlir::Value value = function.getArgument(0);
  for (int i = 0; i < count; ++i)
    value = ir::NegOp::create(b, loc, value);
  mlir::func::ReturnOp::create(b, loc, value);
  auto results = interpret(function, {floats({}, {3})});
  ASSERT_TRUE(mlir::succeeded(results)) << messages;
  EXPECT_EQ((*results)[0].getDouble(0), 3);
}

} // namespace
} // namespace weft::backends::reference

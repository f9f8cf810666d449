// Folds hold for every value: NaN, infinities and signed zeros. Each test folds ops over an unknown
// %x, or over constants.
#include "dialects/weft/rules/Folding.h"

#include <limits>

#include "dialects/weft/test/DialectFixture.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/FoldUtils.h"

namespace weft::ir {
namespace {

class FoldingTest : public DialectFixture {
protected:
  // Folds the ops of @f in order and returns the value that is returned.
  mlir::Value fold(llvm::StringRef text) {
    function = parse(text);
    EXPECT_TRUE(function) << messages;
    if (!function)
      return {};
    mlir::OperationFolder folder(&context);
    for (mlir::Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator())) {
      if (mlir::isa<ConstantOp>(op))
        continue;
      (void)folder.tryToFold(&op);
    }
    return function.getBody().front().getTerminator()->getOperand(0);
  }
  // The same for the body of a function of %x: tensor<2x3xf32>.
  mlir::Value foldOver(llvm::StringRef body, llvm::StringRef result = "tensor<2x3xf32>") {
    return fold(("func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x3xi32>, %b: tensor<2x3xi1>, %s: "
                 "tensor<2xi64>) -> " +
                 result + " {\n" + body + "\nreturn %r : " + result + "\n}")
                    .str());
  }
  bool isArgument(mlir::Value value, unsigned number = 0) {
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
    return argument && argument.getArgNumber() == number;
  }
  mlir::DenseElementsAttr constant(mlir::Value value) {
    mlir::DenseElementsAttr attribute;
    mlir::matchPattern(value, mlir::m_Constant(&attribute));
    return attribute;
  }

  mlir::func::FuncOp function;
};

TEST_F(FoldingTest, AddingMinusZeroIsNothingAddingZeroIsNot) {
  EXPECT_TRUE(isArgument(foldOver(
      "%z = weft.constant dense<-0.0> : tensor<2x3xf32>\n%r = weft.add %x, %z : tensor<2x3xf32>")));
  EXPECT_TRUE(isArgument(foldOver(
      "%z = weft.constant dense<-0.0> : tensor<2x3xf32>\n%r = weft.add %z, %x : tensor<2x3xf32>")));
  // -0 + 0 is 0.
  EXPECT_FALSE(isArgument(foldOver(
      "%z = weft.constant dense<0.0> : tensor<2x3xf32>\n%r = weft.add %x, %z : tensor<2x3xf32>")));
  EXPECT_TRUE(isArgument(foldOver(
      "%z = weft.constant dense<0.0> : tensor<2x3xf32>\n%r = weft.sub %x, %z : tensor<2x3xf32>")));
  EXPECT_FALSE(isArgument(foldOver(
      "%z = weft.constant dense<-0.0> : tensor<2x3xf32>\n%r = weft.sub %x, %z : tensor<2x3xf32>")));
  EXPECT_TRUE(isArgument(
      foldOver(
          "%z = weft.constant dense<0> : tensor<2x3xi32>\n%r = weft.add %i, %z : tensor<2x3xi32>",
          "tensor<2x3xi32>"),
      1));
}

TEST_F(FoldingTest, IdentitiesOfOneOperand) {
  for (const char *body :
       {"%c = weft.constant dense<1.0> : tensor<2x3xf32>\n%r = weft.mul %x, %c : tensor<2x3xf32>",
        "%c = weft.constant dense<1.0> : tensor<2x3xf32>\n%r = weft.mul %c, %x : tensor<2x3xf32>",
        "%c = weft.constant dense<1.0> : tensor<2x3xf32>\n%r = weft.div %x, %c : tensor<2x3xf32>",
        "%n = weft.neg %x : tensor<2x3xf32>\n%r = weft.neg %n : tensor<2x3xf32>",
        "%r = weft.maximum %x, %x : tensor<2x3xf32>",
        "%r = weft.select %b, %x, %x : tensor<2x3xf32>",
        "%r = weft.cast %x : tensor<2x3xf32> to tensor<2x3xf32>",
        "%w = weft.cast %x : tensor<2x3xf32> to tensor<2x3xf64>\n%r = weft.cast %w : "
        "tensor<2x3xf64> to tensor<2x3xf32>",
        "%r = weft.reshape %x : tensor<2x3xf32> to tensor<2x3xf32>",
        "%r = weft.broadcast %x : tensor<2x3xf32> to tensor<2x3xf32>",
        "%r = weft.transpose %x, [0, 1] : tensor<2x3xf32>",
        "%r = weft.slice %x [[0, 0] : [2, 3] : [1, 1]] : tensor<2x3xf32>",
        "%r = weft.concat %x dim = 0 : tensor<2x3xf32>",
        "%t = weft.transpose %x, [1, 0] : tensor<2x3xf32>\n%r = weft.transpose %t, [1, 0] : "
        "tensor<3x2xf32>",
        "%f = weft.reshape %x : tensor<2x3xf32> to tensor<6xf32>\n%r = weft.reshape %f : "
        "tensor<6xf32> to tensor<2x3xf32>"})
    EXPECT_TRUE(isArgument(foldOver(body))) << body << messages;
}

TEST_F(FoldingTest, WhatDoesNotHoldForEveryValueStays) {
  for (const char *body :
       {"%c = weft.constant dense<0.0> : tensor<2x3xf32>\n%r = weft.mul %x, %c : tensor<2x3xf32>",
        "%r = weft.sub %x, %x : tensor<2x3xf32>",
        "%w = weft.cast %x : tensor<2x3xf32> to tensor<2x3xi64>\n%r = weft.cast %w : "
        "tensor<2x3xi64> to tensor<2x3xf32>",
        "%w = weft.cast %x : tensor<2x3xf32> to tensor<2x3xbf16>\n%r = weft.cast %w : "
        "tensor<2x3xbf16> to tensor<2x3xf32>",
        "%r = weft.slice %x [[1, 0] : [-1, 3] : [-1, 1]] : tensor<2x3xf32>"}) {
    mlir::Value value = foldOver(body);
    EXPECT_FALSE(isArgument(value)) << body;
    EXPECT_FALSE(constant(value)) << body;
  }
}

TEST_F(FoldingTest, ChainsOfMovementsBecomeOne) {
  mlir::Value value = foldOver("%0 = weft.reshape %x : tensor<2x3xf32> to tensor<6xf32>\n%r = "
                               "weft.reshape %0 : tensor<6xf32> to tensor<3x2xf32>",
                               "tensor<3x2xf32>");
  EXPECT_TRUE(isArgument(value.getDefiningOp<ReshapeOp>().getInput()));
  value = foldOver("%0 = weft.reshape %x : tensor<2x3xf32> to tensor<1x2x3xf32>\n"
                   "%r = weft.broadcast %0 : tensor<1x2x3xf32> to tensor<4x2x3xf32>",
                   "tensor<4x2x3xf32>");
  EXPECT_TRUE(isArgument(value.getDefiningOp<BroadcastOp>().getInput()));
  // This reshape moves the dims that the broadcast repeats along.
  value = foldOver("%0 = weft.reshape %x : tensor<2x3xf32> to tensor<2x1x3xf32>\n"
                   "%r = weft.broadcast %0 : tensor<2x1x3xf32> to tensor<2x4x3xf32>",
                   "tensor<2x4x3xf32>");
  EXPECT_FALSE(isArgument(value.getDefiningOp<BroadcastOp>().getInput()));
}

TEST_F(FoldingTest, SplatsStaySplatsOfAnySize) {
  mlir::Value value = fold(R"(func.func @f() -> tensor<1000000x1000xf32> {
    %0 = weft.constant dense<2.0> : tensor<f32>
    %1 = weft.broadcast %0 : tensor<f32> to tensor<1000000x1000xf32>
    %2 = weft.mul %1, %1 : tensor<1000000x1000xf32>
    return %2 : tensor<1000000x1000xf32>
  })");
  ASSERT_TRUE(constant(value));
  EXPECT_TRUE(constant(value).isSplat());
  EXPECT_EQ(constant(value).getSplatValue<float>(), 4.0f);
  EXPECT_EQ(constant(value).getRawData().size(), sizeof(float));
}

TEST_F(FoldingTest, LargeConstantsAreNotWrittenOut) {
  auto program = [](int64_t n) {
    std::string half = "tensor<" + std::to_string(n) + "xi32>",
                whole = "tensor<" + std::to_string(2 * n) + "xi32>";
    return "func.func @f() -> " + whole + " {\n%0 = weft.constant dense<1> : " + half +
           "\n%1 = weft.constant dense<2> : " + half + "\n%2 = weft.concat %0, %1 dim = 0 : " +
           half + ", " + half + "\nreturn %2 : " + whole + "\n}";
  };
  EXPECT_TRUE(constant(fold(program(kMaxFoldedElements / 2))));
  EXPECT_FALSE(constant(fold(program(kMaxFoldedElements / 2 + 1))));
}

// A library takes them as a bias, whatever they are.
TEST_F(FoldingTest, RepeatedVectorsStayVectors) {
  for (const char *vector : {"dense<[1.0, 2.0, 3.0]> : tensor<3xf32>", "dense<2.0> : tensor<3xf32>",
                             "dense<2.0> : tensor<1xf32>"}) {
    std::string type = llvm::StringRef(vector).split(" : ").second.str();
    mlir::Value value = foldOver(std::string("%c = weft.constant ") + vector +
                                 "\n%w = weft.broadcast %c : " + type +
                                 " to tensor<2x3xf32>\n%r = weft.add %x, %w : tensor<2x3xf32>");
    auto sum = value.getDefiningOp<AddOp>();
    ASSERT_TRUE(sum) << vector;
    auto repeats = sum.getRhs().getDefiningOp<BroadcastOp>();
    ASSERT_TRUE(repeats) << vector;
    EXPECT_TRUE(constant(repeats.getInput())) << vector;
  }
  mlir::Value scalar = foldOver("%c = weft.constant dense<2.0> : tensor<f32>\n%r = weft.broadcast "
                                "%c : tensor<f32> to tensor<2x3xf32>");
  EXPECT_TRUE(constant(scalar));
}

// What is known of a splat is known of its repeats.
TEST_F(FoldingTest, RepeatedSplatsAreSplats) {
  EXPECT_TRUE(isArgument(foldOver("%c = weft.constant dense<1.0> : tensor<3xf32>\n%w = "
                                  "weft.broadcast %c : tensor<3xf32> to tensor<2x3xf32>\n%r = "
                                  "weft.mul %x, %w : tensor<2x3xf32>")));
  mlir::Value value = foldOver("%c = weft.constant dense<3.0> : tensor<3xf32>\n%w = weft.broadcast "
                               "%c : tensor<3xf32> to tensor<2x3xf32>\n%r = weft.mul %w, %w : "
                               "tensor<2x3xf32>");
  ASSERT_TRUE(constant(value));
  EXPECT_EQ(constant(value).getSplatValue<float>(), 9.0f);
}

TEST_F(FoldingTest, SmallTablesConcatenate) {
  mlir::Value value = fold(R"(func.func @f() -> tensor<3xi32> {
    %0 = weft.constant dense<[1, 2]> : tensor<2xi32>
    %1 = weft.constant dense<3> : tensor<1xi32>
    %2 = weft.concat %0, %1 dim = 0 : tensor<2xi32>, tensor<1xi32>
    return %2 : tensor<3xi32>
  })");
  ASSERT_TRUE(constant(value));
  EXPECT_EQ(llvm::to_vector(constant(value).getValues<int32_t>()),
            (llvm::SmallVector<int32_t>{1, 2, 3}));
}

TEST_F(FoldingTest, OnlyExactFunctionsFold) {
  mlir::Value value = fold(R"(func.func @f() -> tensor<2xf32> {
    %0 = weft.constant dense<[2.0, 0x7FC00000]> : tensor<2xf32>
    %1 = weft.sqrt %0 : tensor<2xf32>
    return %1 : tensor<2xf32>
  })");
  ASSERT_TRUE(constant(value));
  EXPECT_EQ((*constant(value).value_begin<float>()), std::sqrt(2.0f));
  EXPECT_FALSE(constant(fold(R"(func.func @f() -> tensor<f32> {
    %0 = weft.constant dense<2.0> : tensor<f32>
    %1 = weft.exp %0 : tensor<f32>
    return %1 : tensor<f32>
  })")));
}

TEST_F(FoldingTest, ComparisonsAndBoolsFold) {
  mlir::Value value = fold(R"(func.func @f() -> tensor<3xi1> {
    %0 = weft.constant dense<[1.0, 2.0, 0x7FC00000]> : tensor<3xf32>
    %1 = weft.constant dense<[1.0, 1.0, 1.0]> : tensor<3xf32>
    %2 = weft.compare ge %0, %1 : tensor<3xf32>
    %3 = weft.not %2 : tensor<3xi1>
    return %3 : tensor<3xi1>
  })");
  ASSERT_TRUE(constant(value));
  EXPECT_EQ(llvm::to_vector(constant(value).getValues<bool>()),
            (llvm::SmallVector<bool>{false, false, true}));
}

TEST_F(FoldingTest, AdvancesBecomeOffsets) {
  mlir::Value value = foldOver("%0 = weft.random_advance %s, 16 : tensor<2xi64>\n%1 = "
                               "weft.random_advance %0, 32 : tensor<2xi64>\n"
                               "%r = weft.random_uniform %1 {offset = 4 : i64} : tensor<2x3xf32>");
  auto sample = value.getDefiningOp<RandomUniformOp>();
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample.getOffset(), 52);
  EXPECT_TRUE(isArgument(sample.getState(), 3));
  EXPECT_TRUE(
      isArgument(foldOver("%r = weft.random_advance %s, 0 : tensor<2xi64>", "tensor<2xi64>"), 3));
}

TEST_F(FoldingTest, SymbolicTypesNeverBecomeConstants) {
  mlir::Value value =
      fold(R"(func.func @f(%n: tensor<?xf32, #weft.dims<n>>) -> tensor<?xf32, #weft.dims<n>> {
    %0 = weft.constant dense<2.0> : tensor<f32>
    %1 = weft.broadcast %0 : tensor<f32> to tensor<?xf32, #weft.dims<n>>
    return %1 : tensor<?xf32, #weft.dims<n>>
  })");
  EXPECT_TRUE(value.getDefiningOp<BroadcastOp>());
}

} // namespace
} // namespace weft::ir

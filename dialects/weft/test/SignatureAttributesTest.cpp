#include "dialects/weft/ir/SignatureAttributes.h"

#include "dialects/weft/test/DialectFixture.h"

namespace weft::ir {
namespace {

class SignatureAttributesTest : public DialectFixture {};

TEST_F(SignatureAttributesTest, WhatIsNotChangedStays) {
  mlir::func::FuncOp function = parse(
      "func.func @f(%x: tensor<2xf32> {weft.kept, weft.name = \"x\"}, %y: tensor<2xf32>) -> "
      "(tensor<2xf32> {weft.writes = 0 : i64}, tensor<2xf32>) {\n"
      "return %x, %y : tensor<2xf32>, tensor<2xf32>\n}");
  ASSERT_TRUE(function) << messages;
  {
    SignatureAttributes attributes(function);
    attributes.argument(0).erase("weft.kept");
    attributes.argument(1).set("weft.stable", mlir::UnitAttr::get(&context));
    attributes.result(1).set("weft.writes", mlir::Builder(&context).getI64IntegerAttr(1));
    EXPECT_TRUE(function.getArgAttr(0, "weft.kept")); // not yet
  }
  EXPECT_FALSE(function.getArgAttr(0, "weft.kept"));
  EXPECT_TRUE(function.getArgAttr(0, "weft.name"));
  EXPECT_TRUE(function.getArgAttr(1, "weft.stable"));
  EXPECT_TRUE(function.getResultAttr(0, "weft.writes"));
  EXPECT_TRUE(function.getResultAttr(1, "weft.writes"));
}

TEST_F(SignatureAttributesTest, ListsOfNothingGo) {
  mlir::func::FuncOp function = parse("func.func @f(%x: tensor<2xf32> {weft.kept}) -> "
                                      "tensor<2xf32> {\nreturn %x : tensor<2xf32>\n}");
  ASSERT_TRUE(function) << messages;
  SignatureAttributes(function).argument(0).erase("weft.kept");
  EXPECT_FALSE(function.getArgAttrsAttr());
  EXPECT_FALSE(function.getResAttrsAttr());
}

} // namespace
} // namespace weft::ir

// What is asked of ops of other dialects, by their kinds and of their rules.
#include "dialects/weft/test/OtherDialect.h"

#include <stdexcept>

#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/lowerings/LowerToLinalg.h"
#include "dialects/weft/rules/CallRule.h"
#include "dialects/weft/test/DialectFixture.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"

namespace weft::ir {
namespace {

class OtherOps : public DialectFixture {
protected:
  OtherOps() {
    context.loadDialect<OtherDialect, mlir::arith::ArithDialect, mlir::linalg::LinalgDialect,
                        mlir::tensor::TensorDialect>();
  }

  // An op on tensor<2x3xf32> and two tensors of indices, which its first `operands` are.
  mlir::Operation *make(llvm::StringRef name, unsigned operands, llvm::StringRef attributes,
                        llvm::StringRef result) {
    static constexpr llvm::StringLiteral types[] = {"tensor<2x3xf32>", "tensor<4xi64>",
                                                    "tensor<4x3xf32>"};
    static constexpr llvm::StringLiteral names[] = {"%x", "%i", "%s"};
    std::string text;
    llvm::raw_string_ostream out(text);
    out << "func.func @f(%x: " << types[0] << ", %i: " << types[1] << ", %s: " << types[2]
        << ") {\n  %0 = \"other." << name << "\"(";
    llvm::interleaveComma(llvm::ArrayRef(names).take_front(operands), out);
    out << ") {" << attributes << "} : (";
    llvm::interleaveComma(llvm::ArrayRef(types).take_front(operands), out);
    out << ") -> " << result << "\n  return\n}\n";
    mlir::ParserConfig config(&context, /*verifyAfterParse=*/false);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, config);
    EXPECT_TRUE(module) << messages;
    return &module->lookupSymbol<mlir::func::FuncOp>("f").getBody().front().front();
  }
  // What the verifier says of such an op; empty where it takes it.
  std::string verified(llvm::StringRef name, unsigned operands, llvm::StringRef attributes,
                       llvm::StringRef result) {
    messages.clear();
    bool fits = succeeded(mlir::verify(make(name, operands, attributes, result)));
    EXPECT_EQ(fits, messages.empty()) << messages;
    return messages;
  }
  static bool says(const std::string &message, const std::string &part) {
    return message.find(part) != std::string::npos;
  }
};

TEST_F(OtherOps, AReductionHasDims) {
  EXPECT_EQ(verified("reduction", 1, "dims = array<i64: 1>", "tensor<2xf32>"), "");
  std::string none = verified("reduction", 1, "", "tensor<2xf32>");
  EXPECT_TRUE(says(none, "'other.reduction' op is of ReductionKind, so its record needs")) << none;
  EXPECT_TRUE(says(none, "an attribute `dims` (DenseI64ArrayAttr)")) << none;
  for (llvm::StringRef wrong : {"dims = array<i64: 2>", "dims = array<i64: -1>",
                                "dims = array<i64: 1, 0>", "dims = array<i64: 1, 1>"}) {
    std::string message = verified("reduction", 1, wrong, "tensor<2xf32>");
    EXPECT_TRUE(says(message, "each once and in order; they are [")) << message;
  }
  std::string kept = verified("reduction", 1, "dims = array<i64: 1>", "tensor<2x1xf32>");
  EXPECT_TRUE(says(kept, "one tensor of the dims that `dims` leaves")) << kept;
}

TEST_F(OtherOps, WhatDataIndexHasADim) {
  EXPECT_EQ(verified("gather", 2, "dim = 0 : i64", "tensor<4x3xf32>"), "");
  EXPECT_EQ(verified("scatter", 3, "dim = 0 : i64", "tensor<2x3xf32>"), "");
  for (auto [name, operands] : {std::pair("gather", 2), std::pair("scatter", 3)}) {
    std::string none = verified(name, operands, "", "tensor<2x3xf32>");
    EXPECT_TRUE(says(none, "an attribute `dim` (I64Attr)")) << none;
    EXPECT_TRUE(says(none, std::string("'other.") + name)) << none;
    std::string few = verified(name, 1, "dim = 0 : i64", "tensor<2x3xf32>");
    EXPECT_TRUE(says(few, "so its record needs " + std::to_string(operands) + " operands")) << few;
    std::string wrong = verified(name, operands, "dim = 2 : i64", "tensor<2x3xf32>");
    EXPECT_TRUE(says(wrong, "it is 2")) << wrong;
    // It is asked for its bounds before it is verified.
    EXPECT_FALSE(indexBounds(make(name, 1, "", "tensor<2x3xf32>")));
  }
}

TEST_F(OtherOps, TheRuntimeExchangesForWeftsOwnAlone) {
  std::string message = verified("exchange", 1, "", "tensor<2x3xf32>");
  EXPECT_TRUE(says(message, "'other.exchange' op is of ExchangeKind")) << message;
  for (llvm::StringRef name : {"movement", "scan", "contraction", "composite"})
    EXPECT_EQ(verified(name, 1, "", "tensor<2x3xf32>"), "");
}

TEST_F(OtherOps, AStatementFitsItsOp) {
  mlir::Operation *op = make("movement", 1, "", "tensor<2x3xf32>");
  auto check = [&](IndexStatement statement) {
    messages.clear();
    OtherRules::get().statement = statement;
    bool fits = succeeded(verifyStatement(op));
    EXPECT_EQ(fits, messages.empty());
    EXPECT_EQ(statementOf(op).has_value(), fits);
    return messages;
  };
  IndexStatement right;
  Positions all = right.addAll(op->getResult(0).getType());
  right.operands = right.results = {all};
  EXPECT_EQ(check(right), "");
  IndexStatement wrong = right;
  wrong.operands.clear();
  std::string none = check(wrong);
  EXPECT_TRUE(says(none, "'other.movement' op is at fault in its rule: its statement has positions "
                         "of 0 operands, but the op has 1"))
      << none;
  wrong = right;
  wrong.results.push_back(all);
  EXPECT_TRUE(says(check(wrong), "positions of 2 results, but the op has 1")) << messages;
  wrong = right;
  wrong.operands[0].pop_back();
  EXPECT_TRUE(says(check(wrong), "has 1 positions for operand 0, float32[2, 3]")) << messages;
  wrong = right;
  wrong.operands[0][0] = Position({{17, 1}}, 0);
  EXPECT_TRUE(says(check(wrong), "puts operand 0 at dim 17 of its 2")) << messages;
  wrong = right;
  wrong.dims[0].size = Dim(int64_t(1) << 50);
  EXPECT_TRUE(says(check(wrong), "its statement has a dim of size 1125899906842624 for dim 0 of "
                                 "result 0, float32[2, 3]"))
      << messages;
  OtherRules::get().statement = std::nullopt;
  EXPECT_TRUE(succeeded(verifyStatement(op)));
}

// What a kernel reads without asking must be there.
TEST_F(OtherOps, AMovementStaysInItsOperand) {
  mlir::Operation *op = make("movement", 1, "", "tensor<2x3xf32>");
  auto lowered = [&](auto change) {
    messages.clear();
    IndexStatement statement;
    Positions all = statement.addAll(op->getResult(0).getType());
    statement.operands = statement.results = {all};
    change(statement, statement.operands[0][1]);
    OtherRules::get().statement = statement;
    mlir::OpBuilder builder(op);
    bool works = succeeded(lowerMovement(builder, op, op->getOperands()));
    EXPECT_EQ(works, messages.empty()) << messages;
    return messages;
  };
  EXPECT_EQ(lowered([](IndexStatement &, Position &) {}), "");
  EXPECT_EQ(lowered([](IndexStatement &, Position &at) { at = Position({{1, -1}}, 2); }), "");
  EXPECT_EQ(lowered([](IndexStatement &, Position &at) {
              at = Position({{0, 3}, {1, 1}}); // 0 to 5
              at.divisor = 2;
            }),
            "");
  EXPECT_EQ(lowered([](IndexStatement &, Position &at) {
              at = Position({{1, 1}}, 1000);
              at.modulus = 3;
            }),
            "");
  std::string beyond =
      lowered([](IndexStatement &, Position &at) { at = Position({{1, 1}}, 1000); });
  EXPECT_TRUE(says(beyond, "'other.movement' op is at fault in its rule: by its statement operand "
                           "0 reaches from 1000 to 1002 in dim 1, of 3"))
      << beyond;
  EXPECT_TRUE(says(lowered([](IndexStatement &, Position &at) { at = Position({{1, 1}}, -1); }),
                   "reaches from -1 to 1 in dim 1, of 3"))
      << messages;
  EXPECT_TRUE(says(lowered([](IndexStatement &, Position &at) {
                     at = Position({{1, int64_t(1) << 62}});
                   }),
                   "reaches beyond int64"))
      << messages;
  EXPECT_TRUE(says(lowered([](IndexStatement &, Position &at) { at.exact = true; }),
                   "leaves points out in dim 1"))
      << messages;
  EXPECT_TRUE(says(lowered([](IndexStatement &statement, Position &) {
                     statement.add("c", Dim(4), Purpose::Reduced);
                   }),
                   "by a statement whose dims are the result's, in their order; this one is (a b) "
                   "-> (a b), c reduced"))
      << messages;
}

TEST_F(OtherOps, ARuleThatThrowsIsNamed) {
  mlir::Operation *op = make("composite", 1, "", "tensor<2x3xf32>");
  auto fails = [&](llvm::StringRef name) {
    messages.clear();
    EXPECT_TRUE(failed(callRule(op, name, []() -> mlir::LogicalResult {
      throw std::runtime_error("out of luck");
    })));
    return messages;
  };
  EXPECT_TRUE(says(fails("statement"), "'other.composite' op is at fault in its rule: its "
                                       "statement threw an exception: out of luck"))
      << messages;
}

TEST_F(OtherOps, AScalarFunctionGivesTheResultsType) {
  mlir::Operation *op = make("elementwise", 1, "", "tensor<2x3xf32>");
  auto lowered = [&](auto scalar) {
    messages.clear();
    OtherRules::get().scalar = scalar;
    mlir::OpBuilder builder(op);
    bool works = succeeded(lowerElementwise(builder, op, op->getOperands()));
    EXPECT_EQ(works, messages.empty()) << messages;
    return messages;
  };
  auto given = [](mlir::OpBuilder &, mlir::Location, mlir::ValueRange args) {
    return args[0];
  };
  EXPECT_EQ(lowered(given), "");
  auto wider = [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange args) {
    return mlir::arith::ExtFOp::create(b, loc, b.getF64Type(), args[0]).getResult();
  };
  EXPECT_TRUE(says(lowered(wider), "'other.elementwise' op is at fault in its rule: its scalar "
                                   "function gives a value of 'f64' in place of 'f32'"))
      << messages;
  auto nothing = [](mlir::OpBuilder &, mlir::Location, mlir::ValueRange) {
    return mlir::Value();
  };
  EXPECT_TRUE(says(lowered(nothing), "gives nothing in place of 'f32'")) << messages;
}

// Contexts are made for every few programs: one without other dialects loads no more than Weft's.
TEST(Extensions, BringTheDialectsThatTheirRulesMayUse) {
  auto loads = [] {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<WeftDialect>();
    return std::pair(context.getLoadedDialect<OtherDialect>() != nullptr,
                     context.getLoadedDialect<mlir::linalg::LinalgDialect>() != nullptr);
  };
  EXPECT_EQ(loads(), std::pair(false, false));
  ASSERT_TRUE(registerExtension(
      "other", "1", [](mlir::DialectRegistry &registry) { registry.insert<OtherDialect>(); }));
  EXPECT_EQ(loads(), std::pair(true, true));
  unregisterExtension("other");
  EXPECT_EQ(loads(), std::pair(false, false));
}

TEST_F(OtherOps, ABodyOfAReductionGivesTheAccumulatorsType) {
  mlir::Operation *op = make("reduction", 1, "dims = array<i64: 1>", "tensor<2xf32>");
  IndexStatement statement;
  Positions at = statement.addAll(op->getResult(0).getType());
  statement.results = {at};
  at.push_back(statement.add("b", Dim(3), Purpose::Reduced));
  statement.operands = {at};
  statement.fold = Fold::Sum;
  OtherRules::get().statement = statement;
  auto lowered = [&](ScalarBody body) {
    messages.clear();
    mlir::OpBuilder builder(op);
    bool works = static_cast<bool>(
        reductionGeneric(builder, op, op->getOperands(), builder.getF32FloatAttr(0), body));
    EXPECT_EQ(works, messages.empty()) << messages;
    return messages;
  };
  auto adds = [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange args) -> mlir::Value {
    return mlir::arith::AddFOp::create(b, loc, args[0], args[1]);
  };
  EXPECT_EQ(lowered(adds), "");
  EXPECT_TRUE(
      says(lowered([](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange) -> mlir::Value {
             return mlir::arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
           }),
           "'other.reduction' op is at fault in its rule: its reduction's body gives a value of "
           "'i32' in place of 'f32'"))
      << messages;
  EXPECT_TRUE(says(lowered([](mlir::OpBuilder &, mlir::Location, mlir::ValueRange) {
                     return mlir::Value();
                   }),
                   "its reduction's body gives nothing in place of 'f32'"))
      << messages;
}

// Nobody starts an accumulator where nothing is reduced.
TEST_F(OtherOps, AReductionOfNoDimFoldsEachElementWithTheIdentity) {
  mlir::Operation *op = make("reduction", 1, "dims = array<i64>", "tensor<2x3xf32>");
  IndexStatement statement;
  Positions at = statement.addAll(op->getResult(0).getType());
  statement.results = statement.operands = {at};
  OtherRules::get().statement = statement;
  mlir::OpBuilder builder(op);
  mlir::Value folded = reductionGeneric(
      builder, op, op->getOperands(), builder.getF32FloatAttr(0),
      [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange args) -> mlir::Value {
        return mlir::arith::AddFOp::create(b, loc, args[0], args[1]);
      });
  ASSERT_TRUE(folded) << messages;
  mlir::Block &body = folded.getDefiningOp()->getRegion(0).front();
  EXPECT_FALSE(body.getArgument(0).use_empty());
  EXPECT_TRUE(body.getArgument(1).use_empty());
}

} // namespace
} // namespace weft::ir

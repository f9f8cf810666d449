// What the rules of an op of a user's throw while calls of it are recorded.
#include <functional>
#include <stdexcept>

#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "tests/support/errors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing_support::message_of;

// What the rules of mine.same do first.
struct Rules {
  std::function<void()> infer = [] {}, verify = [] {}, differentiate = [] {};
  const char *noDerivative = ""; // why there is none
  bool givesNoType = false, givesNoGradient = false;
  int64_t cotangent = 0; // which one it reads
};
Rules rules;

using mlir::InferTypeOpInterface;
namespace trait = mlir::OpTrait;

class SameOp : public mlir::Op<SameOp, trait::ZeroRegions, trait::OneResult, trait::OneOperand,
                               ir::WeftOp::Trait, InferTypeOpInterface::Trait> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SameOp)
  using Op::Op;
  static llvm::StringRef getOperationName() {
    return "mine.same";
  }
  static llvm::ArrayRef<llvm::StringRef> getAttributeNames() {
    return {};
  }
  static ir::Kind kind() {
    return ir::Kind::Movement;
  }
  static llvm::ArrayRef<int64_t> savedOperands() {
    return {};
  }
  static llvm::ArrayRef<int64_t> savedResults() {
    return {};
  }
  static llvm::ArrayRef<int64_t> specializedOperands() {
    return {};
  }
  static llvm::ArrayRef<llvm::StringRef> requiredAttributes() {
    return {};
  }
  static llvm::StringRef missingRule(ir::RuleKind rule) {
    return rule == ir::RuleKind::Derivative ? rules.noDerivative : "";
  }
  static int64_t cost() {
    return 1;
  }
  static mlir::LogicalResult
  inferReturnTypes(mlir::MLIRContext *, std::optional<mlir::Location>, mlir::ValueRange operands,
                   mlir::DictionaryAttr, mlir::OpaqueProperties, mlir::RegionRange,
                   llvm::SmallVectorImpl<mlir::Type> &results) {
    rules.infer();
    results.push_back(rules.givesNoType ? mlir::Type() : operands[0].getType());
    return mlir::success();
  }
  mlir::LogicalResult verify() {
    rules.verify();
    return mlir::success();
  }
  mlir::LogicalResult evaluate(ir::EvalContext &) {
    return mlir::failure();
  }
  static mlir::LogicalResult differentiate(ir::GradContext &context) {
    rules.differentiate();
    if (*rules.noDerivative)
      return context.noRule(getOperationName(), rules.noDerivative);
    if (!rules.givesNoGradient)
      context.grad(0, context.g(rules.cotangent));
    return mlir::success();
  }
};

class MineDialect : public mlir::Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MineDialect)
  static llvm::StringRef getDialectNamespace() {
    return "mine";
  }
  explicit MineDialect(mlir::MLIRContext *context)
      : Dialect(getDialectNamespace(), context, mlir::TypeID::get<MineDialect>()) {
    addOperations<SameOp>();
  }
};

class UserRules : public testing::Test {
protected:
  static void SetUpTestSuite() {
    ir::registerExtension("mine", "1", [](mlir::DialectRegistry &registry) {
      registry.insert<MineDialect>();
    });
  }
  ~UserRules() override {
    rules = {};
  }
  static void fail() {
    throw std::runtime_error("out of luck");
  }
  static void refuse() {
    throw Error(ErrorKind::kIndex, "too far");
  }
};

TEST_F(UserRules, WhatTheRulesOfATypeThrowIsAnErrorOfTheCall) {
  Tensor x = zeros({2, 3});
  for (auto [rule, text] : {std::pair(&Rules::infer, "inferReturnTypes"),
                            std::pair(&Rules::verify, "verifier")}) {
    rules.*rule = fail;
    std::string message =
        message_of([&] { call_op("mine.same", {x}); }, ErrorKind::kState, __LINE__);
    EXPECT_EQ(message, std::string("call_op: mine.same is at fault in its rule: its ") + text +
                           " threw an exception: out of luck");
    rules.*rule = [] {
      throw 1;
    };
    message = message_of([&] { call_op("mine.same", {x}); }, ErrorKind::kState, __LINE__);
    EXPECT_NE(message.find("threw an exception that is no std::exception"), std::string::npos);
    rules.*rule = refuse;
    EXPECT_EQ(message_of([&] { call_op("mine.same", {x}); }, ErrorKind::kIndex), "too far");
    rules = {};
  }
  EXPECT_EQ(call_op("mine.same", {x})[0].shape(), (Shape{2, 3}));
}

TEST_F(UserRules, ATypeThatIsNotGivenIsAnErrorOfTheCall) {
  rules.givesNoType = true;
  Tensor x = zeros({2, 4});
  std::string message =
      message_of([&] { call_op("mine.same", {x}); }, ErrorKind::kState, __LINE__);
  EXPECT_EQ(message, "call_op: mine.same is at fault in its rule: its inferReturnTypes gives no "
                     "type for result 0");
}

TEST_F(UserRules, AnEvaluationThatFailsWithoutAWordIsNamed) {
  Error error = testing_support::error_of([] {
    call_op("mine.same", {ones({3})})[0].to_vector<float>();
  });
  EXPECT_NE(error.message().find("'mine.same' op is at fault in its rule: its evaluation failed, "
                                 "and says nothing"),
            std::string::npos)
      << error.what();
  EXPECT_NE(std::string(error.what()).find("user_rules_test.cpp:"), std::string::npos)
      << error.what();
}

TEST_F(UserRules, ADerivativeThatGivesNothingIsNamed) {
  rules.givesNoGradient = true;
  Tensor x = zeros({13});
  x.set_requires_grad(true);
  Tensor y = sum(call_op("mine.same", {x})[0]);
  std::string message = message_of([&] { grad({y}, {x}); }, ErrorKind::kState, __LINE__);
  EXPECT_NE(message.find("; the derivative of mine.same ("), std::string::npos) << message;
  EXPECT_NE(message.find(") gives operand 0 nothing"), std::string::npos) << message;
}

TEST_F(UserRules, ADerivativeThatReadsACotangentThatIsNotThereIsNamed) {
  rules.cotangent = 3;
  Tensor x = zeros({7});
  x.set_requires_grad(true);
  Tensor y = sum(call_op("mine.same", {x})[0]);
  std::string message = message_of([&] { y.backward(); }, ErrorKind::kState, __LINE__);
  EXPECT_NE(message.find("the derivative of mine.same reads the cotangent of result 3 of 1"),
            std::string::npos)
      << message;
}

TEST_F(UserRules, WhatADerivativeThrowsIsAnErrorOfBackward) {
  Tensor x = zeros({5});
  x.set_requires_grad(true);
  auto loss = [&] {
    return sum(call_op("mine.same", {x})[0]);
  };
  rules.differentiate = fail;
  Tensor y = loss();
  std::string message = message_of([&] { y.backward(); }, ErrorKind::kState, __LINE__);
  EXPECT_EQ(message, "backward: the derivative of mine.same cannot be recorded: its rule threw an "
                     "exception: out of luck");
  rules.differentiate = refuse;
  y = loss();
  EXPECT_EQ(message_of([&] { y.backward(); }, ErrorKind::kIndex), "too far");
  rules = {};
  loss().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(5, 1));
}

// As records say it: Deferred is an error where it is needed, NotDifferentiable leaves no history.
// Each in a shape of its own, since what calls of one kind have for derivatives is known from the
// first of them on.
TEST_F(UserRules, AMissingDerivativeIsNamed) {
  auto leaf = [](int64_t size) {
    Tensor x = zeros({size});
    x.set_requires_grad(true);
    return x;
  };
  rules.noDerivative = "not written yet: nobody had the time";
  Tensor x = leaf(7), same = call_op("mine.same", {x})[0];
  EXPECT_TRUE(same.requires_grad());
  EXPECT_FALSE(call_op("mine.same", {x.detach()})[0].requires_grad());
  Tensor loss = sum(same + x);
  std::string message = message_of([&] { loss.backward(); }, ErrorKind::kState, __LINE__);
  EXPECT_EQ(message, "backward: the derivative of mine.same cannot be recorded: mine.same has no "
                     "derivative: not written yet: nobody had the time");
  EXPECT_EQ(grad({sum(call_op("mine.same", {x})[0].detach() + x)}, {x})[0].sum().item<float>(), 7);

  rules.noDerivative = "it counts";
  x = leaf(11), same = call_op("mine.same", {x})[0];
  EXPECT_FALSE(same.requires_grad());
  sum(same + x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(11, 1));
  loss = sum(same * 2);
  message = message_of([&] { loss.backward(); }, ErrorKind::kState, __LINE__);
  EXPECT_NE(message.find("does not depend on a tensor that requires grad"), std::string::npos);
  EXPECT_NE(message.find("; mine.same ("), std::string::npos) << message;
  EXPECT_NE(message.find("user_rules_test.cpp:"), std::string::npos) << message;
  EXPECT_NE(message.find(") has no derivative: it counts"), std::string::npos) << message;
}

} // namespace
} // namespace weft

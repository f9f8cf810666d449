// A dialect beside weft's, as a plugin brings one: an op of each kind that asks something of its
// ops, whose rules do what a test sets.
#pragma once

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

// What the rules of all ops of the dialect `other` give. For one test at a time.
struct OtherRules {
  std::optional<IndexStatement> statement;
  std::function<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(mlir::OpBuilder &)> decompose;
  std::function<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)> scalar;
  std::function<mlir::Value(mlir::OpBuilder &, mlir::Operation *, mlir::ValueRange)> lower;

  static OtherRules &get() {
    static OtherRules rules;
    return rules;
  }
};

constexpr llvm::StringLiteral otherName(Kind kind) {
  switch (kind) {
  case Kind::Elementwise:
    return "other.elementwise";
  case Kind::Movement:
    return "other.movement";
  case Kind::Reduction:
    return "other.reduction";
  case Kind::Scan:
    return "other.scan";
  case Kind::Contraction:
    return "other.contraction";
  case Kind::Gather:
    return "other.gather";
  case Kind::Scatter:
    return "other.scatter";
  case Kind::Composite:
    return "other.composite";
  default:
    return "other.exchange";
  }
}

template <Kind ofKind>
class OtherOp
    : public mlir::Op<OtherOp<ofKind>, mlir::OpTrait::ZeroRegions, mlir::OpTrait::VariadicResults,
                      mlir::OpTrait::VariadicOperands, WeftOp::Trait, ElementwiseOp::Trait> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OtherOp)
  using Base = mlir::Op<OtherOp<ofKind>, mlir::OpTrait::ZeroRegions, mlir::OpTrait::VariadicResults,
                        mlir::OpTrait::VariadicOperands, WeftOp::Trait, ElementwiseOp::Trait>;
  using Base::Base;

  static llvm::StringRef getOperationName() {
    return otherName(ofKind);
  }
  static llvm::ArrayRef<llvm::StringRef> getAttributeNames() {
    return {};
  }
  static Kind kind() {
    return ofKind;
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
  static llvm::StringRef missingRule(RuleKind rule) {
    return rule == RuleKind::Lowering && ofKind == Kind::Composite ? "through its decomposition"
                                                                   : "";
  }
  static int64_t cost() {
    return 1;
  }
  std::optional<IndexStatement> statement() {
    return OtherRules::get().statement;
  }
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> decompose(mlir::OpBuilder &b) {
    return OtherRules::get().decompose(b);
  }
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> lowerToLinalg(mlir::OpBuilder &b,
                                                                mlir::ValueRange operands) {
    return llvm::SmallVector<mlir::Value>{OtherRules::get().lower(b, *this, operands)};
  }
  mlir::Value emitScalar(mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange args) {
    return OtherRules::get().scalar(b, loc, args);
  }
};

class OtherDialect : public mlir::Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OtherDialect)
  static llvm::StringRef getDialectNamespace() {
    return "other";
  }
  explicit OtherDialect(mlir::MLIRContext *context)
      : Dialect(getDialectNamespace(), context, mlir::TypeID::get<OtherDialect>()) {
    OtherRules::get() = {};
    addOperations<OtherOp<Kind::Elementwise>, OtherOp<Kind::Movement>, OtherOp<Kind::Reduction>,
                  OtherOp<Kind::Scan>, OtherOp<Kind::Contraction>, OtherOp<Kind::Gather>,
                  OtherOp<Kind::Scatter>, OtherOp<Kind::Composite>, OtherOp<Kind::Exchange>>();
  }
};

} // namespace weft::ir

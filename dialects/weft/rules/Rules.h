// What the rules of op records are written with: the contexts of differentiation and evaluation,
// and small helpers.
#pragma once

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::ir {

enum class Kind {
  Creation,
  Elementwise,
  Movement,
  Reduction,
  Scan,
  Contraction,
  Gather,
  Scatter,
  Random,
  Composite,
  Exchange,
  Structure
};
enum class Direction : uint32_t; // of a comparison; the record Weft_Direction has its cases
enum class RuleKind { Derivative, Evaluation, Decomposition, Lowering, Statement };
// Whether this reason for a missing derivative (WeftOp::missingRule) is a record's Deferred: there
// is one, which nobody has written yet (Weft_Op in WeftBase.td puts the words in front).
inline bool isDeferred(llvm::StringRef reason) {
  return reason.starts_with("not written yet: ");
}

// Whether the op is of the dialect `weft`, not of a plugin's.
bool isOwn(mlir::Operation *op);
// Whether the op has what the compiler reads of ops of its kind (docs/ir.md, "One op, one record"),
// with an error at the op where it has not. The verifier of every op asks. Weft's own ops have it
// by the classes of their records.
mlir::LogicalResult verifyKind(mlir::Operation *op);
// Whether the statement that the op's record gives fits the op, with an error at the op where it
// does not. For ops of other dialects, which have verified; tests hold Weft's own.
mlir::LogicalResult verifyStatement(mlir::Operation *op);

bool isRandomState(mlir::Type type);
// A constant of one element everywhere; of a type with names of sizes, which no constant has, a
// broadcast of it.
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type,
                  mlir::TypedAttr element);
// `type` with another element type.
mlir::Type withElementType(mlir::Type type, mlir::Type element);

// A value together with the place where ops on it are built, so that rules read like formulas.
// Binary operators need operands of one type, or a number, which becomes a splat constant of the
// other side's type.
class Val {
public:
  Val() = default;
  Val(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value)
      : builder_(&builder), loc_(loc), value_(value) {}

  explicit operator bool() const {
    return static_cast<bool>(value_);
  }
  operator mlir::Value() const {
    return value_;
  }
  mlir::Value value() const {
    return value_;
  }
  mlir::RankedTensorType type() const {
    return typeOf(value_);
  }
  llvm::ArrayRef<int64_t> shape() const {
    return type().getShape();
  }
  int64_t rank() const {
    return type().getRank();
  }
  mlir::OpBuilder &builder() const {
    return *builder_;
  }
  mlir::Location loc() const {
    return *loc_;
  }
  // Another value, built at the same place.
  Val at(mlir::Value value) const {
    return Val(*builder_, *loc_, value);
  }
  // The result of a new op, built there.
  template <typename Op, typename... Args> Val make(Args &&...args) const {
    return at(Op::create(*builder_, *loc_, std::forward<Args>(args)...));
  }
  // A splat constant of this value's shape and element type, or of another shape.
  Val constant(double number) const;
  Val constant(double number, llvm::ArrayRef<int64_t> shape) const;
  // One of integers, which must hold the number: a double has no digits beyond 2^53.
  Val integer(int64_t number) const;

private:
  mlir::OpBuilder *builder_ = nullptr;
  std::optional<mlir::Location> loc_;
  mlir::Value value_;
};

Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b);
Val operator-(Val a);
Val operator+(Val a, double b);
Val operator-(Val a, double b);
Val operator-(double a, Val b);
Val operator*(Val a, double b);
Val operator*(double a, Val b);
Val operator/(Val a, double b);
Val operator/(double a, Val b);

Val exp(Val x);
Val log(Val x);
Val sqrt(Val x);
Val rsqrt(Val x);
Val tanh(Val x);
Val erf(Val x);
Val sin(Val x);
Val cos(Val x);
Val sigmoid(Val x);
Val floor(Val x);
Val maximum(Val a, Val b);
// direction: "eq", "ne", "lt", "le", "gt" or "ge"; the result is bool.
Val compare(llvm::StringRef direction, Val a, Val b);
Val select(Val condition, Val onTrue, Val onFalse);
Val cast(Val x, mlir::Type element);
Val reshape(Val x, llvm::ArrayRef<int64_t> shape);
Val broadcast(Val x, llvm::ArrayRef<int64_t> shape); // numpy's rule, dims align at the end
// The same for symbolic dims.
Val reshapeTo(Val x, llvm::ArrayRef<Dim> dims);
Val broadcastTo(Val x, llvm::ArrayRef<Dim> dims);
Val transpose(Val x, llvm::ArrayRef<int64_t> permutation);
Val sum(Val x, llvm::ArrayRef<int64_t> dims, bool keepdim = false);
Val max(Val x, llvm::ArrayRef<int64_t> dims, bool keepdim = false);
Val min(Val x, llvm::ArrayRef<int64_t> dims, bool keepdim = false);
Val prod(Val x, llvm::ArrayRef<int64_t> dims, bool keepdim = false);
Val matmul(Val a, Val b, bool transposeA = false, bool transposeB = false);
Val iota(Val like, llvm::ArrayRef<int64_t> shape, int64_t dim, mlir::Type element);
// Sums x to `dims`, from which it was broadcast.
Val sumToDims(Val x, llvm::ArrayRef<Dim> dims);

// What a derivative rule sees: properties, the types of operands and results, the saved values, the
// cotangents. Never an op in place: the same rule serves the recorder's backward and the
// weft-differentiate pass.
class GradContext {
public:
  // properties: of the op's own Properties type. operands and results: null where the record does
  // not save them. cotangents: null where none arrived (zero). needs: which operands want a
  // gradient.
  GradContext(mlir::OpBuilder &builder, mlir::Location loc, mlir::OperationName name,
              mlir::OpaqueProperties properties, mlir::TypeRange operandTypes,
              mlir::TypeRange resultTypes, llvm::ArrayRef<mlir::Value> operands,
              llvm::ArrayRef<mlir::Value> results, llvm::ArrayRef<mlir::Value> cotangents,
              llvm::ArrayRef<bool> needs);

  // The op's properties: ctx.properties<MatmulOp>().transpose_lhs ...
  template <typename Op> const typename Op::Properties &properties() const {
    return *properties_.as<const typename Op::Properties *>();
  }
  int64_t numOperands() const {
    return operandTypes_.size();
  }
  mlir::RankedTensorType operandType(int64_t i) const {
    return mlir::cast<mlir::RankedTensorType>(operandTypes_[i]);
  }
  mlir::RankedTensorType resultType(int64_t i) const {
    return mlir::cast<mlir::RankedTensorType>(resultTypes_[i]);
  }
  // The saved value of an operand or a result; reading one that the record does not save makes the
  // rule fail (isWrong).
  Val operand(int64_t i) const;
  Val result(int64_t i) const;
  // The cotangent of result i, a zero constant where none arrived; hasG says which.
  Val g(int64_t i = 0) const;
  bool hasG(int64_t i) const {
    return static_cast<bool>(cotangents_[i]);
  }
  bool needs(int64_t i) const {
    return needs_[i];
  }
  // Sets the gradient of operand i; ignored where none is needed. It has the operand's type, or the
  // rule fails.
  void grad(int64_t i, Val value);
  // From here on values of 16 bits come as float32, and a gradient is rounded where it is set: once,
  // and not at each step of the formula. For rules of several steps.
  void roundOnce() {
    roundsOnce_ = true;
  }

  mlir::OpBuilder &builder() const {
    return builder_;
  }
  mlir::Location loc() const {
    return loc_;
  }
  Val at(mlir::Value value) const {
    return Val(builder_, loc_, value);
  }
  template <typename Op, typename... Args> Val make(Args &&...args) const {
    return at(Op::create(builder_, loc_, std::forward<Args>(args)...));
  }
  // Reports that the op `name` has no derivative.
  mlir::LogicalResult noRule(llvm::StringRef name, llvm::StringRef reason) const;

  // After the rule ran: whether it broke what it was to keep to; a diagnostic says how.
  bool isWrong() const {
    return isWrong_;
  }
  // After the rule ran: one value an operand, null where no gradient was needed or set.
  llvm::ArrayRef<mlir::Value> gradients() const {
    return gradients_;
  }

private:
  mlir::InFlightDiagnostic wrong() const;
  mlir::Value saved(llvm::StringRef what, llvm::ArrayRef<mlir::Value> values,
                    llvm::ArrayRef<mlir::Type> types, int64_t i) const;
  Val computed(mlir::Value value) const;

  mlir::OpBuilder &builder_;
  mlir::Location loc_;
  mlir::OperationName name_;
  mutable bool isWrong_ = false;
  bool roundsOnce_ = false;
  mlir::OpaqueProperties properties_;
  llvm::SmallVector<mlir::Type, 4> operandTypes_, resultTypes_;
  llvm::SmallVector<mlir::Value, 4> operands_, results_, cotangents_, gradients_;
  llvm::SmallVector<bool, 4> needs_;
};

// Emits scalar arith and math ops; picks the float or integer form by type. All elementwise records
// lower through it. Functions that the machine does not have (exp, tanh, ...) become math ops,
// which compiler/math expands.
class ScalarEmitter {
public:
  ScalarEmitter(mlir::OpBuilder &builder, mlir::Location loc) : b_(builder), loc_(loc) {}
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value neg(mlir::Value x);
  mlir::Value abs(mlir::Value x);
  mlir::Value exp(mlir::Value x);
  mlir::Value exp2(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value expm1(mlir::Value x);
  mlir::Value log1p(mlir::Value x);
  mlir::Value sin(mlir::Value x);
  mlir::Value cos(mlir::Value x);
  mlir::Value sqrt(mlir::Value x);
  mlir::Value rsqrt(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value erfc(mlir::Value x);
  mlir::Value erfinv(mlir::Value x);
  mlir::Value lgamma(mlir::Value x);
  mlir::Value polygamma(mlir::Value x, int64_t order);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value sign(mlir::Value x);
  mlir::Value floor(mlir::Value x);
  mlir::Value ceil(mlir::Value x);
  mlir::Value round(mlir::Value x);
  mlir::Value relu(mlir::Value x);
  mlir::Value relu6(mlir::Value x);
  mlir::Value hardsigmoid(mlir::Value x);
  mlir::Value gelu(mlir::Value x, bool tanhApproximation);
  mlir::Value bitNot(mlir::Value x);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value rem(mlir::Value x, mlir::Value y);
  mlir::Value pow(mlir::Value x, mlir::Value y);
  mlir::Value atan2(mlir::Value y, mlir::Value x);
  mlir::Value minimum(mlir::Value x, mlir::Value y);
  mlir::Value maximum(mlir::Value x, mlir::Value y);
  mlir::Value bitAnd(mlir::Value x, mlir::Value y);
  mlir::Value bitOr(mlir::Value x, mlir::Value y);
  mlir::Value bitXor(mlir::Value x, mlir::Value y);
  mlir::Value shiftLeft(mlir::Value x, mlir::Value y);
  mlir::Value shiftRight(mlir::Value x, mlir::Value y);
  mlir::Value compare(Direction direction, mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue, mlir::Value onFalse);
  mlir::Value cast(mlir::Value x, mlir::Type to);

private:
  mlir::Value powi(mlir::Value x, mlir::Value y);

  mlir::OpBuilder &b_;
  mlir::Location loc_;
};

// arith.constant, with an unrealized cast where the type is unsigned, which arith.constant does not
// take.
mlir::Value scalarConstant(mlir::OpBuilder &b, mlir::Location loc, mlir::TypedAttr value);

// emit(args) in f32 where the arguments are narrower floats, rounded once to their type; else
// emit(args).
mlir::Value emitWidened(mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange args,
                        llvm::function_ref<mlir::Value(mlir::ValueRange)> emit);

// The linalg form of an elementwise op: one linalg.generic with identity maps around emitScalar.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerElementwise(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands);

} // namespace weft::ir

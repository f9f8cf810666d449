// Instantiates the functions of Functions.h with MLIR values, in place of math ops.
#include "compiler/math/Expand.h"

#include <array>
#include <cmath>

#include "compiler/math/Functions.h"
#include "dialects/weft/ir/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::compiler {

using mlir::Type;
using mlir::Value;
namespace arith = mlir::arith;

Type withElement(Type type, Type element) {
  if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
    return vector.cloneWith(std::nullopt, element);
  return element;
}

namespace {

struct Place {
  mlir::OpBuilder *b;
  mlir::Location loc;
  template <typename Op, typename... Args> Value make(Args &&...args) const {
    return Op::create(*b, loc, std::forward<Args>(args)...);
  }
  Value constant(Type type, mlir::TypedAttr element) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      element = mlir::SplatElementsAttr::get(vector, mlir::Attribute(element));
    return make<arith::ConstantOp>(type, element);
  }
};

struct Mask {
  Place at;
  Value value;
};
Mask both(Mask a, Mask b) {
  return {a.at, a.at.make<arith::AndIOp>(a.value, b.value)};
}
Mask either(Mask a, Mask b) {
  return {a.at, a.at.make<arith::OrIOp>(a.value, b.value)};
}
Mask negate(Mask a) {
  mlir::Type type = a.value.getType();
  return {a.at,
          a.at.make<arith::XOrIOp>(
              a.value,
              a.at.constant(type, a.at.b->getIntegerAttr(mlir::getElementTypeOrSelf(type), 1)))};
}

struct Int {
  Place at;
  Value value;
  Int constant(int64_t number) const {
    return {at,
            at.constant(value.getType(),
                        at.b->getIntegerAttr(mlir::getElementTypeOrSelf(value.getType()), number))};
  }
  Int shiftLeft(int64_t by) const {
    return {at, at.make<arith::ShLIOp>(value, constant(by).value)};
  }
  Int shiftRight(int64_t by) const {
    return {at, at.make<arith::ShRSIOp>(value, constant(by).value)};
  }
  Mask testBit(int bit) const {
    Value masked = at.make<arith::AndIOp>(value, constant(int64_t{1} << bit).value);
    return {at, at.make<arith::CmpIOp>(arith::CmpIPredicate::ne, masked, constant(0).value)};
  }
};
Int operator+(Int a, Int b) {
  return {a.at, a.at.make<arith::AddIOp>(a.value, b.value)};
}
Int operator-(Int a, Int b) {
  return {a.at, a.at.make<arith::SubIOp>(a.value, b.value)};
}
Int operator+(Int a, int64_t b) {
  return a + a.constant(b);
}
Int operator-(Int a, int64_t b) {
  return a - a.constant(b);
}

// Lanes of f32 or f64 as Functions.h wants them.
template <int kWidth> struct Float {
  static constexpr int kBits = kWidth;
  using Int = ::weft::compiler::Int;
  Place at;
  Value value;

  Float constant(double number) const {
    return {at,
            at.constant(value.getType(),
                        at.b->getFloatAttr(mlir::getElementTypeOrSelf(value.getType()), number))};
  }
  Float fromBits(Int i) const {
    return {at, at.make<arith::BitcastOp>(value.getType(), i.value)};
  }
  Float fromInt(Int i) const {
    return {at, at.make<arith::SIToFPOp>(value.getType(), i.value)};
  }
  Float infinity() const {
    return constant(INFINITY);
  }
  Float nan() const {
    return constant(NAN);
  }

  friend Float operator+(Float a, Float b) {
    return {a.at, a.at.make<arith::AddFOp>(a.value, b.value)};
  }
  friend Float operator-(Float a, Float b) {
    return {a.at, a.at.make<arith::SubFOp>(a.value, b.value)};
  }
  friend Float operator*(Float a, Float b) {
    return {a.at, a.at.make<arith::MulFOp>(a.value, b.value)};
  }
  friend Float operator/(Float a, Float b) {
    return {a.at, a.at.make<arith::DivFOp>(a.value, b.value)};
  }
  friend Float operator-(Float a) {
    return {a.at, a.at.make<arith::NegFOp>(a.value)};
  }
  friend Float fma(Float a, Float b, Float c) {
    return {a.at, a.at.make<mlir::math::FmaOp>(a.value, b.value, c.value)};
  }
  friend Float abs(Float a) {
    return {a.at, a.at.make<mlir::math::AbsFOp>(a.value)};
  }
  friend Float sqrt(Float a) {
    return {a.at, a.at.make<mlir::math::SqrtOp>(a.value)};
  }
  friend Float floor(Float a) {
    return {a.at, a.at.make<mlir::math::FloorOp>(a.value)};
  }
  friend Float copySign(Float a, Float sign) {
    return {a.at, a.at.make<mlir::math::CopySignOp>(a.value, sign.value)};
  }
  friend Mask lt(Float a, Float b) {
    return {a.at, a.at.make<arith::CmpFOp>(arith::CmpFPredicate::OLT, a.value, b.value)};
  }
  friend Mask eq(Float a, Float b) {
    return {a.at, a.at.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, a.value, b.value)};
  }
  friend Mask unordered(Float a) {
    return {a.at, a.at.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, a.value, a.value)};
  }
  friend Mask signBit(Float a) {
    Int i = bits(a);
    return {a.at,
            a.at.make<arith::CmpIOp>(arith::CmpIPredicate::slt, i.value, i.constant(0).value)};
  }
  friend Float select(Mask m, Float a, Float b) {
    return {a.at, a.at.make<arith::SelectOp>(m.value, a.value, b.value)};
  }
  friend Int bits(Float a) {
    return {a.at, a.at.make<arith::BitcastOp>(
                      withElement(a.value.getType(), a.at.b->getIntegerType(kWidth)), a.value)};
  }
};

//===-- What few lanes need -------------------------------------------------------------------===//

// Whether any lane of the mask is set.
Value anyOf(Mask mask) {
  if (!mlir::isa<mlir::VectorType>(mask.value.getType()))
    return mask.value;
  return mask.at.make<mlir::vector::ReductionOp>(mlir::vector::CombiningKind::OR, mask.value);
}

// Lanes that the body of a branch is emitted for. Few calls take the branch, so that a loop over
// pieces of a vector costs them little; code for all lanes is several registers wide in each step,
// and took most of the time to compile its function.
constexpr int64_t kRareLanes = 4;

// body(x), kRareLanes at a time. Pieces of vectors have no place but memory.
template <int kWidth, size_t N, typename Body>
std::array<Value, N> inPieces(Float<kWidth> x, Body body) {
  Place at = x.at;
  std::array<Value, N> values;
  auto keep = [&](const std::array<Float<kWidth>, N> &results) {
    for (size_t i = 0; i < N; ++i)
      values[i] = results[i].value;
  };
  auto type = mlir::dyn_cast<mlir::VectorType>(x.value.getType());
  if (!type || type.getDimSize(0) <= kRareLanes) {
    keep(body(x));
    return values;
  }
  auto index = [&](int64_t number) {
    return at.make<arith::ConstantIndexOp>(number);
  };
  auto row = [&] {
    // Outside of all loops: what one allocates is freed when its function ends.
    mlir::OpBuilder::InsertionGuard guard(*at.b);
    mlir::Operation *parent = at.b->getInsertionBlock()->getParentOp();
    auto function = mlir::dyn_cast<mlir::FunctionOpInterface>(parent);
    if (!function)
      function = parent->getParentOfType<mlir::FunctionOpInterface>();
    at.b->setInsertionPointToStart(&function.getFunctionBody().front());
    return at.make<mlir::memref::AllocaOp>(
        mlir::MemRefType::get(type.getShape(), type.getElementType()));
  };
  Value from = row();
  mlir::vector::StoreOp::create(*at.b, at.loc, x.value, from, index(0));
  std::array<Value, N> to;
  auto loop = mlir::scf::ForOp::create(*at.b, at.loc, index(0), index(type.getDimSize(0)),
                                       index(kRareLanes));
  {
    mlir::OpBuilder::InsertionGuard guard(*at.b);
    at.b->setInsertionPointToStart(loop.getBody());
    Value first = loop.getInductionVar();
    auto piece = mlir::VectorType::get({kRareLanes}, type.getElementType());
    keep(body({at, at.make<mlir::vector::LoadOp>(piece, from, first)}));
    for (size_t i = 0; i < N; ++i)
      mlir::vector::StoreOp::create(*at.b, at.loc, values[i], to[i] = row(), first);
  }
  for (size_t i = 0; i < N; ++i)
    values[i] = at.make<mlir::vector::LoadOp>(type, to[i], index(0));
  return values;
}

template <int kWidth, size_t N, typename Body>
std::array<Float<kWidth>, N> ifAny(Mask mask, Float<kWidth> x,
                                   const std::array<Float<kWidth>, N> &otherwise, Body body) {
  Place at = mask.at;
  llvm::SmallVector<Type> types;
  llvm::SmallVector<Value> unchanged;
  for (const auto &value : otherwise) {
    types.push_back(value.value.getType());
    unchanged.push_back(value.value);
  }
  auto branch = mlir::scf::IfOp::create(*at.b, at.loc, types, anyOf(mask), /*withElseRegion=*/true);
  mlir::OpBuilder::InsertionGuard guard(*at.b);
  at.b->setInsertionPointToStart(branch.thenBlock());
  llvm::SmallVector<Value> chosen;
  for (auto [value, other] : llvm::zip(inPieces<kWidth, N>(x, body), unchanged))
    chosen.push_back(at.make<arith::SelectOp>(mask.value, value, other));
  mlir::scf::YieldOp::create(*at.b, at.loc, chosen);
  at.b->setInsertionPointToStart(branch.elseBlock());
  mlir::scf::YieldOp::create(*at.b, at.loc, unchanged);
  std::array<Float<kWidth>, N> results = otherwise;
  for (size_t i = 0; i < N; ++i)
    results[i].value = branch.getResult(i);
  return results;
}

template <int kWidth, typename Condition, typename Body>
Float<kWidth> whileAny(Condition condition, Float<kWidth> start, Body body) {
  Place at = start.at;
  auto inside = [&](mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange arguments,
                    bool isTest) {
    mlir::OpBuilder::InsertionGuard guard(*at.b);
    at.b->setInsertionPoint(builder.getInsertionBlock(), builder.getInsertionPoint());
    Float<kWidth> value{at, arguments[0]};
    if (isTest)
      mlir::scf::ConditionOp::create(*at.b, loc, anyOf(condition(value)), arguments);
    else
      mlir::scf::YieldOp::create(*at.b, loc, body(value).value);
  };
  auto loop = mlir::scf::WhileOp::create(
      *at.b, at.loc, mlir::TypeRange{start.value.getType()}, mlir::ValueRange{start.value},
      [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange arguments) {
        inside(b, loc, arguments, true);
      },
      [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange arguments) {
        inside(b, loc, arguments, false);
      });
  return {at, loop.getResult(0)};
}

// table[index], where the table is a global of the kernel's object.
template <int kWidth, size_t N>
Float<kWidth> lookup(Float<kWidth> like, const double (&table)[N], Int index) {
  const Place &at = like.at;
  Type element = mlir::getElementTypeOrSelf(like.value.getType());
  auto module =
      at.b->getInsertionBlock()->getParentOp()->template getParentOfType<mlir::ModuleOp>();
  auto type = mlir::MemRefType::get({static_cast<int64_t>(N)}, element);
  const char *name = "weft_two_over_pi";
  if (!module.lookupSymbol(name)) {
    mlir::OpBuilder::InsertionGuard guard(*at.b);
    at.b->setInsertionPointToStart(module.getBody());
    auto data = mlir::DenseElementsAttr::get(
        mlir::RankedTensorType::get({static_cast<int64_t>(N)}, element),
        llvm::ArrayRef<double>(table));
    mlir::memref::GlobalOp::create(*at.b, at.loc, name, at.b->getStringAttr("private"), type, data,
                                   /*constant=*/true, mlir::IntegerAttr());
  }
  Value memory = at.make<mlir::memref::GetGlobalOp>(type, name);
  Value position = at.make<arith::IndexCastOp>(
      withElement(index.value.getType(), at.b->getIndexType()), index.value);
  auto vector = mlir::dyn_cast<mlir::VectorType>(like.value.getType());
  if (!vector)
    return {at, at.make<mlir::memref::LoadOp>(memory, mlir::ValueRange{position})};
  Value zero = at.make<arith::ConstantIndexOp>(0);
  Value all =
      at.constant(vector.cloneWith(std::nullopt, at.b->getI1Type()), at.b->getBoolAttr(true));
  return {at, at.make<mlir::vector::GatherOp>(vector, memory, mlir::ValueRange{zero}, position, all,
                                              like.constant(0).value)};
}

Float<64> widen(Float<32> x) {
  return {x.at,
          x.at.make<arith::ExtFOp>(withElement(x.value.getType(), x.at.b->getF64Type()), x.value)};
}
Float<32> narrow(Float<64> x) {
  return {x.at, x.at.make<arith::TruncFOp>(withElement(x.value.getType(), x.at.b->getF32Type()),
                                           x.value)};
}

// By squaring, a bit of the exponent at a time, while a lane has bits left; wraps. The exponents
// are not negative.
Value expandPower(mlir::math::IPowIOp op) {
  mlir::OpBuilder builder(op);
  mlir::Location loc = op.getLoc();
  Type type = op.getType();
  Place at{&builder, loc};
  Int base{at, op.getLhs()};
  Value one = base.constant(1).value, zero = base.constant(0).value;
  auto compare = [&](Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, a, b);
  };
  auto test = [&](mlir::OpBuilder &, mlir::Location, mlir::ValueRange arguments) {
    Value any = anyOf({at, compare(arguments[2], zero)});
    mlir::scf::ConditionOp::create(builder, loc, any, arguments);
  };
  auto step = [&](mlir::OpBuilder &, mlir::Location, mlir::ValueRange arguments) {
    Value result = arguments[0], square = arguments[1], left = arguments[2];
    Value odd = compare(arith::AndIOp::create(builder, loc, left, one), zero);
    Value times = arith::MulIOp::create(builder, loc, result, square);
    result = arith::SelectOp::create(builder, loc, odd, times, result);
    square = arith::MulIOp::create(builder, loc, square, square);
    left = arith::ShRUIOp::create(builder, loc, left, one);
    mlir::scf::YieldOp::create(builder, loc, mlir::ValueRange{result, square, left});
  };
  auto loop = mlir::scf::WhileOp::create(
      builder, loc, mlir::TypeRange{type, type, type},
      mlir::ValueRange{one, base.value, op.getRhs()}, test, step);
  return loop.getResult(0);
}

template <int kWidth> Value expand(mlir::Operation *op, Place at) {
  using F = Float<kWidth>;
  auto operand = [&](unsigned i) {
    return F{at, op->getOperand(i)};
  };
  // Singles through doubles, whose own functions are simpler than an exact single.
  auto throughDoubles = [&](auto function) -> Value {
    if constexpr (kWidth == 32)
      return narrow(function(widen(operand(0)), widen(operand(1)))).value;
    else
      return function(operand(0), operand(1)).value;
  };
  auto sinQuarter = [&](int quarter) -> Value {
    if constexpr (kWidth == 32)
      return math::sinQuarterOfSingle(operand(0), quarter).value;
    else
      return math::sinQuarter(operand(0), quarter).value;
  };
  return llvm::TypeSwitch<mlir::Operation *, Value>(op)
      .Case([&](mlir::math::ExpOp) {
        return op->hasAttr(ir::kNonPositiveAttr) ? math::expOfNonPositive(operand(0)).value
                                                 : math::exp(operand(0)).value;
      })
      .Case([&](mlir::math::FmaOp) -> Value {
        if constexpr (kWidth == 32)
          return math::gelu(operand(0)).value;
        else
          return Value();
      })
      .Case([&](mlir::math::Exp2Op) { return math::exp2(operand(0)).value; })
      .Case([&](mlir::math::ExpM1Op) { return math::expm1(operand(0)).value; })
      .Case([&](mlir::math::Log1pOp) { return math::log1p(operand(0)).value; })
      .Case([&](mlir::math::LogOp) { return math::log(operand(0)).value; })
      .Case([&](mlir::math::TanhOp) { return math::tanh(operand(0)).value; })
      .Case([&](mlir::math::ErfOp) { return math::erf(operand(0)).value; })
      .Case([&](mlir::math::ErfcOp) { return math::erfc(operand(0)).value; })
      .Case([&](mlir::math::RsqrtOp) { return math::rsqrt(operand(0)).value; })
      .Case([&](mlir::math::SinOp) { return sinQuarter(0); })
      .Case([&](mlir::math::CosOp) { return sinQuarter(1); })
      .Case([&](mlir::math::Atan2Op) { return math::atan2(operand(0), operand(1)).value; })
      .Case([&](mlir::math::PowFOp) { return math::pow(operand(0), operand(1)).value; })
      .Case([&](arith::RemFOp) {
        return throughDoubles([](auto x, auto y) { return math::fmod(x, y); });
      })
      .Default([](mlir::Operation *) { return Value(); });
}

} // namespace

bool isExpanded(mlir::Operation *op) {
  if (mlir::isa<mlir::math::FmaOp>(op))
    return op->hasAttr(ir::kGeluAttr) &&
           mlir::getElementTypeOrSelf(op->getResult(0).getType()).isF32();
  return mlir::isa<mlir::math::ExpOp, mlir::math::Exp2Op, mlir::math::ExpM1Op, mlir::math::LogOp, mlir::math::Log1pOp,
                   mlir::math::TanhOp, mlir::math::ErfOp, mlir::math::ErfcOp, mlir::math::RsqrtOp,
                   mlir::math::SinOp, mlir::math::CosOp, mlir::math::Atan2Op, mlir::math::PowFOp,
                   mlir::math::IPowIOp, arith::RemFOp>(op);
}

void expandMath(mlir::Operation *root) {
  llvm::SmallVector<mlir::Operation *> found;
  root->walk([&](mlir::Operation *op) {
    if (isExpanded(op))
      found.push_back(op);
  });
  // Users first: what only a marked op needed goes without being expanded.
  for (mlir::Operation *op : llvm::reverse(found)) {
    if (op->use_empty()) {
      op->erase();
      continue;
    }
    mlir::OpBuilder builder(op);
    Place at{&builder, op->getLoc()};
    Type element = mlir::getElementTypeOrSelf(op->getResult(0).getType());
    auto power = mlir::dyn_cast<mlir::math::IPowIOp>(op);
    Value value = power             ? expandPower(power)
                  : element.isF32() ? expand<32>(op, at)
                  : element.isF64() ? expand<64>(op, at)
                                    : Value();
    if (!value)
      continue;
    op->getResult(0).replaceAllUsesWith(value);
    mlir::Operation *phi = op->hasAttr(ir::kGeluAttr) ? op->getOperand(1).getDefiningOp() : nullptr;
    op->erase();
    if (phi && phi->use_empty() && !isExpanded(phi))
      phi->erase();
  }
}

} // namespace weft::compiler

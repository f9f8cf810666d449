#include "compiler/codegen/Scan.h"

#include "compiler/math/Expand.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

using namespace mlir;

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}
static bool isExtreme(Operation *op) {
  return isa<ir::CumArgMaxOp, ir::CumArgMinOp>(op);
}
Scan::Scan(KernelFunction &f, Operation *op) : f_(f), op_(op), generic_(f.kernel.generic(op)) {
  shape = ir::shapeOf(op->getResult(0));
  dim = cast<IntegerAttr>(op->getAttr("dim")).getInt();
  size = shape[dim];
  lead = ShapedType::getNumElements(shape.take_front(dim));
  trail = ShapedType::getNumElements(shape.drop_front(dim + 1));
  if (auto sum = dyn_cast<ir::CumsumOp>(op))
    reverse = sum.getReverse();
  if (auto recurrence = dyn_cast<ir::RecurrenceOp>(op))
    reverse = recurrence.getReverse();
  llvm::append_range(sources, generic_.getDpsInputs());
}

Index Scan::along(const Index &step) {
  return reverse ? f_.e.space.add(f_.e.space.scale(step, -1), size - 1) : step;
}

Value Scan::widened(Value value) {
  if (!getElementTypeOrSelf(value.getType()).isF32())
    return value;
  return f_.e.make<arith::ExtFOp>(withElement(value.getType(), f_.builder.getF64Type()), value);
}

Value Scan::narrowed(Value value) {
  Type element = getElementTypeOrSelf(op_->getResult(0).getType());
  if (!element.isF32())
    return value;
  return f_.e.make<arith::TruncFOp>(withElement(value.getType(), element), value);
}

// What no element is on the wrong side of: the least one of a maximum.
static TypedAttr startOf(Builder &b, Type element, bool largest) {
  if (auto type = dyn_cast<FloatType>(element))
    return b.getFloatAttr(type, llvm::APFloat::getInf(type.getFloatSemantics(), largest));
  unsigned width = element.getIntOrFloatBitWidth();
  return b.getIntegerAttr(element, largest ? llvm::APInt::getSignedMinValue(width)
                                           : llvm::APInt::getSignedMaxValue(width));
}

Scan::State Scan::start(bool vector) {
  Value identity = f_.identity(generic_, vector);
  if (isa<ir::CumsumOp>(op_))
    return State(!inBlocks() ? 1 : isFloat(identity) ? 3 : 2, identity);
  if (isa<ir::RecurrenceOp>(op_))
    return State(reverse ? 2 : 1, widened(identity));
  if (!isExtreme(op_))
    return {widened(identity)};
  Type element = getElementTypeOrSelf(sources[0].getType());
  Value best = f_.e.constant(startOf(f_.builder, element, isa<ir::CumArgMaxOp>(op_)));
  return {vector ? f_.e.broadcast(best) : best, identity};
}

Value Scan::step(State &carried, ArrayRef<Value> elements, const Index &position) {
  ElementEmitter &e = f_.e;
  auto times = [&](Value a, Value b) -> Value {
    return isFloat(a) ? e.make<arith::MulFOp>(a, b) : e.mul(a, b);
  };
  if (isa<ir::CumsumOp>(op_)) {
    Value &inside = carried[0];
    inside = f_.sum(inside, elements[0]);
    if (carried.size() == 1)
      return inside;
    return f_.sum(carried[1], carried.size() > 2 ? f_.sum(inside, carried[2]) : inside);
  }
  if (isa<ir::CumprodOp>(op_)) {
    carried[0] = times(carried[0], widened(elements[0]));
    return narrowed(carried[0]);
  }
  if (isa<ir::RecurrenceOp>(op_)) {
    Value factor = widened(elements[0]), input = widened(elements[1]);
    // In reverse the factor is that of the step before.
    if (reverse)
      std::swap(factor, carried[1]);
    carried[0] = isFloat(input) ? e.make<math::FmaOp>(factor, carried[0], input)
                                : e.add(e.mul(factor, carried[0]), input);
    return narrowed(carried[0]);
  }
  assert(isExtreme(op_) && "all scans are above");
  Value place = e.make<arith::IndexCastOp>(f_.builder.getI64Type(), e.scalarIndex(position));
  if (isa<VectorType>(elements[0].getType()))
    place = e.broadcast(place);
  carried = better(carried, {elements[0], place});
  return carried[1];
}

Scan::State Scan::better(const State &before, const State &later) {
  ElementEmitter &e = f_.e;
  bool largest = isa<ir::CumArgMaxOp>(op_);
  Value taken;
  if (isFloat(later[0]))
    taken = e.make<arith::OrIOp>(
        e.make<arith::CmpFOp>(largest ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OLE,
                              later[0], before[0]),
        e.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, later[0], later[0]));
  else
    taken = e.compare(largest ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle, later[0],
                      before[0]);
  return {e.make<arith::SelectOp>(taken, later[0], before[0]),
          e.make<arith::SelectOp>(taken, later[1], before[1])};
}

bool Scan::inAnyGroups() const {
  return isExtreme(op_);
}

Value Scan::stepTogether(State &carried, ArrayRef<Value> elements, const Index &position) {
  assert(inAnyGroups());
  ElementEmitter &e = f_.e;
  // The lane `from(lane)` of each of the values.
  auto moved = [&](const State &values, function_ref<int64_t(int64_t)> from) {
    SmallVector<int64_t> lanes;
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes.push_back(from(lane));
    State result;
    for (Value value : values)
      result.push_back(e.make<vector::ShuffleOp>(value, value, lanes));
    return result;
  };
  Value places = e.make<arith::IndexCastOp>(
      e.vectorOf(f_.builder.getI64Type()),
      e.broadcast(e.vectorIndex(e.space.add(position, e.space.lane(kLanes)))));
  State best = {elements[0], places};
  // Each lane knows of twice as many before it (Hillis and Steele 1986); the first ones of
  // themselves.
  for (int64_t reach = 1; reach < kLanes; reach *= 2)
    best =
        better(moved(best, [&](int64_t lane) { return lane < reach ? lane : lane - reach; }), best);
  best = better(carried, best);
  carried = moved(best, [](int64_t) { return kLanes - 1; });
  return best[1];
}

bool Scan::inBlocks() const {
  return isa<ir::CumsumOp>(op_) && size > kScanBlock;
}

void Scan::endBlock(State &carried) {
  if (!inBlocks())
    return;
  ElementEmitter &e = f_.e;
  Value before = carried[1], part = carried[0];
  if (carried.size() > 2)
    part = f_.sum(part, carried[2]);
  carried[0] = f_.identity(generic_, isa<VectorType>(part.getType()));
  carried[1] = f_.sum(before, part);
  if (carried.size() == 2)
    return;
  // What the sum loses, exactly (D. Knuth's two-sum); nothing where it is infinite.
  Value added = e.make<arith::SubFOp>(carried[1], before),
        kept = e.make<arith::SubFOp>(carried[1], added);
  Value lost = e.make<arith::AddFOp>(e.make<arith::SubFOp>(before, kept),
                                     e.make<arith::SubFOp>(part, added)),
        zero = e.make<arith::SubFOp>(lost, lost);
  Value isFinite = e.make<arith::CmpFOp>(arith::CmpFPredicate::ORD, zero, zero);
  Value none = arith::ConstantOp::create(f_.builder, e.loc,
                                         cast<TypedAttr>(f_.builder.getZeroAttr(lost.getType())));
  carried[2] = e.make<arith::SelectOp>(isFinite, lost, none);
}

void Scan::walk(function_ref<State(const Index &)> elements,
                function_ref<void(const Index &, Value)> store) {
  ElementEmitter &e = f_.e;
  auto steps = [&](Value from, Value to, const State &carried) {
    return f_.loop(from, to, size, carried, [&](Index number, State &inside) {
      Index position = along(number);
      store(position, step(inside, elements(position), position));
    });
  };
  if (!inBlocks()) {
    steps(e.constantIndex(0), e.constantIndex(size), start(false));
    return;
  }
  int64_t blocks = llvm::divideCeil(size, kScanBlock),
          shift = reverse ? blocks * kScanBlock - size : 0;
  f_.loop(0, blocks, blocks, start(false), [&](Index number, State &carried) {
    Value end = e.scalarIndex(e.space.add(e.space.scale(number, kScanBlock), kScanBlock - shift));
    Value from = e.maxSigned(e.sub(end, kScanBlock), 0), to = e.minSigned(end, size);
    carried = steps(from, to, carried);
    endBlock(carried);
  });
}

} // namespace weft::compiler

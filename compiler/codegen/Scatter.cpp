#include "compiler/codegen/Scatter.h"

#include "compiler/math/Expand.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

using namespace mlir;

Scatter::Scatter(KernelBuilder &kernel, Operation *op)
    : op(op), puts(isa<ir::IndexPutOp, ir::ScatterOp>(op)),
      wholeSlices(isa<ir::IndexPutOp, ir::IndexAddOp>(op)),
      dim(cast<IntegerAttr>(op->getAttr("dim")).getInt()) {
  linalg::GenericOp generic = kernel.generic(op);
  base = generic.getDpsInits()[0], indices = generic.getDpsInputs()[0],
  source = generic.getDpsInputs()[1];
  type = getElementTypeOrSelf(base.getType());
  to = shapeOf(base), from = shapeOf(source), index = shapeOf(indices);
  width = wholeSlices ? static_cast<int64_t>(index.size()) : 1;
  leadTo = to.take_front(dim), leadFrom = from.take_front(dim), trailTo = to.drop_front(dim + 1);
  trailFrom = from.drop_front(dim + width), middle = from.slice(dim, width);
  auto product = [](ArrayRef<int64_t> sizes) {
    return ShapedType::getNumElements(sizes);
  };
  lead = product(leadTo), size = to[dim], trail = product(trailTo), steps = product(middle);
}

bool Scatter::hasTotals(int64_t slices) const {
  return isa<ir::IndexAddOp, ir::ScatterAddOp>(op) && isa<FloatType>(type) &&
         (size * trail <= kSumBlock || slices >= leastTotals());
}

int64_t Scatter::leastTotals() const {
  return (size + 1) * kChain;
}

Index Scatter::element(IndexSpace &space, const Index &leading, const Index &at,
                       const Index &column) const {
  return space.add(space.add(space.scale(leading, size * trail), space.scale(at, trail)), column);
}

Index Scatter::target(ElementEmitter &e, ArrayRef<Index> position, Value mask) const {
  ArrayRef<Index> at = position.slice(wholeSlices ? dim : 0, index.size());
  return e.checkedIndex(e.at(indices, at, mask), size, mask);
}

Value Scatter::covers(ElementEmitter &e, ArrayRef<Index> position, ArrayRef<int64_t> have,
                      ArrayRef<int64_t> all, Value also) const {
  for (auto [at, some, every] : llvm::zip(position, have, all)) {
    if (some == every)
      continue;
    Value raw = e.scalarIndex(at);
    Value inside = e.compare(arith::CmpIPredicate::slt, raw, some);
    also = also ? e.make<arith::AndIOp>(also, inside) : inside;
  }
  return also;
}

static Value combine(ElementEmitter &e, Operation *scatter, Value there, Value update) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(there.getType()));
  auto reduce = dyn_cast<ir::ScatterReduceOp>(scatter);
  if (!reduce)
    return isFloat ? e.make<arith::AddFOp>(there, update) : e.add(there, update);
  switch (reduce.getCombiner()) {
  case ir::Combiner::prod:
    return isFloat ? e.make<arith::MulFOp>(there, update) : e.mul(there, update);
  case ir::Combiner::max:
    return isFloat ? e.make<arith::MaximumFOp>(there, update) : e.maxSigned(there, update);
  case ir::Combiner::min:
    return isFloat ? e.make<arith::MinimumFOp>(there, update) : e.minSigned(there, update);
  }
  llvm_unreachable("all combiners are above");
}

static Value load(KernelFunction &f, Value memory, Type type, const Index &at, bool vector,
                  Value mask) {
  Value value = f.e.load(memory, type, at, mask);
  return vector ? f.e.broadcast(value) : value;
}

static Value converted(KernelFunction &f, Value value, Type element) {
  Type type = withElement(value.getType(), element);
  return element.isF64() ? f.e.make<arith::ExtFOp>(type, value)
                         : f.e.make<arith::TruncFOp>(type, value);
}

void Scatter::begin(KernelFunction &f, const Totals &totals, const Index &place, Value element,
                    bool vector, Value mask) const {
  bool wide = type.isF32();
  if (!totals.memory || !wide)
    f.e.store(f.output(0), element, place, mask);
  if (!totals.memory)
    return;
  Value first = wide ? element : f.e.constant(f.builder.getF64FloatAttr(0));
  first = vector ? f.e.broadcast(first) : first;
  f.e.store(totals.memory, wide ? converted(f, first, f.builder.getF64Type()) : first,
            f.e.space.add(place, totals.shift), mask);
}

void Scatter::meet(KernelFunction &f, const Totals &totals, const Index &place, Value update,
                   Value mask) const {
  bool vector = isa<VectorType>(update.getType());
  Value out = f.output(0);
  if (puts)
    return f.e.store(out, update, place, mask);
  if (!totals.memory)
    return f.e.store(out, combine(f.e, op, load(f, out, type, place, vector, mask), update), place,
                     mask);
  Type f64 = f.builder.getF64Type();
  Index at = f.e.space.add(place, totals.shift);
  Value before = load(f, totals.memory, f64, at, vector, mask);
  if (type.isF32())
    return f.e.store(totals.memory, f.sum(before, converted(f, update, f64)), at, mask);
  Value total = f.addKeeping(load(f, out, type, place, vector, mask), update, before);
  f.e.store(out, total, place, mask);
  f.e.store(totals.memory, before, at, mask);
}

void Scatter::end(KernelFunction &f, const Totals &totals, const Index &place, bool vector,
                  Value mask) const {
  Value out = f.output(0), total = load(f, totals.memory, f.builder.getF64Type(),
                                        f.e.space.add(place, totals.shift), vector, mask);
  f.e.store(out,
            type.isF32() ? converted(f, total, type)
                         : f.settle(load(f, out, type, place, vector, mask), total),
            place, mask);
}

} // namespace weft::compiler

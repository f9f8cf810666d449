#include "compiler/codegen/ElementEmitter.h"

#include <limits>
#include <numeric>

#include "compiler/codegen/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

namespace weft::compiler {

using namespace mlir;

static bool isVector(Value value) {
  return isa<VectorType>(value.getType());
}

//===-- Ops, each once a scope ----------------------------------------------------------------===//

Value ElementEmitter::unique(Operation *op) {
  if (!isPure(op))
    return op->getResult(0);
  SmallVector<Value, 1> folded;
  // Functions fold to what the C library of this machine says, which is not what our own code
  // computes: a fused constant would differ from one that went through memory.
  bool foldable =
      !op->hasTrait<OpTrait::ConstantLike>() && op->getName().getDialectNamespace() != "math";
  if (foldable && succeeded(b.tryFold(op, folded)) && !folded.empty()) {
    op->erase();
    Operation *producer = folded[0].getDefiningOp();
    if (!producer || !producer->hasTrait<OpTrait::ConstantLike>() ||
        producer->getBlock() != b.getInsertionBlock())
      return folded[0];
    op = producer;
  }
  for (const Scope &scope : scopes_) {
    auto found = scope.ops.find(op);
    if (found == scope.ops.end())
      continue;
    if (*found != op)
      op->erase();
    return (*found)->getResult(0);
  }
  scopes_.back().ops.insert(op);
  return op->getResult(0);
}

Value ElementEmitter::constant(TypedAttr value) {
  Type type = value.getType();
  if (!type.isUnsignedInteger())
    return make<arith::ConstantOp>(value);
  // arith.constant takes signless integers only.
  auto plain = b.getIntegerAttr(b.getIntegerType(type.getIntOrFloatBitWidth()),
                                cast<IntegerAttr>(value).getValue());
  Value number = make<arith::ConstantOp>(plain);
  return unique(UnrealizedConversionCastOp::create(b, loc, type, number));
}

Value ElementEmitter::constantIndex(int64_t value) {
  return make<arith::ConstantIndexOp>(value);
}

Value ElementEmitter::broadcast(Value value, int64_t lanes) {
  if (isVector(value))
    return value;
  return make<vector::BroadcastOp>(VectorType::get({lanes}, value.getType()), value);
}

Value ElementEmitter::tailMask(int64_t lanes) {
  if (lanes >= width)
    return nullptr;
  SmallVector<bool> bits(width, false);
  std::fill_n(bits.begin(), lanes, true);
  return make<arith::ConstantOp>(
      DenseElementsAttr::get(vectorOf(b.getI1Type()), ArrayRef<bool>(bits)));
}

void ElementEmitter::setKnown(Value tensor, SmallVector<SmallVector<Index>> places,
                              SmallVector<Value> elements) {
  setKnown(tensor, [places, elements](ArrayRef<Index> position, Value) {
    for (auto [place, element] : llvm::zip(places, elements))
      if (position == ArrayRef(place))
        return element;
    return Value();
  });
}

Value ElementEmitter::tailMask(Value lanes) {
  return compare(arith::CmpIPredicate::slt, vectorIndex(space.lane(width)), broadcast(lanes));
}

Value ElementEmitter::laneNumbers() {
  SmallVector<int32_t> numbers(width);
  std::iota(numbers.begin(), numbers.end(), 0);
  return make<arith::ConstantOp>(b.getI32VectorAttr(numbers));
}

static bool isSplat(Value tensor) {
  auto constant = tensor.getDefiningOp<arith::ConstantOp>();
  return constant && cast<ElementsAttr>(constant.getValue()).isSplat();
}

//===-- Positions -----------------------------------------------------------------------------===//

Value ElementEmitter::scalarIndex(const Index &index) {
  Value sum;
  for (auto [id, coefficient] : index.terms) {
    IndexSpace::Symbol symbol = space.symbol(id);
    Value value = symbol.value;
    if (symbol.kind == IndexSpace::Kind::Quotient || symbol.kind == IndexSpace::Kind::Remainder) {
      Value of = scalarIndex(symbol.of), by = constantIndex(symbol.by);
      if (symbol.kind == IndexSpace::Kind::Remainder)
        value = rem(of, by);
      else
        value = div(of, by);
    }
    if (coefficient != 1)
      value = mul(value, coefficient);
    sum = sum ? add(sum, value) : value;
  }
  if (!sum)
    return constantIndex(index.constant);
  return index.constant ? add(sum, index.constant) : sum;
}

Value ElementEmitter::turnedIndex(const Turn &turn) {
  Value second = turn.second;
  if (turn.stride != 0) {
    Value lanes = mul(turn.before, turn.stride);
    second = sub(second, lanes);
  }
  Value places = make<arith::SelectOp>(turn.turned, broadcast(second), broadcast(turn.first));
  if (turn.stride == 0)
    return places;
  return add(places, vectorIndex(space.scale(space.lane(width), turn.stride)));
}

// Machines multiply vectors of 32-bit numbers, of which a division by a constant is made; those of
// 64 bits they take apart.
Value ElementEmitter::dividedLanes(const IndexSpace::Symbol &symbol) {
  bool isNarrow =
      std::max(space.range(symbol.of).second, symbol.by) <= std::numeric_limits<int32_t>::max();
  Value of = vectorIndex(symbol.of);
  Type type = isNarrow ? Type(b.getI32Type()) : b.getIndexType();
  if (isNarrow)
    of = make<arith::IndexCastOp>(vectorOf(type), of);
  Value by = broadcast(constant(b.getIntegerAttr(type, symbol.by)));
  Value value = symbol.kind == IndexSpace::Kind::Remainder ? rem(of, by) : div(of, by);
  return isNarrow ? make<arith::IndexCastOp>(vectorOf(b.getIndexType()), value) : value;
}

Value ElementEmitter::vectorIndex(const Index &index) {
  if (std::optional<Turn> turn = turnOf(index))
    return turnedIndex(*turn);
  Index uniform = Index::of(index.constant);
  Value sum;
  auto addOn = [&](Value value) {
    sum = sum ? add(sum, value) : value;
  };
  for (auto [id, coefficient] : index.terms) {
    IndexSpace::Symbol symbol = space.symbol(id);
    if (symbol.uniform) {
      uniform.terms.push_back({id, coefficient});
      continue;
    }
    Value value = symbol.value;
    if (symbol.kind == IndexSpace::Kind::Lane) {
      SmallVector<Attribute> steps;
      for (int64_t i = 0; i < width; ++i)
        steps.push_back(b.getIndexAttr(i));
      value = make<arith::ConstantOp>(DenseElementsAttr::get(vectorOf(b.getIndexType()), steps));
    } else if (std::optional<Turn> turn = turnOf(Index{0, {{id, 1}}})) {
      value = turnedIndex(*turn);
    } else if (symbol.kind != IndexSpace::Kind::Vector) {
      for (auto [inside, step] : symbol.of.terms)
        if (space.symbol(inside).kind == IndexSpace::Kind::Lane && symbol.by % step == 0)
          periods.insert(std::abs(symbol.by / step));
      value = dividedLanes(symbol);
    }
    if (coefficient != 1)
      value = mul(value, broadcast(constantIndex(coefficient)));
    addOn(value);
  }
  if (!sum || !uniform.terms.empty() || uniform.constant)
    addOn(broadcast(scalarIndex(uniform)));
  return sum;
}

Index ElementEmitter::dynamicIndex(Value value, int64_t size) {
  // What is out of range has been noted; it must still not be read.
  Value bound = constantIndex(size), zero = constantIndex(0);
  if (isVector(value))
    bound = broadcast(bound), zero = broadcast(zero);
  Value inside = compare(arith::CmpIPredicate::ult, value, bound);
  Value safe = make<arith::SelectOp>(inside, value, zero);
  return isVector(safe) ? space.vector(safe, size) : space.scalar(safe, size);
}

Index ElementEmitter::checkedIndex(Value raw, int64_t size, Value mask) {
  Type type = isVector(raw) ? Type(vectorOf(b.getIndexType())) : b.getIndexType();
  Value value = make<arith::IndexCastOp>(type, raw), bound = constantIndex(size),
        zero = constantIndex(0);
  if (isVector(raw))
    bound = broadcast(bound), zero = broadcast(zero);
  Value negative = compare(arith::CmpIPredicate::slt, value, zero);
  value = make<arith::SelectOp>(negative, add(value, bound), value);
  noteFailure(compare(arith::CmpIPredicate::ult, value, bound), isVector(raw) ? mask : Value());
  return dynamicIndex(value, size);
}

Value ElementEmitter::compareIndex(const Index &index, int64_t bound) {
  Value value = indexValue(space.withoutLane(index, bound).value_or(index)),
        limit = constantIndex(bound);
  return compare(arith::CmpIPredicate::slt, value, isVector(value) ? broadcast(limit) : limit);
}

void ElementEmitter::noteFailure(Value condition, Value mask) {
  Value truth = make<arith::ConstantOp>(b.getBoolAttr(true));
  if (isVector(condition) || mask) {
    // A lane that does not exist cannot fail.
    Value bad = make<arith::XOrIOp>(broadcast(condition), broadcast(truth));
    if (mask)
      bad = make<arith::AndIOp>(bad, mask);
    condition = make<vector::ReductionOp>(vector::CombiningKind::OR, bad);
  } else {
    condition = make<arith::XOrIOp>(condition, truth);
  }
  if (onFailure)
    return onFailure(condition);
  Value zero = constantIndex(0), seen = memref::LoadOp::create(b, loc, errorFlag, ValueRange{zero});
  Value now = arith::OrIOp::create(b, loc, seen, make<arith::ExtUIOp>(b.getI32Type(), condition));
  memref::StoreOp::create(b, loc, now, errorFlag, ValueRange{zero});
}

//===-- Elements ------------------------------------------------------------------------------===//

Value ElementEmitter::at(Value tensor, ArrayRef<Index> given, Value mask) {
  // A dim of size 1 has one position, also in lanes that a write at an offset leaves out.
  SmallVector<Index> position(given);
  for (auto [at, size] : llvm::zip(position, ir::shapeOf(tensor)))
    if (size == 1)
      at = Index::of(0);
  for (Scope &scope : scopes_)
    if (auto found = scope.elements.find(tensor); found != scope.elements.end())
      for (const Element &element : found->second)
        if (element.mask == mask && element.position == position)
          return element.value;
  Value value = compute(tensor, position, mask);
  scopes_.back().elements[tensor].push_back({std::move(position), mask, value});
  return value;
}

Index ElementEmitter::linearize(ArrayRef<Index> position, ArrayRef<int64_t> shape,
                                LengthDim length) {
  auto [dim, of] = length;
  if (dim < 0)
    return space.linearize(position, shape);
  Index before = space.linearize(position.take_front(dim), shape.take_front(dim)),
        row = position[dim];
  int64_t rows = ShapedType::getNumElements(shape.take_front(dim + 1));
  if (before != Index::of(0)) {
    Value start =
        mul(indexValue(before), space.uniform(before) ? lengths[of] : broadcast(lengths[of]));
    row = space.add(row, isVector(start) ? space.vector(start, rows) : space.scalar(start, rows));
  }
  SmallVector<Index> places = {row};
  SmallVector<int64_t> sizes = {rows};
  llvm::append_range(places, position.drop_front(dim + 1));
  llvm::append_range(sizes, shape.drop_front(dim + 1));
  return space.linearize(places, sizes);
}

Value ElementEmitter::compute(Value tensorValue, ArrayRef<Index> position, Value mask) {
  auto type = ir::typeOf(tensorValue);
  if (auto known = known_.find(tensorValue); known != known_.end())
    if (Value value = known->second(position, mask))
      return value;
  if (auto buffer = buffers_.find(tensorValue); buffer != buffers_.end()) {
    // No index into it is in range, which has been noted; it may have no memory.
    if (type.getNumElements() == 0)
      return constant(b.getZeroAttr(type.getElementType()));
    Index linear = linearize(position, type.getShape(), buffer->second.length);
    if (onRead && buffer->second.argument >= 0)
      onRead(buffer->second.argument, linear);
    return load(buffer->second.memref, type.getElementType(), linear, mask);
  }
  Operation *op = tensorValue.getDefiningOp();
  if (auto generic = dyn_cast_or_null<linalg::GenericOp>(op)) {
    if (generic.getNumReductionLoops()) {
      // Over dims of size 1: one element, folded with the identity.
      SmallVector<int64_t> ranges = generic.getStaticLoopRanges();
      SmallVector<Index> loops;
      size_t next = 0;
      bool single = true;
      for (auto [range, iterator] : llvm::zip(ranges, generic.getIteratorTypesArray())) {
        bool kept = iterator == utils::IteratorType::parallel;
        loops.push_back(kept ? position[next++] : Index::of(0));
        single &= kept || range == 1;
      }
      if (single) {
        auto inputs = inputsAt(generic, loops, mask);
        inputs.push_back(at(generic.getDpsInits()[0], position, mask));
        return body(generic, loops, inputs, mask);
      }
      fail("a reduction's result is read at a position where it is not known");
      return constant(cast<TypedAttr>(b.getZeroAttr(type.getElementType())));
    }
    return body(generic, position, inputsAt(generic, position, mask), mask);
  }
  if (isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    auto from = ir::typeOf(op->getOperand(0));
    return at(op->getOperand(0),
              space.delinearize(space.linearize(position, type.getShape()), from.getShape()), mask);
  }
  if (auto slice = dyn_cast_or_null<tensor::ExtractSliceOp>(op)) {
    SmallVector<Index> inside;
    for (auto [i, from] : llvm::enumerate(position))
      inside.push_back(
          space.add(space.scale(from, slice.getStaticStride(i)), slice.getStaticOffset(i)));
    return at(slice.getSource(), inside, mask);
  }
  if (isa_and_nonnull<tensor::ConcatOp>(op))
    return concatElement(op, position, mask);
  if (isa_and_nonnull<tensor::InsertSliceOp>(op))
    return insertElement(op, position, mask);
  if (auto constant = dyn_cast_or_null<arith::ConstantOp>(op))
    return constantElement(tensorValue, cast<ElementsAttr>(constant.getValue()), position, mask);
  fail(op ? "no code for " + op->getName().getStringRef().str()
          : "a value from outside has no buffer");
  return constant(cast<TypedAttr>(b.getZeroAttr(type.getElementType())));
}

Value ElementEmitter::constantElement(Value tensorValue, ElementsAttr value,
                                      ArrayRef<Index> position, Value mask) {
  auto type = ir::typeOf(tensorValue);
  if (type.getNumElements() == 0)
    return constant(cast<TypedAttr>(b.getZeroAttr(type.getElementType())));
  if (value.isSplat())
    return constant(cast<TypedAttr>(value.getSplatValue<Attribute>()));
  // The elements become a global of the kernel's object.
  Operation *function = b.getInsertionBlock()->getParentOp();
  while (!isa<ModuleOp>(function->getParentOp()))
    function = function->getParentOp();
  auto module = cast<ModuleOp>(function->getParentOp());
  std::string name = (SymbolTable::getSymbolName(function).getValue() + "_constant").str();
  Type stored = memoryType(type.getElementType());
  auto flat = RankedTensorType::get({type.getNumElements()}, stored);
  DenseElementsAttr data;
  if (stored == type.getElementType()) {
    data = cast<DenseElementsAttr>(value).reshape(flat);
  } else {
    SmallVector<int8_t> bytes;
    for (bool bit : value.getValues<bool>())
      bytes.push_back(bit);
    data = DenseElementsAttr::get(flat, ArrayRef<int8_t>(bytes));
  }
  auto memrefType = MemRefType::get(flat.getShape(), stored);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    int64_t number = 0;
    std::string base = name;
    while (module.lookupSymbol(name))
      name = base + std::to_string(number++);
    memref::GlobalOp::create(
        b, loc, name, b.getStringAttr("private"), memrefType, data, /*constant=*/true,
        bufferAlignment ? b.getI64IntegerAttr(bufferAlignment) : IntegerAttr());
  }
  {
    // At the start of the function, where all later uses see it.
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function->getRegion(0).front());
    Value memrefValue = memref::GetGlobalOp::create(b, loc, memrefType, name);
    setBuffer(tensorValue, {memrefValue, -1});
  }
  return load(buffers_[tensorValue].memref, type.getElementType(),
              space.linearize(position, type.getShape()), mask);
}

Value ElementEmitter::choose(Value condition, Value mask, Type element,
                             function_ref<Value(Value)> onTrue, function_ref<Value(Value)> onFalse,
                             bool vector) {
  if (!isVector(condition)) {
    Type type = vector ? Type(vectorOf(element)) : element;
    auto branch = scf::IfOp::create(b, loc, type, condition, /*withElseRegion=*/true);
    auto fill = [&](Block *block, function_ref<Value(Value)> emit) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(block);
      pushScope();
      Value value = emit(mask);
      if (vector)
        value = broadcast(value);
      scf::YieldOp::create(b, loc, value);
      popScope();
    };
    fill(branch.thenBlock(), onTrue);
    fill(branch.elseBlock(), onFalse);
    return branch.getResult(0);
  }
  Value truth = broadcast(make<arith::ConstantOp>(b.getBoolAttr(true)));
  Value otherwise = make<arith::XOrIOp>(condition, truth);
  Value maskTrue = mask ? make<arith::AndIOp>(mask, condition) : condition;
  Value maskFalse = mask ? make<arith::AndIOp>(mask, otherwise) : otherwise;
  Value yes = broadcast(onTrue(maskTrue)), no = broadcast(onFalse(maskFalse));
  return make<arith::SelectOp>(condition, yes, no);
}

Value ElementEmitter::concatElement(Operation *op, ArrayRef<Index> position, Value mask) {
  auto concat = cast<tensor::ConcatOp>(op);
  int64_t dim = concat.getDim();
  Type element = concat.getResultType().getElementType();
  bool vector = llvm::any_of(position, [&](const Index &i) { return !space.uniform(i); });
  // The inputs that have elements, and where each begins.
  SmallVector<std::pair<Value, int64_t>> pieces;
  int64_t begin = 0;
  for (Value input : concat.getInputs()) {
    int64_t extent = ir::typeOf(input).getDimSize(dim);
    if (extent != 0)
      pieces.emplace_back(input, begin);
    begin += extent;
  }
  if (pieces.empty())
    pieces.emplace_back(concat.getInputs()[0], 0);
  auto [low, high] = space.range(position[dim]);
  // Halves the inputs [first, last): a stack of many steps costs few comparisons, and the recursion
  // stays shallow.
  std::function<Value(size_t, size_t, Value)> piece = [&](size_t first, size_t last,
                                                          Value lanes) -> Value {
    if (last - first == 1) {
      SmallVector<Index> inside(position);
      inside[dim] = space.add(inside[dim], -pieces[first].second);
      return at(pieces[first].first, inside, lanes);
    }
    size_t middle = first + (last - first) / 2;
    int64_t bound = pieces[middle].second;
    if (high < bound)
      return piece(first, middle, lanes);
    if (low >= bound)
      return piece(middle, last, lanes);
    // The part of [from, to), for vectors that have a lane in it: as insertElement's.
    auto part = [&](size_t from, size_t to, Value m) {
      int64_t start = pieces[from].second, end = to < pieces.size() ? pieces[to].second : begin;
      Value meets;
      for (size_t i = from; i < to && !meets; ++i)
        if (!isSplat(pieces[i].first))
          meets = meetsPart(space.add(position[dim], -start), 1, end - start);
      if (!meets)
        return piece(from, to, m);
      return choose(
          meets, m, element, [&](Value inside) { return piece(from, to, inside); },
          [&](Value) { return constant(cast<TypedAttr>(b.getZeroAttr(element))); }, vector);
    };
    Value isBefore = compareIndex(position[dim], bound);
    if (!isVector(isBefore))
      return choose(
          isBefore, lanes, element, [&](Value m) { return piece(first, middle, m); },
          [&](Value m) { return piece(middle, last, m); }, vector);
    return choose(
        isBefore, lanes, element, [&](Value m) { return part(first, middle, m); },
        [&](Value m) { return part(middle, last, m); }, vector);
  };
  return piece(0, pieces.size(), mask);
}

Value ElementEmitter::meetsPart(const Index &position, int64_t step, int64_t size) {
  auto [base, stride] = space.splitLanes(position);
  if (stride.value_or(0) == 0)
    return nullptr;
  int64_t reach = *stride * (width - 1), end = (size - 1) * step;
  Index least = space.add(base, std::min<int64_t>(reach, 0)),
        most = space.add(base, std::max<int64_t>(reach, 0));
  auto [low, high] = space.range(position);
  bool isSparse = std::abs(*stride) == 1 && step >= width,
       isSmall = static_cast<double>(end + 1) < kMostPart * static_cast<double>(high - low + 1),
       isFar = std::max(-low, high - end) > kFarElements;
  if (!isSparse && !isSmall && !isFar)
    return nullptr;
  Value meets;
  auto require = [&](Value condition) {
    meets = meets ? make<arith::AndIOp>(meets, condition) : condition;
  };
  if (high > end)
    require(compare(arith::CmpIPredicate::sle, least, end));
  if (low < 0)
    require(compare(arith::CmpIPredicate::sge, most, 0));
  if (isSparse) {
    // The last neighbour is less than a vector behind a multiple; a further one keeps it from being
    // negative.
    Index last = space.add(most, low < 0 ? llvm::divideCeil(-low, step) * step : 0);
    Value behind = rem(last, step);
    require(compare(arith::CmpIPredicate::ult, behind, width));
  }
  return meets;
}

// What is in a buffer, maybe under another shape: an element of it costs a load.
static Value withoutShape(Value tensor) {
  while (isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(tensor.getDefiningOp()))
    tensor = tensor.getDefiningOp()->getOperand(0);
  return tensor;
}

Value ElementEmitter::writtenLane(tensor::InsertSliceOp insert, ArrayRef<Index> position,
                                  Value mask) {
  RankedTensorType source = insert.getSourceType();
  if (!wholeBuffers || width == 1 || !buffers_.contains(withoutShape(insert.getSource())))
    return nullptr;
  SmallVector<Index> inside;
  Value lane;
  for (int64_t i = 0; i < source.getRank(); ++i) {
    int64_t step = insert.getStaticStride(i), size = source.getDimSize(i);
    Index from = space.add(position[i], -insert.getStaticOffset(i));
    auto [base, stride] = space.splitLanes(from);
    if (stride == 1 && step >= width && step < kFarWrites && size > 0 && !lane) {
      // The last of the written places that the vector's end has reached, or one of those that
      // exist. Some steps more keep the division from a negative number.
      int64_t low = space.range(base).first, more = low < 0 ? llvm::divideCeil(-low, step) : 0;
      Value number = div(space.add(base, more * step + width - 1), step);
      if (more)
        number = sub(max(number, more), more);
      number = min(number, size - 1);
      lane = sub(mul(number, step), base);
      inside.push_back(space.scalar(number, size));
      continue;
    }
    auto [quotient, remainder] = space.divide(from, step);
    auto [low, high] = space.range(quotient);
    if (!space.uniform(quotient) || !(remainder == Index::of(0)) || low < 0 || high >= size)
      return nullptr;
    inside.push_back(quotient);
  }
  if (!lane)
    return nullptr;
  // Before the vector wraps to a large number.
  Value here = make<arith::IndexCastOp>(b.getI32Type(), min(lane, width));
  Value isHere = compare(arith::CmpIPredicate::eq, laneNumbers(), broadcast(here));
  return make<arith::SelectOp>(isHere, broadcast(at(insert.getSource(), inside)),
                               broadcast(at(insert.getDest(), position, mask)));
}

Value ElementEmitter::insertElement(Operation *op, ArrayRef<Index> position, Value mask) {
  auto insert = cast<tensor::InsertSliceOp>(op);
  if (Value value = writtenLane(insert, position, mask))
    return value;
  Value meets;
  for (int64_t i = 0, rank = position.size(); i < rank && !meets; ++i)
    meets = meetsPart(space.add(position[i], -insert.getStaticOffset(i)),
                      insert.getStaticStride(i), insert.getSourceType().getDimSize(i));
  // Most vectors of a constant with a few elements written into it (a diagonal) are the constant.
  if (meets && isSplat(insert.getDest()))
    return choose(
        meets, mask, insert.getSourceType().getElementType(),
        [&](Value m) { return writtenElement(insert, position, m, nullptr); },
        [&](Value m) { return at(insert.getDest(), position, m); }, /*vector=*/true);
  return writtenElement(insert, position, mask, meets);
}

Value ElementEmitter::writtenElement(tensor::InsertSliceOp insert, ArrayRef<Index> position,
                                     Value mask, Value meets) {
  auto source = insert.getSourceType();
  SmallVector<Index> inside;
  Value uniformTest, laneTest;
  bool never = false;
  for (int64_t i = 0; i < source.getRank(); ++i) {
    int64_t start = insert.getStaticOffset(i), step = insert.getStaticStride(i),
            size = source.getDimSize(i);
    auto [quotient, remainder] = space.divide(space.add(position[i], -start), step);
    inside.push_back(quotient);
    auto test = [&](Value condition) {
      Value &all = isVector(condition) ? laneTest : uniformTest;
      all = all ? make<arith::AndIOp>(all, condition) : condition;
    };
    auto [low, high] = space.range(quotient);
    if (high < 0 || low >= size)
      never = true;
    if (low < 0 || high >= size) {
      // One unsigned comparison: below the start wraps to a large number.
      Value value = indexValue(quotient), bound = constantIndex(size);
      test(compare(arith::CmpIPredicate::ult, value, isVector(value) ? broadcast(bound) : bound));
    }
    if (remainder.isConstant()) {
      if (remainder.constant != 0)
        never = true;
    } else {
      Value value = indexValue(remainder), zero = constantIndex(0);
      test(compare(arith::CmpIPredicate::eq, value, isVector(value) ? broadcast(zero) : zero));
    }
  }
  auto base = [&](Value m) {
    return at(insert.getDest(), position, m);
  };
  if (never)
    return base(mask);
  Type element = source.getElementType();
  bool vector = llvm::any_of(position, [&](const Index &i) { return !space.uniform(i); });
  auto update = [&](Value m) {
    return at(insert.getSource(), inside, m);
  };
  // Of a vector without such a lane nothing is read: its places may lie far outside of the buffer,
  // where masked loads are slow.
  if (laneTest && meets)
    uniformTest = uniformTest ? make<arith::AndIOp>(uniformTest, meets) : meets;
  if (!laneTest)
    return uniformTest ? choose(uniformTest, mask, element, update, base, vector) : update(mask);
  if (!uniformTest)
    return choose(laneTest, mask, element, update, base, vector);
  // Both: the base is emitted once, or a chain of writes would double with each of them.
  Value zero = constant(cast<TypedAttr>(b.getZeroAttr(element)));
  Value lanes = mask ? make<arith::AndIOp>(mask, laneTest) : laneTest;
  Value updated = choose(uniformTest, lanes, element, update, [&](Value) { return zero; }, vector);
  Value taken = make<arith::AndIOp>(laneTest, broadcast(uniformTest));
  return choose(taken, mask, element, [&](Value) { return updated; }, base, vector);
}

//===-- Scalar bodies -------------------------------------------------------------------------===//

static Index evaluate(IndexSpace &space, AffineExpr expr, ArrayRef<Index> loops) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return loops[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return Index::of(constant.getValue());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Index lhs = evaluate(space, binary.getLHS(), loops),
        rhs = evaluate(space, binary.getRHS(), loops);
  if (expr.getKind() == AffineExprKind::Add)
    return space.add(lhs, rhs);
  return rhs.isConstant() ? space.scale(lhs, rhs.constant)
                          : space.scale(rhs, lhs.constant); // Mul: one side is a constant
}

SmallVector<Value> ElementEmitter::inputsAt(linalg::GenericOp generic, ArrayRef<Index> loops,
                                            Value mask) {
  SmallVector<Value> values;
  for (OpOperand *input : generic.getDpsInputOperands()) {
    SmallVector<Index> position;
    for (AffineExpr expr : generic.getMatchingIndexingMap(input).getResults())
      position.push_back(evaluate(space, expr, loops));
    values.push_back(at(input->get(), position, mask));
  }
  return values;
}

Value ElementEmitter::body(linalg::GenericOp generic, ArrayRef<Index> loops, ValueRange args,
                           Value mask) {
  Block &block = generic.getRegion().front();
  DenseMap<Value, Value> values;
  for (auto [argument, value] : llvm::zip(block.getArguments(), args))
    values[argument] = value;
  bodyOps(block, loops, values, mask);
  Value yielded = block.getTerminator()->getOperand(0);
  return values.lookup(yielded) ? values.lookup(yielded) : yielded;
}

void ElementEmitter::bodyOps(Block &block, ArrayRef<Index> loops, DenseMap<Value, Value> &values,
                             Value mask) {
  for (Operation &op : block.without_terminator()) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      bodyLoop(loop, loops, values, mask);
      continue;
    }
    Value value = bodyOp(op, loops, values, mask);
    if (op.getNumResults() == 1)
      values[op.getResult(0)] = value;
  }
}

// A loop over scalars becomes one over vectors: its bounds are the same in all lanes, and all that
// it carries is vectors if one of them starts as one. It reads no memory. Where several vectors ask
// for results of the same loop it is emitted once (the four words of a random block).
void ElementEmitter::bodyLoop(scf::ForOp loop, ArrayRef<Index> loops,
                              DenseMap<Value, Value> &values, Value mask) {
  llvm::SetVector<Value> outside(loop->operand_begin(), loop->operand_end());
  getUsedValuesDefinedAbove(loop.getRegion(), outside);
  auto reads = llvm::map_to_vector<8>(outside, [&](Value v) { return values.lookup(v); });
  auto take = [&](Operation *emitted) {
    for (auto [result, value] : llvm::zip(loop.getResults(), emitted->getResults()))
      values[result] = value;
  };
  for (const Scope &scope : scopes_)
    for (const BodyLoop &known : scope.loops)
      if (known.source == loop && known.reads == reads)
        return take(known.emitted);

  bool vector = llvm::any_of(loop.getInitArgs(),
                             [&](Value start) { return isVector(values.lookup(start)); });
  auto carried = [&](Value value) {
    return vector ? broadcast(values.lookup(value)) : values.lookup(value);
  };
  auto emitted = scf::ForOp::create(b, loc, values.lookup(loop.getLowerBound()),
                                    values.lookup(loop.getUpperBound()),
                                    values.lookup(loop.getStep()),
                                    llvm::map_to_vector(loop.getInitArgs(), carried));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(emitted.getBody());
    pushScope();
    for (auto [argument, value] :
         llvm::zip(loop.getBody()->getArguments(), emitted.getBody()->getArguments()))
      values[argument] = value;
    bodyOps(*loop.getBody(), loops, values, mask);
    scf::YieldOp::create(b, loc, llvm::map_to_vector(loop.getYieldedValues(), carried));
    popScope();
  }
  scopes_.back().loops.push_back({loop, reads, emitted});
  take(emitted);
}

Value ElementEmitter::bodyOp(Operation &op, ArrayRef<Index> loops, DenseMap<Value, Value> &values,
                             Value mask) {
  if (auto index = dyn_cast<linalg::IndexOp>(op))
    return indexValue(loops[index.getDim()]);
  if (auto assertion = dyn_cast<cf::AssertOp>(op)) {
    noteFailure(values.lookup(assertion.getArg()), mask);
    return nullptr;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    SmallVector<Index> position;
    for (auto [i, operand] : llvm::enumerate(extract.getIndices())) {
      if (auto index = operand.getDefiningOp<linalg::IndexOp>())
        position.push_back(loops[index.getDim()]);
      else
        position.push_back(
            dynamicIndex(values.lookup(operand), extract.getTensor().getType().getDimSize(i)));
    }
    return at(extract.getTensor(), position, mask);
  }
  SmallVector<Value, 3> operands;
  int64_t lanes = 0; // usually `width`; fewer where lanes are folded into one another
  for (Value operand : op.getOperands()) {
    Value value = values.lookup(operand);
    operands.push_back(value);
    if (auto type = dyn_cast<VectorType>(value.getType()))
      lanes = type.getDimSize(0);
  }
  if (lanes)
    for (Value &operand : operands)
      operand = broadcast(operand, lanes);
  Operation *clone = b.clone(op);
  clone->setLoc(loc);
  clone->setOperands(operands);
  if (lanes)
    clone->getResult(0).setType(VectorType::get({lanes}, op.getResult(0).getType()));
  return unique(clone);
}

} // namespace weft::compiler

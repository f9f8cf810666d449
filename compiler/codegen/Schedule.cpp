#include "compiler/codegen/Schedule.h"

#include "compiler/codegen/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

using namespace mlir;

int64_t KernelBuilder::claimPartials(int64_t bytes) {
  int64_t offset = info.partialsBytes;
  info.partialsBytes += roundUp(bytes, kLineBytes);
  return offset;
}

int64_t KernelBuilder::claimScratch(int64_t bytes) {
  int64_t offset = info.threadScratchBytes;
  info.threadScratchBytes += roundUp(bytes, kLineBytes);
  return offset;
}

void KernelBuilder::noteChoices() {
  info.schedule = choices.made();
  info.refusedPins = choices.refused();
}

static MemRefType bufferType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get({type.getNumElements()}, memoryType(type.getElementType()));
}

// The arguments before the partials.
static size_t buffersOf(KernelBuilder &kernel) {
  return kernel.numInputs() + kernel.outputs.size();
}

KernelFunction::KernelFunction(KernelBuilder &kernel, StringRef name)
    : kernel(kernel), builder(kernel.module.getContext()), e(builder, kernel.fusion.getLoc()) {
  builder.setInsertionPointToEnd(kernel.module.getBody());
  SmallVector<Type> inputs;
  for (Value input : kernel.fusion.getInputs())
    inputs.push_back(bufferType(input.getType()));
  for (Value output : kernel.outputs)
    inputs.push_back(bufferType(output.getType()));
  auto bytes = MemRefType::get({ShapedType::kDynamic}, builder.getI8Type());
  inputs.append({bytes, bytes, builder.getIndexType(), builder.getIndexType()});
  inputs.append(kernel.numInts(), builder.getIndexType());
  function = func::FuncOp::create(builder, e.loc, name,
                                  builder.getFunctionType(inputs, builder.getI32Type()));
  function.setPrivate();
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  size_t buffers = buffersOf(kernel);
  begin = entry->getArgument(buffers + 2);
  end = entry->getArgument(buffers + 3);
  e.errorFlag =
      memref::AllocaOp::create(builder, e.loc, MemRefType::get({1}, builder.getI32Type()));
  Value zero = arith::ConstantOp::create(builder, e.loc, builder.getI32IntegerAttr(0));
  memref::StoreOp::create(builder, e.loc, zero, e.errorFlag, ValueRange{e.constantIndex(0)});
  for (auto [i, argument] : llvm::enumerate(kernel.arguments()))
    e.setBuffer(kernel.lowered.lookup(argument), {entry->getArgument(i), static_cast<int64_t>(i),
                                                  kernel.lengthDim(static_cast<int64_t>(i))});
  e.mostStride = kMostStride;
  e.wholeBuffers = kernel.sizes.named.empty();
}

LogicalResult KernelFunction::finish() {
  Value result =
      memref::LoadOp::create(builder, e.loc, e.errorFlag, ValueRange{e.constantIndex(0)});
  func::ReturnOp::create(builder, e.loc, result);
  // Now the sizes of partials and scratch are known.
  size_t buffers = buffersOf(kernel);
  function.getArgument(buffers).setType(
      MemRefType::get({kernel.info.partialsBytes}, builder.getI8Type()));
  function.getArgument(buffers + 1)
      .setType(MemRefType::get({kernel.info.threadScratchBytes}, builder.getI8Type()));
  function.setType(
      builder.getFunctionType(function.getBody().front().getArgumentTypes(), builder.getI32Type()));
  if (e.failed())
    return kernel.fusion.emitError("codegen: ") << e.error();
  kernel.periods.insert_range(e.periods);
  return success();
}

Value KernelFunction::view(Value bytes, int64_t offset, int64_t count, Type element) {
  auto space = cast<MemRefType>(bytes.getType()).getMemorySpace();
  auto type = MemRefType::get({count}, memoryType(element), MemRefLayoutAttrInterface(), space);
  // At the start of the function, for all uses.
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.getBody().front());
  Value at = arith::ConstantIndexOp::create(builder, e.loc, offset);
  return memref::ViewOp::create(builder, e.loc, type, bytes, at, ValueRange{});
}
Value KernelFunction::partials(int64_t offset, int64_t count, Type element) {
  return view(function.getArgument(buffersOf(kernel)), offset, count, element);
}
Value KernelFunction::scratch(int64_t offset, int64_t count, Type element) {
  return view(function.getArgument(buffersOf(kernel) + 1), offset, count, element);
}

//===-- Loops ---------------------------------------------------------------------------------===//

KernelFunction::State KernelFunction::loop(const Number &begin, const Number &end, int64_t extent,
                                           State state, function_ref<void(Index, State &)> emit) {
  Value from = e.scalar(begin), to = e.scalar(end), one = e.constantIndex(1);
  auto loop = scf::ForOp::create(builder, e.loc, from, to, one, state);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  e.pushScope();
  State inside(loop.getRegionIterArgs());
  emit(e.space.scalar(loop.getInductionVar(), extent), inside);
  // A loop without results has got its yield already, at the end of the block.
  if (!state.empty())
    scf::YieldOp::create(builder, e.loc, inside);
  e.popScope();
  return State(loop.getResults());
}

void KernelFunction::when(Value condition, function_ref<void()> emit,
                          function_ref<void()> otherwise) {
  if (!condition)
    return emit();
  auto branch = scf::IfOp::create(builder, e.loc, condition, /*withElseRegion=*/bool(otherwise));
  auto fill = [&](Block *block, function_ref<void()> part) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    e.pushScope();
    part();
    e.popScope();
  };
  fill(branch.thenBlock(), emit);
  if (otherwise)
    fill(branch.elseBlock(), otherwise);
}

KernelFunction::State KernelFunction::loop(int64_t count, State state,
                                           function_ref<void(Index, State &)> emit) {
  if (count == 0)
    return state;
  if (count == 1) {
    emit(Index::of(0), state);
    return state;
  }
  return loop(0, count, count, state, emit);
}

void KernelFunction::loop(const Number &begin, const Number &end, int64_t extent,
                          function_ref<void(Index)> emit) {
  loop(begin, end, extent, {}, [&](Index at, State &) { emit(at); });
}

void KernelFunction::loop(int64_t count, function_ref<void(Index)> emit) {
  loop(count, {}, [&](Index at, State &) { emit(at); });
}

KernelFunction::State KernelFunction::run(int64_t n, int64_t unroll, const Index &base, State state,
                                          function_ref<void(ArrayRef<Unit>, State &)> emit,
                                          function_ref<void(State &)> atBlock) {
  int64_t vectors = n / kLanes, tail = n % kLanes, rounds = vectors / unroll,
          perBlock = kSumBlock / (unroll * kLanes);
  auto group = [&](Index round, State &inside) {
    SmallVector<Unit, 4> units;
    for (int64_t u = 0; u < unroll; ++u) {
      Index at = e.space.add(e.space.scale(round, unroll * kLanes), u * kLanes);
      units.push_back(
          {e.space.add(e.space.add(at, e.space.lane(kLanes)), base), nullptr, kLanes, u % kSlots});
    }
    emit(units, inside);
  };
  if (rounds <= 1)
    rounds = 0;
  else if (!atBlock)
    state = loop(rounds, state, group);
  else
    state = loop(llvm::divideCeil(rounds, perBlock), state, [&](Index number, State &inside) {
      atBlock(inside);
      Value first = e.scalarIndex(e.space.scale(number, perBlock)), last = e.add(first, perBlock);
      if (rounds % perBlock)
        last = e.min(last, rounds);
      inside = loop(first, last, rounds, inside, group);
    });
  SmallVector<Unit, 4> units;
  for (int64_t v = rounds * unroll; v < vectors + (tail > 0); ++v) {
    int64_t lanes = v < vectors ? kLanes : tail;
    Index at = e.space.add(e.space.add(e.space.lane(lanes), v * kLanes), base);
    units.push_back({at, e.tailMask(lanes), lanes, v % kSlots});
  }
  if (units.empty())
    return state;
  if (atBlock && rounds % perBlock == 0)
    atBlock(state);
  emit(units, state);
  return state;
}

void KernelFunction::run(int64_t n, int64_t unroll, const Index &base,
                         function_ref<void(ArrayRef<Unit>)> emit) {
  run(n, unroll, base, {}, [&](ArrayRef<Unit> units, State &) { emit(units); });
}

void KernelFunction::each(int64_t n, int64_t unroll, const Index &base,
                          function_ref<void(const Unit &)> emit) {
  run(n, unroll, base, [&](ArrayRef<Unit> units) { llvm::for_each(units, emit); });
}

Index KernelFunction::ahead(const Index &at, int64_t steps, int64_t count) {
  Value next = e.min(e.space.add(at, steps), count - 1);
  return e.space.scalar(next, count);
}

void KernelFunction::block(const Index &number, int64_t extent, int64_t size,
                           function_ref<void(const Index &, int64_t)> emit) {
  if (extent <= size)
    return emit(Index::of(0), extent);
  int64_t blocks = llvm::divideCeil(extent, size), rest = extent % size;
  if (!rest)
    return emit(e.space.scale(number, size), size);
  Value isLast = e.compare(arith::CmpIPredicate::eq, number, blocks - 1);
  when(
      isLast, [&] { emit(Index::of((blocks - 1) * size), rest); },
      [&] {
        // Bounded as it is here: were the last block whole, its end would lie beyond the extent,
        // and positions would not simplify.
        Value whole = e.min(number, blocks - 2);
        emit(e.space.scale(e.space.scalar(whole, blocks - 1), size), size);
      });
}

KernelFunction::State
KernelFunction::blocks(int64_t extent, int64_t size, State state,
                       function_ref<void(const Index &, int64_t, State &)> emit) {
  int64_t whole = extent / size, rest = extent % size;
  state = loop(whole, std::move(state), [&](Index number, State &inside) {
    emit(e.space.scale(number, size), size, inside);
  });
  if (rest)
    emit(Index::of(whole * size), rest, state);
  return state;
}

void KernelFunction::blocks(int64_t extent, int64_t size,
                            function_ref<void(const Index &, int64_t)> emit) {
  blocks(extent, size, {}, [&](const Index &first, int64_t count, State &) { emit(first, count); });
}

KernelFunction::State KernelFunction::runUpTo(Value n, int64_t largest, int64_t unroll,
                                              const Index &base, State state,
                                              function_ref<void(ArrayRef<Unit>, State &)> emit) {
  int64_t step = unroll * kLanes;
  Value rounds = e.divideUp(n, step);
  return loop(0, rounds, llvm::divideCeil(largest, step), state,
              [&](Index round, State &inside) {
                Value left = e.sub(n, e.space.scale(round, step));
                SmallVector<Unit, 4> units;
                for (int64_t u = 0; u < unroll; ++u) {
                  Index lane = e.space.add(e.space.lane(kLanes), u * kLanes);
                  Value mask =
                      e.compare(arith::CmpIPredicate::slt, e.vectorIndex(lane), e.broadcast(left));
                  units.push_back({e.space.add(e.space.add(e.space.scale(round, step), lane), base),
                                   mask, kLanes, u % kSlots});
                }
                emit(units, inside);
              });
}

//===-- Reductions ----------------------------------------------------------------------------===//

Value KernelFunction::combine(linalg::GenericOp reduction, Value a, Value b) {
  // A contraction's body multiplies its terms before it adds.
  if (reduction.getNumDpsInputs() > 1)
    return sum(a, b);
  return e.body(reduction, {}, {b, a}, nullptr);
}

// a and b and so on, joined in pairs.
static Value pairwise(SmallVector<Value> all, function_ref<Value(Value, Value)> join) {
  while (all.size() > 1) {
    for (size_t i = 0; i < all.size() / 2; ++i)
      all[i] = join(all[2 * i], all[2 * i + 1]);
    if (all.size() % 2)
      all[all.size() / 2] = all.back();
    all.resize(llvm::divideCeil(all.size(), 2));
  }
  return all.front();
}

void KernelFunction::know(Operation *op, Value sum) {
  e.setKnown(kernel.lowered.lookup(op->getResult(0)),
             [sum](ArrayRef<Index>, Value) { return sum; });
}

void KernelFunction::know(Operation *op, ArrayRef<Index> atoms, std::function<Value()> sum) {
  e.setKnown(kernel.lowered.lookup(op->getResult(0)),
             [this, sum, here = position(op->getResult(0), atoms)](ArrayRef<Index> at, Value) {
               if (at != ArrayRef(here))
                 e.fail("a sum is read at another position");
               return sum();
             });
}

// An x86 machine has no instruction for IEEE 754's maximum, which takes six in a chain: it is NaN if
// an element is, and +0 above -0. But where no element is NaN, comparisons decide, and the sign of a
// zero follows from those of all elements: the maximum has it if all have it, the minimum if one
// has. So a group takes some two instructions a vector, and a branch.
Value KernelFunction::extremeOf(bool largest, ArrayRef<Value> values) {
  auto type = cast<VectorType>(values.front().getType());
  unsigned bits = type.getElementTypeBitWidth();
  Type integers = type.clone(builder.getIntegerType(bits));
  auto both = [&](Value a, Value b) -> Value {
    return e.make<arith::AndIOp>(a, b);
  };
  auto either = [&](Value a, Value b) -> Value {
    return e.make<arith::OrIOp>(a, b);
  };
  SmallVector<Value> ordered, asIntegers;
  for (size_t i = 0; i < values.size(); i += 2)
    ordered.push_back(e.make<arith::CmpFOp>(arith::CmpFPredicate::ORD, values[i],
                                            values[std::min(i + 1, values.size() - 1)]));
  for (Value value : values)
    asIntegers.push_back(e.make<arith::BitcastOp>(integers, value));
  Value isOrdered =
      e.make<vector::ReductionOp>(vector::CombiningKind::AND, pairwise(ordered, both));
  auto byComparisons = [&]() -> Value {
    auto predicate = largest ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
    Value extreme = pairwise(llvm::to_vector(values), [&](Value a, Value b) -> Value {
      return e.make<arith::SelectOp>(e.make<arith::CmpFOp>(predicate, a, b), a, b);
    });
    auto constant = [&](const APInt &value) {
      return e.broadcast(e.constant(builder.getIntegerAttr(builder.getIntegerType(bits), value)));
    };
    APInt sign = llvm::APInt::getSignMask(bits);
    Value magnitude = both(e.make<arith::BitcastOp>(integers, extreme), constant(~sign));
    Value signs = largest ? pairwise(asIntegers, both) : pairwise(asIntegers, either);
    return e.make<arith::BitcastOp>(type, either(magnitude, both(signs, constant(sign))));
  };
  auto oneByOne = [&] {
    Value result = values.front();
    for (Value value : values.drop_front())
      result = largest ? Value(e.make<arith::MaximumFOp>(result, value))
                       : Value(e.make<arith::MinimumFOp>(result, value));
    return result;
  };
  auto choice = scf::IfOp::create(builder, e.loc, type, isOrdered, /*withElseRegion=*/true);
  auto fill = [&](Block *block, function_ref<Value()> emit) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    e.pushScope();
    scf::YieldOp::create(builder, e.loc, emit());
    e.popScope();
  };
  fill(choice.thenBlock(), byComparisons);
  fill(choice.elseBlock(), oneByOne);
  return choice.getResult(0);
}

Value KernelFunction::combineAll(linalg::GenericOp reduction, ArrayRef<Value> values) {
  Block &body = reduction.getRegion().front();
  bool isExtreme = isa<VectorType>(values.front().getType()) && llvm::hasNItems(body, 2) &&
                   isa<arith::MaximumFOp, arith::MinimumFOp>(body.front());
  if (isExtreme && static_cast<int64_t>(values.size()) >= kLeastMaxima)
    return extremeOf(isa<arith::MaximumFOp>(body.front()), values);
  Value result = values.front();
  for (Value value : values.drop_front())
    result = combine(reduction, result, value);
  return result;
}

Value KernelFunction::identity(linalg::GenericOp reduction, bool vector) {
  auto constant = reduction.getDpsInits()[0].getDefiningOp<arith::ConstantOp>();
  auto splat = cast<DenseElementsAttr>(constant.getValue());
  auto element = ir::typeOf(constant).getElementType();
  // A tensor without elements has no splat value; nothing will read what stands in for it.
  Attribute value =
      splat.empty() ? Attribute(builder.getZeroAttr(element)) : splat.getSplatValue<Attribute>();
  Value scalar = e.constant(cast<TypedAttr>(value));
  return vector ? e.broadcast(scalar) : scalar;
}

Value KernelFunction::accumulate(linalg::GenericOp reduction, ArrayRef<Index> position,
                                 Value accumulator, Value mask) {
  auto inputs = e.inputsAt(reduction, position, mask);
  inputs.push_back(accumulator);
  Value next = e.body(reduction, position, inputs, mask);
  if (mask)
    next = e.make<arith::SelectOp>(mask, next, accumulator);
  return next;
}

void KernelFunction::accumulateAll(ArrayRef<Operation *> ops, ArrayRef<Index> atoms, State &state,
                                   int64_t first, int64_t apart, Value mask) {
  for (auto [i, op] : llvm::enumerate(ops)) {
    Value &sum = state[first + i * apart];
    sum = accumulate(kernel.generic(op), position(op->getOperand(0), atoms), sum, mask);
  }
}

Value KernelFunction::foldLanes(linalg::GenericOp reduction, Value whole) {
  auto type = dyn_cast<VectorType>(whole.getType());
  if (!type)
    return whole;
  for (int64_t half = type.getNumElements() / 2; half >= 1; half /= 2) {
    auto low = llvm::to_vector(llvm::seq<int64_t>(0, half)),
         high = llvm::to_vector(llvm::seq<int64_t>(half, 2 * half));
    Value a = e.make<vector::ShuffleOp>(whole, whole, low),
          b = e.make<vector::ShuffleOp>(whole, whole, high);
    whole = combine(reduction, a, b);
  }
  return e.make<vector::ExtractOp>(whole, 0);
}

// The op of a reduction's body that takes the accumulator.
static Operation *combinerOf(linalg::GenericOp reduction) {
  return reduction.getRegion().front().getTerminator()->getOperand(0).getDefiningOp();
}
static bool addsFloats(linalg::GenericOp reduction) {
  return isa_and_nonnull<arith::AddFOp>(combinerOf(reduction));
}
// Whether the order of a reduction shows in its bits.
static bool orderShows(linalg::GenericOp reduction) {
  return isa_and_nonnull<arith::AddFOp, arith::MulFOp>(combinerOf(reduction));
}

KernelFunction::State KernelFunction::identities(ArrayRef<linalg::GenericOp> reductions,
                                                 int64_t copies, bool vector) {
  State state;
  for (linalg::GenericOp reduction : reductions)
    state.append(copies, identity(reduction, vector));
  return state;
}

// Whether totals of values of the type are of a wider one.
static bool hasWideTotals(Type type) {
  return getElementTypeOrSelf(type).isF32();
}

Value KernelFunction::sum(Value a, Value b) {
  if (isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return e.make<arith::AddFOp>(a, b);
  return e.add(a, b);
}

KernelFunction::State KernelFunction::noTotals(ArrayRef<linalg::GenericOp> reductions,
                                               int64_t copies, bool vector) {
  State totals = identities(reductions, copies, vector);
  for (auto [i, reduction] : llvm::enumerate(reductions)) {
    if (!addsFloats(reduction))
      continue;
    Value zero = totals[i * copies];
    if (!hasWideTotals(zero.getType())) {
      totals.append(copies, zero);
      continue;
    }
    Value wide = e.constant(builder.getF64FloatAttr(0));
    std::fill_n(totals.begin() + i * copies, copies, vector ? e.broadcast(wide) : wide);
  }
  return totals;
}

void KernelFunction::addToTotals(State &totals, ArrayRef<linalg::GenericOp> reductions,
                                 int64_t copies, ArrayRef<Value> parts) {
  size_t lost = parts.size();
  for (auto [i, part] : llvm::enumerate(parts)) {
    Value &total = totals[i];
    if (!addsFloats(reductions[i / copies]))
      total = combine(reductions[i / copies], total, part);
    else if (hasWideTotals(part.getType()))
      total = sum(total, e.make<arith::ExtFOp>(total.getType(), part));
    else
      total = addKeeping(total, part, totals[lost++]);
  }
}

KernelFunction::State KernelFunction::fromTotals(ArrayRef<Value> totals,
                                                 ArrayRef<linalg::GenericOp> reductions,
                                                 int64_t copies) {
  size_t count = reductions.size() * copies, lost = count;
  State sums;
  for (size_t i = 0; i < count; ++i) {
    Value total = totals[i];
    Type type = identity(reductions[i / copies], isa<VectorType>(total.getType())).getType();
    if (!addsFloats(reductions[i / copies]))
      sums.push_back(total);
    else if (hasWideTotals(type))
      sums.push_back(e.make<arith::TruncFOp>(type, total));
    else
      sums.push_back(settle(total, totals[lost++]));
  }
  return sums;
}

Value KernelFunction::addKeeping(Value total, Value part, Value &lost) {
  Value after = e.make<arith::AddFOp>(total, part), added = e.make<arith::SubFOp>(after, total);
  lost = e.make<arith::AddFOp>(lost, e.make<arith::SubFOp>(part, added));
  return after;
}

Value KernelFunction::settle(Value total, Value lost) {
  // Beside an infinity what is lost is no number, and the total itself is right.
  Value zero = e.make<arith::SubFOp>(lost, lost);
  Value isFinite = e.make<arith::CmpFOp>(arith::CmpFPredicate::ORD, zero, zero);
  return e.make<arith::SelectOp>(isFinite, e.make<arith::AddFOp>(total, lost), total);
}

void KernelFunction::nextBlock(State &state, ArrayRef<linalg::GenericOp> reductions) {
  static_assert(kSlots == 2);
  for (auto [i, reduction] : llvm::enumerate(reductions)) {
    Value &before = state[reductions.size() * kSlots + i];
    before = combine(reduction, before, combine(reduction, state[2 * i], state[2 * i + 1]));
    state[2 * i] = state[2 * i + 1] = identity(reduction, true);
  }
}

KernelFunction::State KernelFunction::foldSlots(State state, ArrayRef<linalg::GenericOp> reductions,
                                                bool inBlocks) {
  if (inBlocks)
    nextBlock(state, reductions);
  State sums;
  for (auto [i, reduction] : llvm::enumerate(reductions))
    sums.push_back(foldLanes(reduction, inBlocks
                                            ? state[reductions.size() * kSlots + i]
                                            : combine(reduction, state[2 * i], state[2 * i + 1])));
  return sums;
}

SmallVector<Value> KernelFunction::reduceRun(int64_t n, int64_t unroll, const Index &base,
                                             ArrayRef<linalg::GenericOp> reductions,
                                             function_ref<void(ArrayRef<Unit>, State &)> emit) {
  auto next = [&](State &state) {
    nextBlock(state, reductions);
  };
  auto piece = [&](int64_t size, const Index &from) {
    bool inBlocks = size > kSumBlock && llvm::any_of(reductions, orderShows);
    State state = identities(reductions, kSlots, true);
    if (!inBlocks)
      return foldSlots(run(size, unroll, from, state, emit), reductions, false);
    state.append(identities(reductions, 1, true));
    return foldSlots(run(size, unroll, from, state, emit, next), reductions, true);
  };
  if (n <= kReductionBlock)
    return piece(n, base);
  int64_t whole = n / kReductionBlock;
  State totals = loop(whole, noTotals(reductions, 1, false), [&](Index number, State &inside) {
    Index from = e.space.add(base, e.space.scale(number, kReductionBlock));
    addToTotals(inside, reductions, 1, piece(kReductionBlock, from));
  });
  if (n % kReductionBlock)
    addToTotals(totals, reductions, 1,
                piece(n % kReductionBlock, e.space.add(base, whole * kReductionBlock)));
  return fromTotals(totals, reductions, 1);
}

SmallVector<Value> KernelFunction::reduceRunUpTo(Value n, int64_t largest, const Index &base,
                                                 ArrayRef<linalg::GenericOp> reductions,
                                                 function_ref<void(ArrayRef<Unit>, State &)> emit) {
  if (largest > kReductionBlock) {
    Value size = e.constantIndex(kReductionBlock), whole = e.div(n, size);
    State totals =
        loop(0, whole, largest / kReductionBlock, noTotals(reductions, 1, false),
             [&](Index number, State &inside) {
               Index from = e.space.add(base, e.space.scale(number, kReductionBlock));
               addToTotals(inside, reductions, 1,
                           reduceRun(kReductionBlock, kSlots, from, reductions, emit));
             });
    // No elements are left, or some: then what they give is added, else nothing.
    Index number = e.space.scalar(whole, largest / kReductionBlock + 1);
    addToTotals(totals, reductions, 1,
                reduceRunUpTo(e.rem(n, size), kReductionBlock,
                              e.space.add(base, e.space.scale(number, kReductionBlock)), reductions,
                              emit));
    return fromTotals(totals, reductions, 1);
  }
  bool inBlocks = largest > kSumBlock && llvm::any_of(reductions, orderShows);
  State state = identities(reductions, kSlots, true);
  if (!inBlocks)
    return foldSlots(runUpTo(n, largest, kSlots, base, state, emit), reductions, false);
  state.append(identities(reductions, 1, true));
  Value size = e.constantIndex(kSumBlock), blocks = e.div(e.add(n, kSumBlock - 1), size);
  state = loop(0, blocks, llvm::divideCeil(largest, kSumBlock), state,
               [&](Index number, State &inside) {
                 nextBlock(inside, reductions);
                 Index from = e.space.scale(number, kSumBlock);
                 Value left = e.min(e.sub(n, from), size);
                 inside = runUpTo(left, kSumBlock, kSlots, e.space.add(base, from), inside, emit);
               });
  return foldSlots(state, reductions, true);
}

KernelFunction::State
KernelFunction::reduceSteps(Value begin, Value end, int64_t extent, int64_t most,
                            ArrayRef<linalg::GenericOp> reductions, int64_t copies, bool vector,
                            function_ref<void(Index, State &)> emit, const StepChains &chains) {
  State zero = identities(reductions, copies, vector);
  if (most <= kChain || reductions.empty()) {
    if (chains.begin)
      chains.begin(begin);
    return loop(begin, end, extent, zero, emit);
  }
  Value size = e.constantIndex(kChain);
  // The sums of `some` chains from step `from` on.
  auto sumsOf = [&](Value from, int64_t some) {
    if (some > 1 && some == chains.many)
      return chains.sums(from);
    Value to = e.add(from, size);
    if (some == 1)
      to = e.min(to, end);
    if (chains.begin)
      chains.begin(from);
    State sums;
    for (int64_t i = 0; i < some; ++i)
      sums.append(zero);
    return loop(from, to, extent - (some - 1) * kChain, sums, [&](Index step, State &all) {
      for (int64_t i = 0; i < some; ++i) {
        State one(ArrayRef(all).slice(i * zero.size(), zero.size()));
        emit(e.space.add(step, i * kChain), one);
        llvm::copy(one, all.begin() + i * zero.size());
      }
    });
  };
  // `count` times `some` chains side by side, from step `first` on.
  auto addChains = [&](Value first, Value count, int64_t some, State totals) {
    return loop(0, count, llvm::divideCeil(most, some * kChain), std::move(totals),
                [&](Index number, State &inside) {
                  State sums = sumsOf(e.add(first, e.space.scale(number, some * kChain)), some);
                  for (int64_t i = 0; i < some; ++i)
                    addToTotals(inside, reductions, copies,
                                ArrayRef(sums).slice(i * zero.size(), zero.size()));
                });
  };
  State totals = noTotals(reductions, copies, vector);
  for (int64_t some : {chains.many, chains.together}) {
    if (some == 1 || most < some * kChain)
      continue;
    Value step = e.constantIndex(some * kChain), groups = e.div(e.sub(end, begin), step);
    totals = addChains(begin, groups, some, std::move(totals));
    begin = e.add(begin, e.mul(groups, step));
  }
  Value above = e.add(e.sub(end, begin), kChain - 1);
  totals = addChains(begin, e.div(above, size), 1, std::move(totals));
  return fromTotals(totals, reductions, copies);
}

KernelFunction::State KernelFunction::reduceSteps(int64_t count,
                                                  ArrayRef<linalg::GenericOp> reductions,
                                                  int64_t copies, bool vector,
                                                  function_ref<void(Index, State &)> emit,
                                                  const StepChains &chains) {
  if (count <= kChain && !chains.begin)
    return loop(count, identities(reductions, copies, vector), emit);
  return reduceSteps(e.constantIndex(0), e.constantIndex(count), count, count, reductions, copies,
                     vector, emit, chains);
}

std::pair<Value, Value> KernelFunction::chunkAt(const Index &chunk, Value rows,
                                                int64_t largest) {
  Value number = e.scalarIndex(chunk), size = e.constantIndex(kLeastChunk), first;
  if (octaveOf(largest) == 0) {
    first = e.mul(number, size);
  } else {
    Value octaveChunks = e.constantIndex(kOctaveChunks),
          octave = e.sub(e.max(e.div(number, octaveChunks), 1), 1),
          at = e.sub(number, e.mul(octave, octaveChunks));
    size = e.make<arith::ShLIOp>(size, octave);
    first = e.mul(at, size);
  }
  return {first, e.min(e.add(first, size), rows)};
}

Value KernelFunction::chunksOf(Value rows, int64_t largest) {
  Value octave = e.constantIndex(0), one = e.constantIndex(1);
  for (int64_t i = 0; i < octaveOf(largest); ++i) {
    Value isBeyond =
        e.compare(arith::CmpIPredicate::ugt, rows, (2 * kOctaveChunks * kLeastChunk) << i);
    octave = e.make<arith::SelectOp>(isBeyond, e.constantIndex(i + 1), octave);
  }
  Value size = e.make<arith::ShLIOp>(e.constantIndex(kLeastChunk), octave),
        above = e.sub(e.add(rows, size), one);
  return e.add(e.mul(octave, kOctaveChunks), e.div(above, size));
}

KernelFunction::State KernelFunction::reduceRows(int64_t count,
                                                 ArrayRef<linalg::GenericOp> reductions,
                                                 int64_t copies, bool vector,
                                                 function_ref<void(Index, State &)> emit,
                                                 const StepChains &chains) {
  if (count <= kLeastChunk)
    return reduceSteps(count, reductions, copies, vector, emit, chains);
  State totals =
      loop(chunkCount(count), noTotals(reductions, copies, vector),
           [&](Index number, State &inside) {
             auto [first, last] = chunkAt(number, e.constantIndex(count), count);
             addToTotals(inside, reductions, copies,
                         reduceSteps(first, last, count, largestChunk(count), reductions, copies,
                                     vector, emit, chains));
           });
  return fromTotals(totals, reductions, copies);
}

//===-- Positions -----------------------------------------------------------------------------===//

SmallVector<Index> KernelFunction::position(Value value, ArrayRef<Index> atoms) {
  const FusionDomain::Layout *layout = kernel.domain.layout(value);
  SmallVector<Index> digits;
  SmallVector<int64_t> extents;
  for (int32_t atom : *layout) {
    digits.push_back(atoms[atom]);
    extents.push_back(kernel.domain.atoms()[atom]);
  }
  auto shape = ir::shapeOf(value);
  return e.space.delinearize(e.space.linearize(digits, extents), shape);
}

Index KernelFunction::placeOf(Value value, ArrayRef<Index> atoms) {
  auto shape = ir::shapeOf(value);
  return e.linearize(position(value, atoms), shape, kernel.lengthDim(value));
}

SmallVector<int32_t> outerWithout(const FusionDomain &domain, int32_t atom) {
  SmallVector<int32_t> others(domain.outer());
  llvm::erase(others, atom);
  return others;
}

void placeAtoms(IndexSpace &space, const FusionDomain &domain, MutableArrayRef<Index> atoms,
                ArrayRef<int32_t> some, const Index &linear) {
  for (auto [atom, at] : llvm::zip(some, space.delinearize(linear, domain.extents(some))))
    atoms[atom] = at;
}

SmallVector<Index> atomPositions(KernelFunction &f, const Index &row, const Index &inner) {
  const FusionDomain &domain = f.kernel.domain;
  SmallVector<Index> atoms(domain.atoms().size());
  placeAtoms(f.e.space, domain, atoms, domain.outer(), row);
  placeAtoms(f.e.space, domain, atoms, domain.inner(), inner);
  return atoms;
}

void emitRowDims(KernelFunction &f, const Index &row) {
  for (const Index &atom : atomPositions(f, row, Index::of(0)))
    (void)f.e.scalarIndex(atom);
}

} // namespace weft::compiler

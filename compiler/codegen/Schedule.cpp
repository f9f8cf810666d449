#include "compiler/codegen/Schedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

namespace arith = mlir::arith;
namespace linalg = mlir::linalg;
namespace memref = mlir::memref;
namespace scf = mlir::scf;
namespace vector = mlir::vector;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

int64_t KernelBuilder::claimPartials(int64_t bytes) {
  int64_t offset = info.partialsBytes;
  info.partialsBytes += roundUp(bytes, 64);
  return offset;
}

int64_t KernelBuilder::claimScratch(int64_t bytes) {
  int64_t offset = info.threadScratchBytes;
  info.threadScratchBytes += roundUp(bytes, 64);
  return offset;
}

static mlir::MemRefType bufferType(Type tensor) {
  auto type = mlir::cast<mlir::RankedTensorType>(tensor);
  return mlir::MemRefType::get({type.getNumElements()}, memoryType(type.getElementType()));
}

KernelFunction::KernelFunction(KernelBuilder &kernel, llvm::StringRef name)
    : kernel(kernel), builder(kernel.module.getContext()), e(builder, kernel.fusion.getLoc()) {
  builder.setInsertionPointToEnd(kernel.module.getBody());
  llvm::SmallVector<Type> inputs;
  for (Value input : kernel.fusion.getInputs())
    inputs.push_back(bufferType(input.getType()));
  for (Value output : kernel.outputs)
    inputs.push_back(bufferType(output.getType()));
  auto bytes = mlir::MemRefType::get({mlir::ShapedType::kDynamic}, builder.getI8Type());
  inputs.append({bytes, bytes, builder.getIndexType(), builder.getIndexType()});
  function = mlir::func::FuncOp::create(builder, e.loc, name,
                                        builder.getFunctionType(inputs, builder.getI32Type()));
  function.setPrivate();
  mlir::Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  begin = entry->getArgument(inputs.size() - 2);
  end = entry->getArgument(inputs.size() - 1);
  e.errorFlag =
      memref::AllocaOp::create(builder, e.loc, mlir::MemRefType::get({1}, builder.getI32Type()));
  Value zero = arith::ConstantOp::create(builder, e.loc, builder.getI32IntegerAttr(0));
  memref::StoreOp::create(builder, e.loc, zero, e.errorFlag, ValueRange{e.constantIndex(0)});
  for (auto [i, argument] : llvm::enumerate(kernel.fusion.getBody().front().getArguments()))
    e.setBuffer(kernel.lowered.lookup(argument), {entry->getArgument(i), static_cast<int64_t>(i)});
  e.mostStride = kMostStride;
  e.wholeBuffers = !kernel.sizes;
}

mlir::LogicalResult KernelFunction::finish() {
  Value result =
      memref::LoadOp::create(builder, e.loc, e.errorFlag, ValueRange{e.constantIndex(0)});
  mlir::func::ReturnOp::create(builder, e.loc, result);
  // Now the sizes of partials and scratch are known.
  unsigned count = function.getNumArguments();
  function.getArgument(count - 4).setType(
      mlir::MemRefType::get({kernel.info.partialsBytes}, builder.getI8Type()));
  function.getArgument(count - 3).setType(
      mlir::MemRefType::get({kernel.info.threadScratchBytes}, builder.getI8Type()));
  function.setType(
      builder.getFunctionType(function.getBody().front().getArgumentTypes(), builder.getI32Type()));
  if (e.failed())
    return kernel.fusion.emitError("codegen: ") << e.error();
  kernel.periods.insert_range(e.periods);
  return mlir::success();
}

Value KernelFunction::view(Value bytes, int64_t offset, int64_t count, Type element) {
  auto space = mlir::cast<mlir::MemRefType>(bytes.getType()).getMemorySpace();
  auto type =
      mlir::MemRefType::get({count}, memoryType(element), mlir::MemRefLayoutAttrInterface(), space);
  // At the start of the function, for all uses.
  mlir::OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.getBody().front());
  Value at = arith::ConstantIndexOp::create(builder, e.loc, offset);
  return memref::ViewOp::create(builder, e.loc, type, bytes, at, ValueRange{});
}
Value KernelFunction::partials(int64_t offset, int64_t count, Type element) {
  return view(function.getArgument(function.getNumArguments() - 4), offset, count, element);
}
Value KernelFunction::scratch(int64_t offset, int64_t count, Type element) {
  return view(function.getArgument(function.getNumArguments() - 3), offset, count, element);
}

//===-- Loops ---------------------------------------------------------------------------------===//

KernelFunction::State KernelFunction::loop(Value from, Value to, int64_t extent, State state,
                                           llvm::function_ref<void(Index, State &)> emit) {
  Value one = e.constantIndex(1);
  auto loop = scf::ForOp::create(builder, e.loc, from, to, one, state);
  mlir::OpBuilder::InsertionGuard guard(builder);
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

KernelFunction::State KernelFunction::loop(int64_t count, State state,
                                           llvm::function_ref<void(Index, State &)> emit) {
  if (count == 0)
    return state;
  if (count == 1) {
    emit(Index::of(0), state);
    return state;
  }
  return loop(e.constantIndex(0), e.constantIndex(count), count, state, emit);
}

KernelFunction::State
KernelFunction::run(int64_t n, int64_t unroll, const Index &base, State state,
                    llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit) {
  int64_t vectors = n / kLanes, tail = n % kLanes, rounds = vectors / unroll;
  if (rounds > 1) {
    state = loop(rounds, state, [&](Index round, State &inside) {
      llvm::SmallVector<Unit, 4> units;
      for (int64_t u = 0; u < unroll; ++u) {
        Index at = e.space.add(e.space.scale(round, unroll * kLanes), u * kLanes);
        units.push_back({e.space.add(e.space.add(at, e.space.lane(kLanes)), base), nullptr, kLanes,
                         u % kSlots});
      }
      emit(units, inside);
    });
  } else {
    rounds = 0;
  }
  llvm::SmallVector<Unit, 4> units;
  for (int64_t v = rounds * unroll; v < vectors + (tail > 0); ++v) {
    int64_t lanes = v < vectors ? kLanes : tail;
    Index at = e.space.add(e.space.add(e.space.lane(lanes), v * kLanes), base);
    units.push_back({at, e.tailMask(lanes), lanes, v % kSlots});
  }
  if (!units.empty())
    emit(units, state);
  return state;
}

Index KernelFunction::ahead(const Index &at, int64_t steps, int64_t count) {
  Value next =
      e.make<arith::MinUIOp>(e.scalarIndex(e.space.add(at, steps)), e.constantIndex(count - 1));
  return e.space.scalar(next, count);
}

void KernelFunction::block(const Index &number, int64_t extent, int64_t size,
                           llvm::function_ref<void(const Index &, int64_t)> emit) {
  if (extent <= size)
    return emit(Index::of(0), extent);
  int64_t blocks = llvm::divideCeil(extent, size), rest = extent % size;
  if (!rest)
    return emit(e.space.scale(number, size), size);
  Value isLast = e.make<arith::CmpIOp>(arith::CmpIPredicate::eq, e.scalarIndex(number),
                                       e.constantIndex(blocks - 1));
  auto branch = scf::IfOp::create(builder, e.loc, isLast, /*withElseRegion=*/true);
  for (bool last : {true, false}) {
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(last ? branch.thenBlock() : branch.elseBlock());
    e.pushScope();
    if (last) {
      emit(Index::of((blocks - 1) * size), rest);
    } else {
      // Bounded as it is here: were the last block whole, its end would lie beyond the extent, and
      // positions would not simplify.
      Value whole = e.make<arith::MinUIOp>(e.scalarIndex(number), e.constantIndex(blocks - 2));
      emit(e.space.scale(e.space.scalar(whole, blocks - 1), size), size);
    }
    e.popScope();
  }
}

KernelFunction::State
KernelFunction::runUpTo(Value n, int64_t largest, int64_t unroll, const Index &base, State state,
                        llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit) {
  int64_t step = unroll * kLanes;
  Value rounds = e.make<arith::DivUIOp>(e.make<arith::AddIOp>(n, e.constantIndex(step - 1)),
                                        e.constantIndex(step));
  return loop(e.constantIndex(0), rounds, llvm::divideCeil(largest, step), state,
              [&](Index round, State &inside) {
                Value left = e.make<arith::SubIOp>(n, e.scalarIndex(e.space.scale(round, step)));
                llvm::SmallVector<Unit, 4> units;
                for (int64_t u = 0; u < unroll; ++u) {
                  Index lane = e.space.add(e.space.lane(kLanes), u * kLanes);
                  Value mask = e.make<arith::CmpIOp>(arith::CmpIPredicate::slt, e.vectorIndex(lane),
                                                     e.broadcast(left));
                  units.push_back({e.space.add(e.space.add(e.space.scale(round, step), lane), base),
                                   mask, kLanes, u % kSlots});
                }
                emit(units, inside);
              });
}

//===-- Reductions ----------------------------------------------------------------------------===//

Value KernelFunction::combine(linalg::GenericOp reduction, Value a, Value b) {
  return e.body(reduction, {}, {b, a}, nullptr);
}

Value KernelFunction::identity(linalg::GenericOp reduction, bool vector) {
  auto constant = reduction.getDpsInits()[0].getDefiningOp<arith::ConstantOp>();
  auto splat = mlir::cast<mlir::DenseElementsAttr>(constant.getValue());
  auto element = mlir::cast<mlir::RankedTensorType>(constant.getType()).getElementType();
  // A tensor without elements has no splat value; nothing will read what stands in for it.
  mlir::Attribute value = splat.empty() ? mlir::Attribute(builder.getZeroAttr(element))
                                        : splat.getSplatValue<mlir::Attribute>();
  Value scalar = e.constant(mlir::cast<mlir::TypedAttr>(value));
  return vector ? e.broadcast(scalar) : scalar;
}

Value KernelFunction::accumulate(linalg::GenericOp reduction, llvm::ArrayRef<Index> position,
                                 Value accumulator, Value mask) {
  auto inputs = e.inputsAt(reduction, position, mask);
  inputs.push_back(accumulator);
  Value next = e.body(reduction, position, inputs, mask);
  if (mask)
    next = e.make<arith::SelectOp>(mask, next, accumulator);
  return next;
}

Value KernelFunction::foldLanes(linalg::GenericOp reduction, llvm::ArrayRef<Value> slots) {
  Value whole = combine(reduction, slots[0], slots[1]);
  static_assert(kSlots == 2);
  for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
    auto low = llvm::to_vector(llvm::seq<int64_t>(0, half)),
         high = llvm::to_vector(llvm::seq<int64_t>(half, 2 * half));
    Value a = e.make<vector::ShuffleOp>(whole, whole, low),
          b = e.make<vector::ShuffleOp>(whole, whole, high);
    whole = combine(reduction, a, b);
  }
  return e.make<vector::ExtractOp>(whole, 0);
}

llvm::SmallVector<Value>
KernelFunction::reduceRun(int64_t n, int64_t unroll, const Index &base,
                          llvm::ArrayRef<linalg::GenericOp> reductions,
                          llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit) {
  auto block = [&](int64_t size, const Index &from) {
    State slots;
    for (linalg::GenericOp reduction : reductions)
      slots.append(kSlots, identity(reduction, true));
    slots = run(size, unroll, from, slots, emit);
    State sums;
    for (auto [i, reduction] : llvm::enumerate(reductions))
      sums.push_back(foldLanes(reduction, llvm::ArrayRef(slots).slice(i * kSlots, kSlots)));
    return sums;
  };
  if (n <= kReductionBlock)
    return block(n, base);
  State totals;
  for (linalg::GenericOp reduction : reductions)
    totals.push_back(identity(reduction, false));
  auto add = [&](State &totals, const State &sums) {
    for (auto [i, reduction] : llvm::enumerate(reductions))
      totals[i] = combine(reduction, totals[i], sums[i]);
  };
  int64_t blocks = n / kReductionBlock;
  totals = loop(blocks, totals, [&](Index number, State &inside) {
    add(inside, block(kReductionBlock, e.space.add(base, e.space.scale(number, kReductionBlock))));
  });
  if (n % kReductionBlock)
    add(totals, block(n % kReductionBlock, e.space.add(base, blocks * kReductionBlock)));
  return totals;
}

llvm::SmallVector<Value>
KernelFunction::reduceRunUpTo(Value n, int64_t largest, const Index &base,
                              llvm::ArrayRef<linalg::GenericOp> reductions,
                              llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit) {
  assert(largest <= kReductionBlock && "longer runs are folded block by block");
  State slots;
  for (linalg::GenericOp reduction : reductions)
    slots.append(kSlots, identity(reduction, true));
  slots = runUpTo(n, largest, kSlots, base, slots, emit);
  State sums;
  for (auto [i, reduction] : llvm::enumerate(reductions))
    sums.push_back(foldLanes(reduction, llvm::ArrayRef(slots).slice(i * kSlots, kSlots)));
  return sums;
}

KernelFunction::State KernelFunction::reduceRows(int64_t count,
                                                 llvm::ArrayRef<linalg::GenericOp> reductions,
                                                 int64_t copies, bool vector,
                                                 llvm::function_ref<void(Index, State &)> emit) {
  State zero;
  for (linalg::GenericOp reduction : reductions)
    zero.append(copies, identity(reduction, vector));
  auto add = [&](State &totals, const State &sums) {
    for (size_t i = 0; i < totals.size(); ++i)
      totals[i] = combine(reductions[i / copies], totals[i], sums[i]);
  };
  auto chunk = [&](int64_t rows, const Index &from) {
    return loop(rows, zero,
                [&](Index row, State &inside) { emit(e.space.add(from, row), inside); });
  };
  int64_t size = rowsPerChunk(count), whole = count / size;
  if (count <= size)
    return chunk(count, Index::of(0));
  State totals = loop(whole, zero, [&](Index number, State &inside) {
    add(inside, chunk(size, e.space.scale(number, size)));
  });
  if (count % size)
    add(totals, chunk(count % size, Index::of(whole * size)));
  return totals;
}

//===-- Positions -----------------------------------------------------------------------------===//

llvm::SmallVector<Index> KernelFunction::position(Value value, llvm::ArrayRef<Index> atoms) {
  const FusionDomain::Layout *layout = kernel.domain.layout(value);
  llvm::SmallVector<Index> digits;
  llvm::SmallVector<int64_t> extents;
  for (int32_t atom : *layout) {
    digits.push_back(atoms[atom]);
    extents.push_back(kernel.domain.atoms()[atom]);
  }
  auto shape = mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  return e.space.delinearize(e.space.linearize(digits, extents), shape);
}

void placeAtoms(IndexSpace &space, const FusionDomain &domain, llvm::MutableArrayRef<Index> atoms,
                llvm::ArrayRef<int32_t> some, const Index &linear) {
  for (auto [atom, at] : llvm::zip(some, space.delinearize(linear, domain.extents(some))))
    atoms[atom] = at;
}

llvm::SmallVector<Index> atomPositions(KernelFunction &f, const Index &row, const Index &inner) {
  const FusionDomain &domain = f.kernel.domain;
  llvm::SmallVector<Index> atoms(domain.atoms().size());
  placeAtoms(f.e.space, domain, atoms, domain.outer(), row);
  placeAtoms(f.e.space, domain, atoms, domain.inner(), inner);
  return atoms;
}

} // namespace weft::compiler

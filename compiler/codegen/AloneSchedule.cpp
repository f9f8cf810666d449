// Ops with schedules of their own: scatters, and kernels without elements.
#include "compiler/codegen/Schedule.h"

#include <optional>

#include "compiler/codegen/Limits.h"
#include "dialects/weft/lowerings/LowerToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

namespace arith = mlir::arith;
namespace linalg = mlir::linalg;
using mlir::Operation;
using mlir::Value;

static llvm::ArrayRef<int64_t> shapeOf(Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
static int64_t product(llvm::ArrayRef<int64_t> sizes) {
  return mlir::ShapedType::getNumElements(sizes);
}

//===-- Scatters ------------------------------------------------------------------------------===//

Value combineScattered(ElementEmitter &e, Operation *scatter, Value there, Value update) {
  bool isFloat = mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(there.getType()));
  auto reduce = mlir::dyn_cast<ir::ScatterReduceOp>(scatter);
  if (!reduce)
    return isFloat ? e.make<arith::AddFOp>(there, update) : e.make<arith::AddIOp>(there, update);
  switch (reduce.getCombiner()) {
  case ir::Combiner::prod:
    return isFloat ? e.make<arith::MulFOp>(there, update) : e.make<arith::MulIOp>(there, update);
  case ir::Combiner::max:
    return isFloat ? e.make<arith::MaximumFOp>(there, update)
                   : e.make<arith::MaxSIOp>(there, update);
  case ir::Combiner::min:
    return isFloat ? e.make<arith::MinimumFOp>(there, update)
                   : e.make<arith::MinSIOp>(there, update);
  }
  llvm_unreachable("all combiners are above");
}

// Columns of a piece of a scatter: as many as leave enough pieces.
static int64_t scatterColumns(int64_t lead, int64_t trail) {
  int64_t columns = kScatterColumns;
  while (columns > kLeastScatterColumns && lead * llvm::divideCeil(trail, columns) < kLeastPieces)
    columns /= 2;
  return std::min(columns, trail);
}

// One loop over the source. Pieces hold different parts of the result: the dims before the
// scattered one, and columns after it, so that whoever adds to an element does so alone and in the
// source's order. The lanes of a vector are columns of a slice, and so never meet in an element.
// Where many meet, they are added up in more digits.
static mlir::LogicalResult scheduleScatter(KernelBuilder &kernel, Operation *op) {
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  linalg::GenericOp generic = kernel.generic(op);
  int64_t dim = generic->getAttrOfType<mlir::IntegerAttr>(ir::kScatterDim).getInt();
  Value base = generic.getDpsInits()[0], indices = generic.getDpsInputs()[0],
        source = generic.getDpsInputs()[1];
  llvm::ArrayRef<int64_t> to = shapeOf(base), from = shapeOf(source), index = shapeOf(indices);
  bool puts = mlir::isa<ir::IndexPutOp>(op), wholeSlices = puts || mlir::isa<ir::IndexAddOp>(op);
  int64_t width = wholeSlices ? index.size() : 1; // source dims in place of the scattered one
  llvm::ArrayRef<int64_t> leadTo = to.take_front(dim), leadFrom = from.take_front(dim),
                          trailTo = to.drop_front(dim + 1),
                          trailFrom = from.drop_front(dim + width), middle = from.slice(dim, width);
  int64_t lead = product(leadTo), size = to[dim], trail = product(trailTo);
  // PyTorch's scatter_add takes a source that covers a part of the result's columns only.
  bool byColumns = trailFrom == trailTo && trail > 1;
  int64_t columns = !byColumns    ? trail
                    : wholeSlices ? scatterColumns(lead, trail)
                                  : std::min(trail, kLeastScatterColumns);
  int64_t blocks = byColumns ? llvm::divideCeil(trail, columns) : 1;
  kernel.info.count = product(to) == 0 ? 0 : lead * blocks;
  // Where the source's length is known at run time only, the range is its steps, and one thread
  // takes them all.
  bool isSized = kernel.sizes && dim == 0;
  if (isSized)
    kernel.rangeUnit = kernel.info.count = product(middle);
  auto steps = [&](llvm::function_ref<void(const Index &)> emit) {
    if (product(middle) == 0)
      return;
    f.loop(f.e.constantIndex(0), isSized ? f.end : f.e.constantIndex(product(middle)),
           product(middle), {}, [&](Index step, KernelFunction::State &) { emit(step); });
  };
  Value out = f.output(0);
  int64_t placeScratch = kernel.claimScratch(kScatterBatch * 8),
          updateScratch = kernel.claimScratch(kScatterBatch * 8);
  // Where an element comes from, and in which column of the result it goes.
  using Source = std::pair<llvm::SmallVector<Index>, Index>;

  auto element = [&](const Index &l, const Index &t,
                     const Index &c) { // linear position in the result
    return space.add(space.add(space.scale(l, size * trail), space.scale(t, trail)), c);
  };
  // Totals of float32, or what those of float64 lose, in scratch, for each element of the dims from
  // the scattered one on.
  mlir::Type type = mlir::cast<mlir::RankedTensorType>(base.getType()).getElementType();
  mlir::Type f64 = f.builder.getF64Type();
  bool isWide = type.isF32();
  Value totals, kept; // what the code at hand keeps: the totals, or nothing
  if (scattersTotals(op, product(middle)))
    totals = f.scratch(kernel.claimScratch(size * trail * 8), size * trail, f64);
  auto keptAt = [&](const Index &l, const Index &place) {
    return space.add(place, space.scale(l, -size * trail));
  };
  auto load = [&](Value memory, const Index &at, Value mask, bool vector) {
    Value value = f.e.load(memory, memory == kept ? f64 : type, at, mask);
    return vector ? f.e.broadcast(value) : value;
  };
  // Of a scalar or a vector.
  auto widened = [&](Value value) -> Value {
    auto vector = mlir::dyn_cast<mlir::VectorType>(value.getType());
    return f.e.make<arith::ExtFOp>(vector ? mlir::Type(vector.clone(f64)) : f64, value);
  };
  // The element at `place` with one that meets it.
  auto meet = [&](const Index &l, const Index &place, Value update, Value mask) {
    bool vector = mlir::isa<mlir::VectorType>(update.getType());
    if (puts)
      return f.e.store(out, update, place, mask);
    if (!kept)
      return f.e.store(out, combineScattered(f.e, op, load(out, place, mask, vector), update),
                       place, mask);
    Index at = keptAt(l, place);
    Value before = load(kept, at, mask, vector);
    if (isWide)
      return f.e.store(kept, f.sum(before, widened(update)), at, mask);
    Value total = f.addKeeping(load(out, place, mask, vector), update, before);
    f.e.store(out, total, place, mask);
    f.e.store(kept, before, at, mask);
  };
  // The base's, where the kernel reads it there and nowhere else: the result may lie in its memory.
  std::optional<int64_t> baseArgument;
  for (auto [i, argument] : llvm::enumerate(kernel.fusion.getBody().front().getArguments()))
    if (kernel.lowered.lookup(argument) == base && llvm::hasSingleElement(argument.getUses()))
      baseArgument = static_cast<int64_t>(i);
  if (baseArgument)
    kernel.info.inPlace.push_back({0, *baseArgument});
  auto piece = [&](const Index &l, const Index &first, int64_t n) {
    // emit(position, mask) for the elements of the piece: one run, where it has all columns.
    auto each = [&](llvm::function_ref<void(const Index &, Value)> emit) {
      if (blocks == 1)
        f.run(size * trail, 1, space.scale(l, size * trail), {},
              [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
                for (const KernelFunction::Unit &unit : units)
                  emit(unit.position, unit.mask);
              });
      else
        f.loop(size, {}, [&](Index t, KernelFunction::State &) {
          f.run(n, 1, first, {},
                [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
                  for (const KernelFunction::Unit &unit : units)
                    emit(element(l, t, unit.position), unit.mask);
                });
        });
    };
    // The base first.
    auto copyBase = [&] {
      each([&](const Index &at, Value mask) {
        Value element = f.e.at(base, space.delinearize(at, to), mask);
        if (!kept || !isWide)
          f.e.store(out, element, at, mask);
        if (kept)
          f.e.store(kept,
                    isWide ? widened(f.e.broadcast(element))
                           : f.e.broadcast(f.e.constant(f.builder.getF64FloatAttr(0))),
                    keptAt(l, at), mask);
      });
    };
    // Where the result lies in its memory, what nobody writes to is there already.
    Value copies =
        baseArgument && !kept
            ? f.e.differ(out, f.function.getArgument(static_cast<unsigned>(*baseArgument)))
            : Value();
    f.when(copies, copyBase);
    auto leadAt = space.delinearize(l, leadTo);
    auto target = [&](llvm::ArrayRef<Index> at, Value mask = nullptr) -> Index {
      llvm::SmallVector<Index> position;
      for (int64_t i = 0; i < static_cast<int64_t>(index.size()); ++i)
        position.push_back(at[wholeSlices ? dim + i : i]);
      return f.e.checkedIndex(f.e.at(indices, position, mask), size, mask);
    };
    // A step's columns are a small part of a row, which ends before a machine's own prefetchers
    // have begun.
    auto prefetch = [&](const Index &s) {
      int64_t most = product(middle);
      if (most <= kScatterAhead)
        return;
      llvm::SmallVector<Index> at(leadAt);
      at.append(space.delinearize(f.ahead(s, kScatterAhead, most), middle));
      at.append(space.delinearize(first, trailFrom));
      for (auto [i, argument] : llvm::enumerate(kernel.fusion.getBody().front().getArguments())) {
        Value tensor = kernel.lowered.lookup(argument);
        if (tensor != indices && tensor != source)
          continue;
        Index line = space.linearize(at, shapeOf(tensor));
        int64_t perLine =
            kLineBytes /
            memoryBytes(mlir::cast<mlir::RankedTensorType>(tensor.getType()).getElementType());
        for (int64_t c = 0; c < n; c += perLine)
          f.e.prefetchLine(f.function.getArgument(i), space.add(line, c), false);
      }
    };
    // `count` elements with a target each: vectors find these and what is added, which wait in
    // scratch; they are combined one by one, since lanes may meet in an element, and a gather and a
    // scatter take twice the time of 16 elements. A batch goes first, so that no load waits for the
    // store of the vector that it is a part of.
    auto oneByOne = [&](int64_t count, const Index &base,
                        llvm::function_ref<Source(const Index &)> sourceAt) {
      mlir::Type i64 = f.builder.getI64Type();
      Value places = f.scratch(placeScratch, kScatterBatch, i64),
            updates = f.scratch(updateScratch, kScatterBatch, type);
      auto batch = [&](const Index &first, int64_t n, KernelFunction::State &) {
        Index from = space.add(base, first);
        f.run(n, 1, from, {},
              [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
                for (const KernelFunction::Unit &unit : units) {
                  auto [at, column] = sourceAt(unit.position);
                  Index waiting = space.add(unit.position, space.scale(from, -1));
                  Value place =
                      f.e.broadcast(f.e.vectorIndex(element(l, target(at, unit.mask), column)));
                  f.e.store(places, f.e.make<arith::IndexCastOp>(f.e.vectorOf(i64), place), waiting,
                            nullptr);
                  f.e.store(updates, f.e.broadcast(f.e.at(source, at, unit.mask)), waiting,
                            nullptr);
                }
              });
        auto one = [&](const Index &number) {
          Value at = f.e.make<arith::IndexCastOp>(f.builder.getIndexType(),
                                                  f.e.load(places, i64, number, nullptr));
          Index place = space.scalar(at, std::max<int64_t>(product(to), 1));
          meet(l, place, f.e.load(updates, type, number, nullptr), nullptr);
        };
        f.loop(n / kScatterUnroll, {}, [&](Index round, KernelFunction::State &) {
          for (int64_t u = 0; u < kScatterUnroll; ++u)
            one(space.add(space.scale(round, kScatterUnroll), u));
        });
        for (int64_t i = n / kScatterUnroll * kScatterUnroll; i < n; ++i)
          one(Index::of(i));
      };
      f.blocks(count, kScatterBatch, {}, batch);
    };
    auto add = [&] {
      if (trail == 1 && product(trailFrom) == 1 && !isSized)
        return oneByOne(product(middle), Index::of(0), [&](const Index &step) -> Source {
          llvm::SmallVector<Index> at(leadAt);
          at.append(space.delinearize(step, middle));
          at.resize(from.size());
          return {at, Index::of(0)};
        });
      steps([&](const Index &s) {
        if (byColumns && !wholeSlices)
          prefetch(s);
        llvm::SmallVector<Index> at(leadAt);
        at.append(space.delinearize(s, middle));
        at.resize(from.size());
        if (trail == 1 && product(trailFrom) == 1) {
          Index place = element(l, target(at), Index::of(0));
          return meet(l, place, f.e.at(source, at), nullptr);
        }
        if (byColumns && wholeSlices) {
          // One target a step.
          Index t = target(at);
          f.run(n, 1, first, {},
                [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
                  for (const KernelFunction::Unit &unit : units) {
                    llvm::copy(space.delinearize(unit.position, trailTo), at.begin() + dim + width);
                    Value update = f.e.broadcast(f.e.at(source, at, unit.mask));
                    meet(l, element(l, t, unit.position), update, unit.mask);
                  }
                });
          return;
        }
        oneByOne(byColumns ? n : product(trailFrom), first, [&](const Index &column) -> Source {
          auto trailAt = space.delinearize(column, trailFrom);
          llvm::copy(trailAt, at.begin() + dim + width);
          return {at, space.linearize(trailAt, trailTo)};
        });
      });
    };
    // In PyTorch's scatter_add the indices may cover a part of the leading dims only.
    Value covered;
    for (auto [at, have, all] : llvm::zip(leadAt, leadFrom, leadTo)) {
      if (have == all)
        continue;
      Value inside = f.e.make<arith::CmpIOp>(arith::CmpIPredicate::slt, f.e.scalarIndex(at),
                                             f.e.constantIndex(have));
      covered = covered ? f.e.make<arith::AndIOp>(covered, inside) : inside;
    }
    f.when(covered, add);
    if (kept)
      each([&](const Index &at, Value mask) {
        Value value = load(kept, keptAt(l, at), mask, true);
        f.e.store(out,
                  isWide ? f.e.make<arith::TruncFOp>(f.e.vectorOf(type), value)
                         : f.settle(load(out, at, mask, true), value),
                  at, mask);
      });
  };
  Value firstPiece = isSized ? f.e.constantIndex(0) : f.begin,
        lastPiece = isSized ? f.e.constantIndex(blocks) : f.end;
  auto allPieces = [&](Value memory) {
    kept = memory;
    f.loop(firstPiece, lastPiece, isSized ? blocks : std::max<int64_t>(kernel.info.count, 1), {},
           [&](Index i, KernelFunction::State &) {
             if (trail == 0)
               return;
             auto [l, block] = space.divide(i, blocks);
             f.block(block, trail, columns,
                     [&](const Index &first, int64_t n) { piece(l, first, n); });
           });
  };
  // How many steps there are decides at run time whether they have totals, as it does elsewhere.
  Value hasTotals;
  if (isSized && totals && !scattersTotals(op, 0))
    hasTotals = f.e.make<arith::CmpIOp>(arith::CmpIPredicate::uge, f.end,
                                        f.e.constantIndex((size + 1) * kChain));
  f.when(
      hasTotals, [&] { allPieces(totals); }, [&] { allPieces(nullptr); });
  return f.finish();
}

//===-- Without elements ----------------------------------------------------------------------===//

// Reductions of nothing give their identity; whatever outputs have elements are computed from that,
// one after another.
static mlir::LogicalResult scheduleEmpty(KernelBuilder &kernel) {
  KernelFunction f(kernel, kernel.info.symbol);
  for (Operation *op : kernel.ops)
    if (isReduction(op)) {
      linalg::GenericOp generic = kernel.generic(op);
      if (product(shapeOf(op->getResult(0))) == 0)
        continue;
      f.e.setKnown(generic.getResult(0), [&f, generic](llvm::ArrayRef<Index>, Value) {
        return f.identity(generic, false);
      });
    }
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    f.run(product(shapeOf(output)), 1, Index::of(0), {},
          [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
            for (const KernelFunction::Unit &unit : units)
              f.e.store(f.output(i),
                        f.e.at(kernel.lowered.lookup(output),
                               f.e.space.delinearize(unit.position, shapeOf(output)), unit.mask),
                        unit.position, unit.mask);
          });
  }
  return f.finish();
}

mlir::LogicalResult scheduleAlone(KernelBuilder &kernel) {
  if (kernel.domain.shape() == FusionDomain::Shape::Empty)
    return scheduleEmpty(kernel);
  Operation *op = kernel.outputs.front().getDefiningOp();
  if (mlir::cast<ir::WeftOp>(op).kind() == ir::Kind::Scan)
    return scheduleScan(kernel);
  return scheduleScatter(kernel, op);
}

} // namespace weft::compiler

// Ops with schedules of their own: scatters, and kernels without elements.
#include "compiler/codegen/Schedule.h"

#include <optional>

#include "compiler/codegen/Limits.h"
#include "compiler/codegen/Scatter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

using namespace mlir;

static int64_t product(ArrayRef<int64_t> sizes) {
  return ShapedType::getNumElements(sizes);
}

//===-- Scatters ------------------------------------------------------------------------------===//

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
static LogicalResult scheduleScatter(KernelBuilder &kernel, Operation *op) {
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  Scatter scatter(kernel, op);
  int64_t lead = scatter.lead, size = scatter.size, trail = scatter.trail,
          mostSteps = scatter.steps;
  // PyTorch's scatters take a source that covers a part of the result's columns only.
  bool byColumns = scatter.trailFrom == scatter.trailTo && trail > 1;
  int64_t columns = !byColumns            ? trail
                    : scatter.wholeSlices ? scatterColumns(lead, trail)
                                          : std::min(trail, kLeastScatterColumns);
  int64_t blocks = byColumns ? llvm::divideCeil(trail, columns) : 1;
  kernel.info.count = product(scatter.to) == 0 ? 0 : lead * blocks;
  // Where the source's length is known at run time only, the range is its steps, and one thread
  // takes them all.
  bool isSized = kernel.sizes && scatter.dim == 0;
  if (isSized)
    kernel.rangeUnit = kernel.info.count = mostSteps;
  auto steps = [&](function_ref<void(const Index &)> emit) {
    if (mostSteps == 0)
      return;
    f.loop(0, isSized ? f.end : f.e.constantIndex(mostSteps), mostSteps,
           [&](Index step) { emit(step); });
  };
  int64_t placeScratch = kernel.claimScratch(kScatterBatch * 8),
          updateScratch = kernel.claimScratch(kScatterBatch * 8);
  // Where an element comes from, and in which column of the result it goes.
  using Source = std::pair<SmallVector<Index>, Index>;

  auto element = [&](const Index &l, const Index &t, const Index &c) {
    return scatter.element(space, l, t, c);
  };
  // In scratch, for each element of the dims from the scattered one on.
  Value memory;
  if (scatter.hasTotals(mostSteps))
    memory = f.scratch(kernel.claimScratch(size * trail * 8), size * trail, f.builder.getF64Type());
  // The base's, where the kernel reads it there and nowhere else: the result may lie in its memory.
  std::optional<int64_t> baseArgument;
  for (auto [i, argument] : llvm::enumerate(kernel.arguments()))
    if (kernel.lowered.lookup(argument) == scatter.base &&
        llvm::hasSingleElement(argument.getUses()))
      baseArgument = static_cast<int64_t>(i);
  if (baseArgument)
    kernel.info.inPlace.push_back({0, *baseArgument});
  auto piece = [&](const Index &l, const Index &first, int64_t n, Value kept) {
    Scatter::Totals totals{kept, space.scale(l, -size * trail)};
    // emit(position, mask) for the elements of the piece: one run, where it has all columns.
    auto each = [&](function_ref<void(const Index &, Value)> emit) {
      if (blocks == 1)
        f.each(size * trail, 1, space.scale(l, size * trail),
               [&](const KernelFunction::Unit &unit) { emit(unit.position, unit.mask); });
      else
        f.loop(size, [&](Index t) {
          f.each(n, 1, first, [&](const KernelFunction::Unit &unit) {
            emit(element(l, t, unit.position), unit.mask);
          });
        });
    };
    // The base first.
    auto copyBase = [&] {
      each([&](const Index &at, Value mask) {
        Value element = f.e.at(scatter.base, space.delinearize(at, scatter.to), mask);
        scatter.begin(f, totals, at, element, /*vector=*/true, mask);
      });
    };
    // Where the result lies in its memory, what nobody writes to is there already.
    Value copies =
        baseArgument && !kept
            ? f.e.differ(f.output(0), f.function.getArgument(static_cast<unsigned>(*baseArgument)))
            : Value();
    f.when(copies, copyBase);
    auto leadAt = space.delinearize(l, scatter.leadTo);
    // A step's columns are a small part of a row, which ends before a machine's own prefetchers
    // have begun.
    auto prefetch = [&](const Index &s) {
      if (mostSteps <= kScatterAhead)
        return;
      SmallVector<Index> at(leadAt);
      at.append(space.delinearize(f.ahead(s, kScatterAhead, mostSteps), scatter.middle));
      at.append(space.delinearize(first, scatter.trailFrom));
      for (auto [i, argument] : llvm::enumerate(kernel.arguments())) {
        Value tensor = kernel.lowered.lookup(argument);
        if (tensor != scatter.indices && tensor != scatter.source)
          continue;
        Index line = space.linearize(at, shapeOf(tensor));
        int64_t perLine = kLineBytes / memoryBytes(getElementTypeOrSelf(tensor.getType()));
        for (int64_t c = 0; c < n; c += perLine)
          f.e.prefetchLine(f.function.getArgument(i), space.add(line, c), false);
      }
    };
    // `count` elements with a target each: vectors find these and what is added, which wait in
    // scratch; they are combined one by one, since lanes may meet in an element, and a gather and a
    // scatter take twice the time of 16 elements. A batch goes first, so that no load waits for the
    // store of the vector that it is a part of.
    auto oneByOne = [&](int64_t count, const Index &base,
                        function_ref<Source(const Index &)> sourceAt) {
      Type i64 = f.builder.getI64Type();
      Value places = f.scratch(placeScratch, kScatterBatch, i64),
            updates = f.scratch(updateScratch, kScatterBatch, scatter.type);
      auto batch = [&](const Index &first, int64_t n) {
        Index from = space.add(base, first);
        f.each(n, 1, from, [&](const KernelFunction::Unit &unit) {
          auto [at, column] = sourceAt(unit.position);
          Index waiting = space.add(unit.position, space.scale(from, -1));
          Index to = element(l, scatter.target(f.e, at, unit.mask), column);
          Value place = f.e.broadcast(f.e.vectorIndex(to));
          f.e.store(places, f.e.make<arith::IndexCastOp>(f.e.vectorOf(i64), place), waiting,
                    nullptr);
          f.e.store(updates, f.e.broadcast(f.e.at(scatter.source, at, unit.mask)), waiting,
                    nullptr);
        });
        auto one = [&](const Index &number) {
          Value at = f.e.make<arith::IndexCastOp>(f.builder.getIndexType(),
                                                  f.e.load(places, i64, number, nullptr));
          Index place = space.scalar(at, std::max<int64_t>(product(scatter.to), 1));
          scatter.meet(f, totals, place, f.e.load(updates, scatter.type, number, nullptr));
        };
        f.loop(n / kScatterUnroll, [&](Index round) {
          for (int64_t u = 0; u < kScatterUnroll; ++u)
            one(space.add(space.scale(round, kScatterUnroll), u));
        });
        for (int64_t i = n / kScatterUnroll * kScatterUnroll; i < n; ++i)
          one(Index::of(i));
      };
      f.blocks(count, kScatterBatch, batch);
    };
    auto add = [&] {
      if (trail == 1 && product(scatter.trailFrom) == 1 && !isSized)
        return oneByOne(mostSteps, Index::of(0), [&](const Index &step) -> Source {
          SmallVector<Index> at(leadAt);
          at.append(space.delinearize(step, scatter.middle));
          at.resize(scatter.from.size());
          return {at, Index::of(0)};
        });
      steps([&](const Index &s) {
        if (byColumns && !scatter.wholeSlices)
          prefetch(s);
        SmallVector<Index> at(leadAt);
        at.append(space.delinearize(s, scatter.middle));
        at.resize(scatter.from.size());
        if (trail == 1 && product(scatter.trailFrom) == 1) {
          Index place = element(l, scatter.target(f.e, at), Index::of(0));
          return scatter.meet(f, totals, place, f.e.at(scatter.source, at));
        }
        if (byColumns && scatter.wholeSlices) {
          // One target a step.
          Index t = scatter.target(f.e, at);
          f.each(n, 1, first, [&](const KernelFunction::Unit &unit) {
            llvm::copy(space.delinearize(unit.position, scatter.trailTo),
                       at.begin() + scatter.dim + scatter.width);
            Value update = f.e.broadcast(f.e.at(scatter.source, at, unit.mask));
            scatter.meet(f, totals, element(l, t, unit.position), update, unit.mask);
          });
          return;
        }
        int64_t count = byColumns ? n : product(scatter.trailFrom);
        oneByOne(count, first, [&](const Index &column) -> Source {
          auto trailAt = space.delinearize(column, scatter.trailFrom);
          llvm::copy(trailAt, at.begin() + scatter.dim + scatter.width);
          return {at, space.linearize(trailAt, scatter.trailTo)};
        });
      });
    };
    f.when(scatter.covers(f.e, leadAt, scatter.leadFrom, scatter.leadTo), add);
    if (kept)
      each([&](const Index &at, Value mask) {
        scatter.end(f, totals, at, /*vector=*/true, mask);
      });
  };
  Value firstPiece = isSized ? f.e.constantIndex(0) : f.begin,
        lastPiece = isSized ? f.e.constantIndex(blocks) : f.end;
  auto allPieces = [&](Value kept) {
    f.loop(firstPiece, lastPiece, isSized ? blocks : std::max<int64_t>(kernel.info.count, 1),
           [&](Index i) {
             if (trail == 0)
               return;
             auto [l, block] = space.divide(i, blocks);
             f.block(block, trail, columns, [&, l = l](const Index &first, int64_t n) {
               piece(l, first, n, kept);
             });
           });
  };
  // How many steps there are decides at run time whether they have totals, as it does elsewhere.
  Value hasTotals;
  if (isSized && memory && !scatter.hasTotals(0))
    hasTotals = f.e.compare(arith::CmpIPredicate::uge, f.end, scatter.leastTotals());
  f.when(
      hasTotals, [&] { allPieces(memory); }, [&] { allPieces(nullptr); });
  return f.finish();
}

//===-- Without elements ----------------------------------------------------------------------===//

// Reductions of nothing give their identity; whatever outputs have elements are computed from that,
// one after another.
static LogicalResult scheduleEmpty(KernelBuilder &kernel) {
  KernelFunction f(kernel, kernel.info.symbol);
  for (Operation *op : kernel.ops)
    if (isReduction(op) && product(shapeOf(op->getResult(0))))
      f.know(op, f.identity(kernel.generic(op), false));
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    f.each(product(shapeOf(output)), 1, Index::of(0), [&](const KernelFunction::Unit &unit) {
      f.e.store(f.output(i),
                f.e.at(kernel.lowered.lookup(output),
                       f.e.space.delinearize(unit.position, shapeOf(output)), unit.mask),
                unit.position, unit.mask);
    });
  }
  return f.finish();
}

LogicalResult scheduleAlone(KernelBuilder &kernel) {
  if (kernel.domain.shape() == FusionDomain::Shape::Empty)
    return scheduleEmpty(kernel);
  Operation *op = kernel.outputs.front().getDefiningOp();
  if (cast<ir::WeftOp>(op).kind() == ir::Kind::Scan)
    return scheduleScan(kernel);
  return scheduleScatter(kernel, op);
}

} // namespace weft::compiler

// Ops with schedules of their own: scatters, scans, matmul (where no library takes it), and kernels without elements.
#include "compiler/codegen/Schedule.h"

#include "dialects/weft/ir/LowerToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace weft::compiler {

namespace arith = mlir::arith;
namespace linalg = mlir::linalg;
namespace scf = mlir::scf;
using mlir::Operation;
using mlir::Value;

static constexpr int64_t kMatmulRows = 4;       // of a register block
static constexpr int64_t kMatmulVectors = 2;    // its columns, in vectors
static constexpr int64_t kScatterColumns = 64;  // of a piece of a scatter
static constexpr int64_t kScatterUnroll = 4;    // elements, where each has its own target
static constexpr int64_t kScatterAhead = 8;     // steps that indices and sources are asked for ahead
static constexpr int64_t kScanColumns = kLanes; // of a piece of a scan

static llvm::ArrayRef<int64_t> shapeOf(Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape(); }
static int64_t product(llvm::ArrayRef<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

static Value sumOf(KernelFunction &f, Value a, Value b) {
  if (mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(a.getType()))) return f.e.make<arith::AddFOp>(a, b);
  return f.e.make<arith::AddIOp>(a, b);
}

//===-- Scatters ------------------------------------------------------------------------------===//

// One loop over the source. Pieces hold different parts of the result: the dims before the scattered one, and columns after it, so that
// whoever adds to an element does so alone and in the source's order. The lanes of a vector are columns of a slice, and so never meet in an
// element.
static mlir::LogicalResult scheduleScatter(KernelBuilder &kernel, Operation *op) {
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  linalg::GenericOp generic = kernel.generic(op);
  int64_t dim = generic->getAttrOfType<mlir::IntegerAttr>(ir::kScatterDim).getInt();
  Value base = generic.getDpsInits()[0], indices = generic.getDpsInputs()[0], source = generic.getDpsInputs()[1];
  llvm::ArrayRef<int64_t> to = shapeOf(base), from = shapeOf(source), index = shapeOf(indices);
  bool puts = mlir::isa<ir::IndexPutOp>(op), wholeSlices = puts || mlir::isa<ir::IndexAddOp>(op);
  int64_t width = wholeSlices ? index.size() : 1; // source dims in place of the scattered one
  llvm::ArrayRef<int64_t> leadTo = to.take_front(dim), leadFrom = from.take_front(dim), trailTo = to.drop_front(dim + 1),
                          trailFrom = from.drop_front(dim + width), middle = from.slice(dim, width);
  int64_t lead = product(leadTo), size = to[dim], trail = product(trailTo);
  // PyTorch's scatter_add takes a source that covers a part of the result's columns only.
  bool byColumns = trailFrom == trailTo && trail > 1;
  int64_t blocks = byColumns ? std::max<int64_t>(1, llvm::divideCeil(trail, kScatterColumns)) : 1;
  int64_t columns = byColumns ? std::min(trail, kScatterColumns) : trail;
  kernel.info.count = product(to) == 0 ? 0 : lead * blocks;
  Value out = f.output(0);

  auto element = [&](const Index &l, const Index &t, const Index &c) { // linear position in the result
    return space.add(space.add(space.scale(l, size * trail), space.scale(t, trail)), c);
  };
  // emit(i) for i in [0, n), some at a time.
  auto each = [&](int64_t n, llvm::function_ref<void(const Index &)> emit) {
    f.loop(n / kScatterUnroll, {}, [&](Index round, KernelFunction::State &) {
      for (int64_t u = 0; u < kScatterUnroll; ++u) emit(space.add(space.scale(round, kScatterUnroll), u));
    });
    for (int64_t i = n / kScatterUnroll * kScatterUnroll; i < n; ++i) emit(Index::of(i));
  };
  auto piece = [&](const Index &l, const Index &first, int64_t n) {
    // The base first: one run, where the piece has all columns.
    if (blocks == 1)
      f.run(size * trail, 1, space.scale(l, size * trail), {}, [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
        for (const KernelFunction::Unit &unit : units)
          f.e.store(out, f.e.at(base, space.delinearize(unit.position, to), unit.mask), unit.position, unit.mask);
      });
    else
      f.loop(size, {}, [&](Index t, KernelFunction::State &) {
        f.run(n, 1, first, {}, [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
          for (const KernelFunction::Unit &unit : units) {
            Index at = element(l, t, unit.position);
            f.e.store(out, f.e.at(base, space.delinearize(at, to), unit.mask), at, unit.mask);
          }
        });
      });
    auto leadAt = space.delinearize(l, leadTo);
    auto target = [&](llvm::ArrayRef<Index> at) -> Index {
      llvm::SmallVector<Index> position;
      for (int64_t i = 0; i < static_cast<int64_t>(index.size()); ++i) position.push_back(at[wholeSlices ? dim + i : i]);
      return f.e.checkedIndex(f.e.at(indices, position), size);
    };
    // A step's columns are a small part of a row, which ends before a machine's own prefetchers have begun.
    auto prefetch = [&](const Index &s) {
      int64_t steps = product(middle), last = steps - 1;
      if (steps <= kScatterAhead) return;
      Value next = f.e.make<arith::MinUIOp>(f.e.scalarIndex(space.add(s, kScatterAhead)), f.e.constantIndex(last));
      llvm::SmallVector<Index> at(leadAt);
      at.append(space.delinearize(space.scalar(next, steps), middle));
      at.append(space.delinearize(first, trailFrom));
      for (auto [i, argument] : llvm::enumerate(kernel.fusion.getBody().front().getArguments())) {
        Value tensor = kernel.lowered.lookup(argument);
        if (tensor != indices && tensor != source) continue;
        Index line = space.linearize(at, shapeOf(tensor));
        int64_t perLine = 64 / memoryBytes(mlir::cast<mlir::RankedTensorType>(tensor.getType()).getElementType());
        for (int64_t c = 0; c < n; c += perLine) f.e.prefetchLine(f.function.getArgument(i), space.add(line, c), false);
      }
    };
    auto add = [&] {
      f.loop(product(middle), {}, [&](Index s, KernelFunction::State &) {
        if (byColumns && !wholeSlices) prefetch(s);
        llvm::SmallVector<Index> at(leadAt);
        at.append(space.delinearize(s, middle));
        at.resize(from.size());
        if (byColumns && wholeSlices) {
          // One target a step.
          Index t = target(at);
          f.run(n, 1, first, {}, [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
            for (const KernelFunction::Unit &unit : units) {
              llvm::copy(space.delinearize(unit.position, trailTo), at.begin() + dim + width);
              Value update = f.e.broadcast(f.e.at(source, at, unit.mask));
              Index place = element(l, t, unit.position);
              if (!puts)
                update = sumOf(f, f.e.broadcast(f.e.load(out, mlir::getElementTypeOrSelf(update.getType()), place, unit.mask)), update);
              f.e.store(out, update, place, unit.mask);
            }
          });
          return;
        }
        // Each element has a target of its own. One by one: a gather and a scatter of 16 lanes take twice the time of 16 elements.
        each(byColumns ? n : product(trailFrom), [&](const Index &number) {
          Index c = space.add(first, number);
          auto trailAt = space.delinearize(c, trailFrom);
          llvm::copy(trailAt, at.begin() + dim + width);
          Value update = f.e.at(source, at);
          Index place = element(l, target(at), space.linearize(trailAt, trailTo));
          if (!puts) update = sumOf(f, f.e.load(out, update.getType(), place, nullptr), update);
          f.e.store(out, update, place, nullptr);
        });
      });
    };
    // In PyTorch's scatter_add the indices may cover a part of the leading dims only.
    Value covered;
    for (auto [at, have, all] : llvm::zip(leadAt, leadFrom, leadTo)) {
      if (have == all) continue;
      Value inside = f.e.make<arith::CmpIOp>(arith::CmpIPredicate::slt, f.e.scalarIndex(at), f.e.constantIndex(have));
      covered = covered ? f.e.make<arith::AndIOp>(covered, inside) : inside;
    }
    if (!covered) return add();
    auto branch = scf::IfOp::create(f.builder, f.e.loc, covered, /*withElseRegion=*/false);
    mlir::OpBuilder::InsertionGuard guard(f.builder);
    f.builder.setInsertionPointToStart(branch.thenBlock());
    f.e.pushScope();
    add();
    f.e.popScope();
  };
  f.loop(f.begin, f.end, std::max<int64_t>(kernel.info.count, 1), {}, [&](Index i, KernelFunction::State &) {
    if (trail == 0) return;
    auto [l, block] = space.divide(i, blocks);
    f.block(block, trail, columns, [&](const Index &first, int64_t n) { piece(l, first, n); });
  });
  // The base is read where it is written, before anything is added there.
  for (auto [i, argument] : llvm::enumerate(kernel.fusion.getBody().front().getArguments())) {
    Value tensor = kernel.lowered.lookup(argument);
    if (tensor == base && llvm::hasSingleElement(argument.getUses())) kernel.info.inPlace.push_back({0, static_cast<int64_t>(i)});
  }
  return f.finish();
}

//===-- Scans ---------------------------------------------------------------------------------===//

// One loop along the scanned dim, each step of which stores what the sums are then. Pieces hold different parts of the other dims: where
// the scanned dim is not the innermost, a vector's worth of columns each.
static mlir::LogicalResult scheduleScan(KernelBuilder &kernel, Operation *op) {
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  linalg::GenericOp generic = kernel.generic(op);
  int64_t dim = generic->getAttrOfType<mlir::IntegerAttr>(ir::kScanDim).getInt();
  bool reverse = mlir::cast<ir::CumsumOp>(op).getReverse();
  Value source = generic.getDpsInputs()[0];
  llvm::ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  int64_t size = shape[dim], lead = product(shape.take_front(dim)), trail = product(shape.drop_front(dim + 1));
  int64_t blocks = std::max<int64_t>(1, llvm::divideCeil(trail, kScanColumns)), columns = std::min(trail, kScanColumns);
  kernel.info.count = product(shape) == 0 ? 0 : lead * blocks;
  bool vector = trail > 1;
  auto piece = [&](const Index &l, const Index &first, int64_t n) {
    auto scan = [&](const Index &column, Value mask) {
      f.loop(size, {f.identity(generic, vector)}, [&](Index step, KernelFunction::State &sum) {
        Index k = reverse ? space.add(space.scale(step, -1), size - 1) : step;
        Index at = space.add(space.add(space.scale(l, size * trail), space.scale(k, trail)), column);
        Value element = f.e.at(source, space.delinearize(at, shape), mask);
        sum[0] = sumOf(f, sum[0], vector ? f.e.broadcast(element) : element);
        f.e.store(f.output(0), sum[0], at, mask);
      });
    };
    if (!vector) return scan(Index::of(0), nullptr);
    f.run(n, 1, first, {}, [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
      for (const KernelFunction::Unit &unit : units) scan(unit.position, unit.mask);
    });
  };
  f.loop(f.begin, f.end, std::max<int64_t>(kernel.info.count, 1), {}, [&](Index i, KernelFunction::State &) {
    if (kernel.info.count == 0) return;
    auto [l, block] = space.divide(i, blocks);
    f.block(block, trail, columns, [&](const Index &first, int64_t n) { piece(l, first, n); });
  });
  return f.finish();
}

//===-- Matmul --------------------------------------------------------------------------------===//

// A block of kMatmulRows rows times kMatmulVectors vectors of columns, whose sums stay in registers; each sum adds its products in order.
static mlir::LogicalResult scheduleMatmul(KernelBuilder &kernel, Operation *op) {
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  linalg::GenericOp generic = kernel.generic(op);
  llvm::SmallVector<int64_t> loops = generic.getStaticLoopRanges();
  int64_t k = loops.pop_back_val(), n = loops.pop_back_val(), m = loops.pop_back_val();
  int64_t batches = product(loops), rowBlocks = llvm::divideCeil(m, kMatmulRows);
  kernel.info.count = n == 0 ? 0 : batches * rowBlocks;
  auto block = [&](const Index &batch, const Index &first, int64_t rows) {
    auto batchAt = space.delinearize(batch, loops);
    f.run(n, kMatmulVectors, Index::of(0), {}, [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
      KernelFunction::State sums(rows * units.size(), f.identity(generic, true));
      auto at = [&](int64_t row, const KernelFunction::Unit &unit, const Index &depth) {
        llvm::SmallVector<Index> position(batchAt);
        position.append({space.add(first, row), unit.position, depth});
        return position;
      };
      auto step = [&](Index depth, KernelFunction::State &inside) {
        for (int64_t row = 0; row < rows; ++row)
          for (auto [u, unit] : llvm::enumerate(units)) {
            Value &sum = inside[row * units.size() + u];
            sum = f.accumulate(generic, at(row, unit, depth), sum, unit.mask);
          }
      };
      sums = f.loop(k, sums, step);
      for (int64_t row = 0; row < rows; ++row)
        for (auto [u, unit] : llvm::enumerate(units)) {
          llvm::SmallVector<Index> position(at(row, unit, Index::of(0)));
          position.pop_back();
          f.e.store(f.output(0), sums[row * units.size() + u], space.linearize(position, shapeOf(op->getResult(0))), unit.mask);
        }
    });
  };
  f.loop(f.begin, f.end, std::max<int64_t>(kernel.info.count, 1), {}, [&](Index piece, KernelFunction::State &) {
    if (kernel.info.count == 0) return;
    auto [batch, rowBlock] = space.divide(piece, rowBlocks);
    f.block(rowBlock, m, kMatmulRows, [&](const Index &first, int64_t n) { block(batch, first, n); });
  });
  return f.finish();
}

//===-- Without elements ----------------------------------------------------------------------===//

// Reductions of nothing give their identity; whatever outputs have elements are computed from that, one after another.
static mlir::LogicalResult scheduleEmpty(KernelBuilder &kernel) {
  KernelFunction f(kernel, kernel.info.symbol);
  for (Operation *op : kernel.ops)
    if (isReduction(op)) {
      linalg::GenericOp generic = kernel.generic(op);
      if (product(shapeOf(op->getResult(0))) == 0) continue;
      f.e.setKnown(generic.getResult(0), [&f, generic](llvm::ArrayRef<Index>, Value) { return f.identity(generic, false); });
    }
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    f.run(product(shapeOf(output)), 1, Index::of(0), {}, [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
      for (const KernelFunction::Unit &unit : units)
        f.e.store(f.output(i), f.e.at(kernel.lowered.lookup(output), f.e.space.delinearize(unit.position, shapeOf(output)), unit.mask),
                  unit.position, unit.mask);
    });
  }
  return f.finish();
}

mlir::LogicalResult scheduleAlone(KernelBuilder &kernel) {
  if (kernel.domain.shape() == FusionDomain::Shape::Empty) return scheduleEmpty(kernel);
  Operation *op = kernel.outputs.front().getDefiningOp();
  if (mlir::isa<ir::MatmulOp>(op)) return scheduleMatmul(kernel, op);
  return mlir::isa<ir::CumsumOp>(op) ? scheduleScan(kernel, op) : scheduleScatter(kernel, op);
}

} // namespace weft::compiler

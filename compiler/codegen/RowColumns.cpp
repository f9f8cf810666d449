// Reductions over rows (Col): alone, a few columns at a time, whose sums stay in registers; beside
// what else a kernel does with its rows, in memory. Either adds up the rows of a chunk in the order
// of KernelFunction::reduceSteps, so that fusing does not change a bit; `finish` adds up the
// chunks.
#include "compiler/codegen/RowSchedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

namespace arith = mlir::arith;
namespace linalg = mlir::linalg;
using mlir::Operation;
using mlir::Value;
using Role = FusionDomain::Role;

// Vectors whose sums over rows stay in registers.
static constexpr int64_t kColumnVectors = 4;
// Columns of a piece of a reduction over rows.
static constexpr int64_t kColumnBlock = 1024;

// emit(op, reduction, position) for all vectors of the Col reductions' accumulators.
void RowSchedule::eachColumn(
    KernelFunction &f,
    llvm::function_ref<void(Operation *, linalg::GenericOp, const Index &)> emit) {
  for (auto &[op, partial] : partials) {
    if (domain.role(op->getResult(0)) != Role::Col)
      continue;
    f.run(paddedColumns(), 1, Index::of(0), {},
          [&, op = op](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
            for (const KernelFunction::Unit &unit : units)
              emit(op, kernel.generic(op), unit.position);
          });
  }
}

// The rows of a chunk with Col reductions beside others, which are added up in the partial result.
// Of more rows than one accumulator takes, each kChain become part of totals in scratch: the order
// of reduceSteps.
void RowSchedule::rowsOfChunk(KernelFunction &f, const Index &chunk) {
  int64_t rows = domain.rows(), padded = paddedColumns();
  bool inBlocks = chunkRows > kChain;
  auto sumAt = [&](Operation *op, const Index &position) -> std::pair<Value, Index> {
    return {f.partials(partials[op].offset, chunks * padded, partials[op].element),
            f.e.space.add(f.e.space.scale(chunk, padded), position)};
  };
  auto totalAt = [&](Operation *op, size_t number, Value total) {
    return f.scratch(partials[op].totals[number], padded,
                     mlir::getElementTypeOrSelf(total.getType()));
  };
  auto load = [&](Value memory, mlir::Type type, const Index &at) {
    return f.e.broadcast(f.e.load(memory, mlir::getElementTypeOrSelf(type), at, nullptr));
  };
  auto clear = [&](Operation *op, linalg::GenericOp reduction, const Index &position) {
    auto [memory, at] = sumAt(op, position);
    f.e.store(memory, f.identity(reduction, true), at, nullptr);
  };
  auto totalsOf = [&](Operation *op, linalg::GenericOp reduction, const Index &position) {
    KernelFunction::State totals = f.noTotals(reduction, 1, true);
    for (auto [i, total] : llvm::enumerate(totals))
      total = load(totalAt(op, i, total), total.getType(), position);
    return totals;
  };
  auto storeTotals = [&](Operation *op, llvm::ArrayRef<Value> totals, const Index &position) {
    for (auto [i, total] : llvm::enumerate(totals))
      f.e.store(totalAt(op, i, total), total, position, nullptr);
  };
  eachColumn(f, [&](Operation *op, linalg::GenericOp reduction, const Index &position) {
    clear(op, reduction, position);
    if (inBlocks)
      storeTotals(op, f.noTotals(reduction, 1, true), position);
  });
  Value first = f.e.scalarIndex(f.e.space.scale(chunk, chunkRows));
  Value bound =
      f.e.make<arith::MinSIOp>(f.e.make<arith::AddIOp>(first, f.e.constantIndex(chunkRows)),
                               kernel.sizes ? f.end : f.e.constantIndex(rows));
  auto sweep = [&](Value from, Value to) {
    f.loop(from, to, rows, {}, [&](Index row, KernelFunction::State &) { oneRow(f, row, &chunk); });
  };
  if (!inBlocks)
    return sweep(first, bound);
  Value size = f.e.constantIndex(kChain);
  f.loop(chunkRows / kChain, {}, [&](Index number, KernelFunction::State &) {
    Value from = f.e.make<arith::AddIOp>(first, f.e.scalarIndex(f.e.space.scale(number, kChain))),
          to = f.e.make<arith::MinSIOp>(f.e.make<arith::AddIOp>(from, size), bound);
    sweep(from, to);
    eachColumn(f, [&](Operation *op, linalg::GenericOp reduction, const Index &position) {
      KernelFunction::State totals = totalsOf(op, reduction, position);
      auto [memory, at] = sumAt(op, position);
      f.addToTotals(totals, reduction, 1, load(memory, partials[op].element, at));
      storeTotals(op, totals, position);
      clear(op, reduction, position);
    });
  });
  eachColumn(f, [&](Operation *op, linalg::GenericOp reduction, const Index &position) {
    auto [memory, at] = sumAt(op, position);
    f.e.store(memory, f.fromTotals(totalsOf(op, reduction, position), reduction, 1)[0], at,
              nullptr);
  });
}

// Only reductions over rows (and stores beside them): a few columns at a time, whose sums stay in
// registers. A piece is a chunk of rows and a block of columns; few long rows would else be a
// single piece. Where rows are counted at run time the range is theirs, and columns are one block.
mlir::LogicalResult RowSchedule::emitColumns() {
  KernelFunction f(kernel, kernel.info.symbol);
  int64_t rows = domain.rows(), n = domain.rowSize(), padded = roundUp(n, kLanes);
  int64_t blocks = kernel.sizes || n < 2 * kColumnBlock ? 1 : llvm::divideCeil(n, kColumnBlock);
  kernel.info.count = kernel.sizes ? rows : chunks * blocks;
  const Sweep &sweep = sweeps[0];
  llvm::SmallVector<linalg::GenericOp> reductions;
  for (Operation *op : sweep.columns)
    reductions.push_back(kernel.generic(op));
  auto columns = [&](const Index &chunk, int64_t size, const Index &base) {
    Value first = f.e.scalarIndex(f.e.space.scale(chunk, chunkRows));
    Value bound =
        f.e.make<arith::MinSIOp>(f.e.make<arith::AddIOp>(first, f.e.constantIndex(chunkRows)),
                                 kernel.sizes ? f.end : f.e.constantIndex(rows));
    f.run(size, kColumnVectors, base, {},
          [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
            auto step = [&](Index row, KernelFunction::State &inside) {
              for (auto [u, unit] : llvm::enumerate(units)) {
                auto atoms = atomPositions(f, row, unit.position);
                trackReads(f, &sweep, 0, atoms);
                for (auto [i, op] : llvm::enumerate(sweep.columns)) {
                  Value &sum = inside[i * units.size() + u];
                  sum = f.accumulate(reductions[i], f.position(op->getOperand(0), atoms), sum,
                                     unit.mask);
                }
                storeFull(f, sweep, 0, unit, row);
              }
            };
            auto sums = f.reduceSteps(first, bound, rows, chunkRows, reductions, units.size(),
                                      /*vector=*/true, step);
            for (auto [i, op] : llvm::enumerate(sweep.columns)) {
              Value buffer = f.partials(partials[op].offset, chunks * padded, partials[op].element);
              for (auto [u, unit] : llvm::enumerate(units))
                f.e.store(buffer, sums[i * units.size() + u],
                          f.e.space.add(f.e.space.scale(chunk, padded), unit.position), unit.mask);
            }
          });
  };
  auto [firstPiece, lastPiece] = pieces(f);
  f.loop(firstPiece, lastPiece, chunks * blocks, {}, [&](Index piece, KernelFunction::State &) {
    auto [chunk, block] = f.e.space.divide(piece, blocks);
    f.block(block, n, blocks == 1 ? n : kColumnBlock,
            [&](const Index &first, int64_t size) { columns(chunk, size, first); });
  });
  return f.finish();
}

} // namespace weft::compiler

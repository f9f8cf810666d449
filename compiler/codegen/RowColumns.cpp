// Reductions over rows (Col): alone, some rows at a time; beside what else a kernel does with its
// rows, row by row. Rows are read in the order in which they lie, so that memory is a few streams;
// their sums are in memory, in a near cache. Either adds up the rows of a chunk in the order of
// KernelFunction::reduceSteps, so that fusing does not change a bit; `finish` adds up the chunks.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

#include <bit>

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;

static constexpr int64_t kColumnUnit = kColumnVectors * kLanes;

// Rows of n columns whose elements fit into a vector: a part of a chain.
static int64_t narrowSteps(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kLanes / n)));
}

// emit(op, vector) for all vectors of the Col reductions' accumulators.
void RowSchedule::eachColumn(KernelFunction &f,
                             function_ref<void(Operation *, const KernelFunction::Unit &)> emit) {
  for (auto &[op, partial] : partials) {
    if (domain.role(op->getResult(0)) != Role::Col)
      continue;
    f.each(paddedColumns(), 1, Index::of(0),
           [&, op = op](const KernelFunction::Unit &unit) { emit(op, unit); });
  }
}

bool RowSchedule::hasColumnTotals() const {
  return pieceRows > kChain;
}

namespace {

// Where the sums of a chunk's columns are: in its partial results. Totals are in scratch, those of
// `block` columns from `base` on; their padding takes the lanes that do not exist.
struct ColumnCells {
  RowSchedule &schedule;
  KernelFunction &f;
  const Index &chunk;
  int64_t block;
  Index base;

  using Unit = KernelFunction::Unit;

  Value load(Operation *op, size_t number, Type element, const Unit &unit) {
    auto [memory, at] = placeOf(op, number, element, unit);
    return f.e.broadcast(f.e.load(memory, element, at, unit.mask));
  }
  void store(Operation *op, size_t number, Value value, const Unit &unit) {
    auto [memory, at] = placeOf(op, number, getElementTypeOrSelf(value.getType()), unit);
    f.e.store(memory, value, at, unit.mask);
  }

private:
  std::pair<Value, Index> placeOf(Operation *op, size_t number, Type element, const Unit &unit) {
    if (number == 0)
      return Sweeps::placeIn(f, schedule.partials[op], chunk, unit.position);
    return {f.scratch(schedule.columnTotals[op][number - 1], block, element),
            f.e.space.add(unit.position, f.e.space.scale(base, -1))};
  }
};

} // namespace

// The rows [first, last) of a chunk, kChain at a time: emit(the first of these, the end).
void RowSchedule::eachChain(KernelFunction &f, Value first, Value last,
                            function_ref<void(Value, Value)> emit) {
  Value size = f.e.constantIndex(kChain), above = f.e.add(f.e.sub(last, first), kChain - 1);
  f.loop(0, f.e.div(above, size), pieceRows / kChain, [&](Index number) {
    Value from = f.e.add(first, f.e.space.scale(number, kChain));
    emit(from, f.e.min(f.e.add(from, size), last));
  });
}

// The chunks of a piece.
void RowSchedule::eachChunk(KernelFunction &f, const Index &piece,
                            function_ref<void(const Index &)> emit) {
  int64_t rows = domain.rows();
  if (octaveOf(rows) == 0)
    return emit(piece);
  Value first = f.e.scalarIndex(f.e.space.scale(piece, pieceRows)),
        last = f.e.min(f.e.add(first, pieceRows), kernel.sizes ? f.end : f.e.constantIndex(rows));
  f.loop(f.chunksOf(first, rows), f.chunksOf(last, rows), chunks,
         [&](Index chunk) { emit(chunk); });
}

// The rows [first, last) of a chunk.
std::pair<Value, Value> RowSchedule::boundsOf(KernelFunction &f, const Index &chunk) {
  int64_t rows = domain.rows();
  return f.chunkAt(chunk, kernel.sizes ? f.end : f.e.constantIndex(rows), rows);
}

// The rows of a chunk with Col reductions beside others.
void RowSchedule::rowsOfChunk(KernelFunction &f, const Index &chunk) {
  int64_t rows = domain.rows();
  SumsInMemory sums{f, ColumnCells{*this, f, chunk, paddedColumns(), Index::of(0)},
                    hasColumnTotals()};
  eachColumn(f, [&](Operation *op, const KernelFunction::Unit &unit) { sums.start(op, unit); });
  auto [first, bound] = boundsOf(f, chunk);
  auto sweep = [&](Value from, Value to) {
    f.loop(from, to, rows, [&](Index row) { oneRow(f, row, &chunk); });
  };
  if (!hasColumnTotals())
    return sweep(first, bound);
  eachChain(f, first, bound, [&](Value from, Value to) {
    sweep(from, to);
    eachColumn(f,
               [&](Operation *op, const KernelFunction::Unit &unit) { sums.endChain(op, unit); });
  });
  eachColumn(f, [&](Operation *op, const KernelFunction::Unit &unit) { sums.finish(op, unit); });
}

// `count` rows from `first` on, of a block of `size` columns from `base` on, are added to the
// chunk's partial results.
void RowSchedule::addRows(KernelFunction &f, const Index &chunk, const Index &first, int64_t count,
                          int64_t size, const Index &base) {
  const Sweep &sweep = sweeps[0];
  for (int64_t r = 0; r < count; ++r)
    emitRowDims(f, f.e.space.add(first, r));
  auto add = [&](ArrayRef<KernelFunction::Unit> units) {
    auto sumAt = [&](Operation *op, const KernelFunction::Unit &unit) {
      return placeIn(f, partials[op], chunk, unit.position);
    };
    KernelFunction::State sums;
    for (Operation *op : sweep.columns)
      for (const KernelFunction::Unit &unit : units) {
        auto [memory, at] = sumAt(op, unit);
        sums.push_back(f.e.broadcast(f.e.load(memory, partials[op].element, at, unit.mask)));
      }
    for (int64_t r = 0; r < count; ++r) {
      Index row = f.e.space.add(first, r);
      for (auto [u, unit] : llvm::enumerate(units)) {
        auto atoms = atomPositions(f, row, unit.position);
        trackReads(f, 0, atoms);
        f.accumulateAll(sweep.columns, atoms, sums, u, units.size(), unit.mask);
        storeFull(f, 0, unit, row);
      }
    }
    for (auto [i, op] : llvm::enumerate(sweep.columns))
      for (auto [u, unit] : llvm::enumerate(units)) {
        auto [memory, at] = sumAt(op, unit);
        f.e.store(memory, sums[i * units.size() + u], at, unit.mask);
      }
  };
  f.run(size, kColumnVectors, base, add);
}

// The rows of a chunk, a block of `size` columns from `base` on: in the order of reduceSteps.
void RowSchedule::columnsOfChunk(KernelFunction &f, const Index &chunk, int64_t size,
                                 const Index &base) {
  const Sweep &sweep = sweeps[0];
  int64_t rows = domain.rows(), ops = kernel.ops.size();
  // A power of two divides a block of kChain rows; fewer rows than that are all added together.
  auto together = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(
      std::clamp<int64_t>(kAddedOps / (kColumnVectors * ops), 1, kAddedRows))));
  together = kernel.choices.number("added_rows", together, {1, 2, 4, 8});
  if (!kernel.sizes && rows < together)
    together = rows;
  auto eachVector = [&](function_ref<void(Operation *, const KernelFunction::Unit &)> emit) {
    f.each(size, 1, base, [&](const KernelFunction::Unit &unit) {
      for (Operation *op : sweep.columns)
        emit(op, unit);
    });
  };
  SumsInMemory sums{f, ColumnCells{*this, f, chunk, columnBlock(), base}, hasColumnTotals()};
  eachVector([&](Operation *op, const KernelFunction::Unit &unit) { sums.start(op, unit); });
  auto [begin, end] = boundsOf(f, chunk);
  // Rows [from, to): some at a time, then those that are left one by one.
  auto someRows = [&](Value from, Value to) {
    Value step = f.e.constantIndex(together), groups = f.e.div(f.e.sub(to, from), step);
    if (rows >= together)
      f.loop(0, groups, rows / together, [&](Index group) {
        Value first = f.e.add(from, f.e.space.scale(group, together));
        addRows(f, chunk, f.e.space.scalar(first, rows - together + 1), together, size, base);
      });
    if (together == 1 || (!kernel.sizes && rows % together == 0 && pieceRows % together == 0))
      return;
    Value rest = f.e.add(from, f.e.mul(groups, step));
    f.loop(rest, to, rows, [&](Index row) { addRows(f, chunk, row, 1, size, base); });
  };
  if (!hasColumnTotals())
    return someRows(begin, end);
  eachChain(f, begin, end, [&](Value from, Value to) {
    someRows(from, to);
    eachVector([&](Operation *op, const KernelFunction::Unit &unit) { sums.endChain(op, unit); });
  });
  eachVector([&](Operation *op, const KernelFunction::Unit &unit) { sums.finish(op, unit); });
}

// The columns of an argument whose rows, or elements of rows, lie one after the other in memory; 0
// for others.
int64_t RowSchedule::narrowColumns(Value argument) const {
  const FusionDomain::Layout *layout = domain.layout(argument);
  if (!layout)
    return 0;
  FusionDomain::Layout rows(domain.outer()), all(rows);
  all.append(domain.inner().begin(), domain.inner().end());
  return *layout == all ? domain.rowSize() : *layout == rows ? 1 : 0;
}

// Whether rows fill so little of a vector that they are summed up with a chain in each lane, as
// narrowChains does, if all that is read is known by rows.
bool RowSchedule::hasNarrowRows() const {
  int64_t n = domain.rowSize(), evaluated = kLanes * static_cast<int64_t>(kernel.ops.size()),
          most = llvm::any_of(kernel.ops, isCheaperToKeep) ? kNarrowDearRow : kNarrowRow;
  if (n > most || random || !sweeps[0].stores.empty() || evaluated > kGroupOps)
    return false;
  int64_t some = narrowSteps(n);
  return llvm::all_of(kernel.arguments(), [&](Value argument) {
    if (domain.role(argument) == Role::Inline)
      return true;
    int64_t columns = narrowColumns(argument), bytes = memoryBytes(elementOf(argument));
    return columns && !elementOf(argument).isInteger(1) &&
           (some * columns == kLanes || bytes >= kLeastMaskedBytes);
  });
}

// The sums of kLanes chains from row `from` on, those of a chain behind those of the one before. A
// lane is a chain: vectors of some rows of each are read as they lie and turned, and so are the
// sums.
KernelFunction::State RowSchedule::narrowChains(KernelFunction &f, Value from) {
  IndexSpace &space = f.e.space;
  int64_t n = domain.rowSize(), some = narrowSteps(n);
  Index begin = space.scalar(from, domain.rows() - kLanes * kChain + 1);
  auto rowsAt = [&](const Index &step, int64_t row) {
    return space.add(space.add(begin, space.add(step, row)),
                     space.scale(space.lane(kLanes), kChain));
  };
  const Sweep &sweep = sweeps[0];
  KernelFunction::State sums;
  for (Operation *op : sweep.columns)
    sums.append(n, f.identity(kernel.generic(op), true));
  sums = f.loop(kChain / some, sums, [&](Index number, KernelFunction::State &inside) {
    Index step = space.scale(number, some);
    SmallVector<Value> known;
    trackOtherReads(f);
    for (BlockArgument argument : kernel.arguments()) {
      int64_t columns = domain.role(argument) == Role::Inline ? 0 : narrowColumns(argument);
      if (!columns)
        continue;
      SmallVector<Value> tile;
      for (int64_t chain = 0; chain < kLanes; ++chain) {
        Index row = space.add(space.add(begin, step), chain * kChain);
        Index place = space.add(f.placeOf(argument, atomPositions(f, row, Index::of(0))),
                                space.lane(some * columns));
        tile.push_back(f.e.broadcast(f.e.load(f.function.getArgument(argument.getArgNumber()),
                                              elementOf(argument), place,
                                              f.e.tailMask(some * columns))));
      }
      transposeLanes(f.e, tile);
      SmallVector<SmallVector<Index>> places;
      for (int64_t row = 0; row < some; ++row)
        for (int64_t c = 0; c < columns; ++c)
          places.push_back(f.position(argument, atomPositions(f, rowsAt(step, row), Index::of(c))));
      known.push_back(kernel.lowered.lookup(argument));
      f.e.setKnown(known.back(), places, tile);
    }
    for (int64_t row = 0; row < some; ++row)
      for (int64_t c = 0; c < n; ++c)
        f.accumulateAll(sweep.columns, atomPositions(f, rowsAt(step, row), Index::of(c)), inside, c,
                        n, nullptr);
    for (Value value : known)
      f.e.dropKnown(value);
  });
  size_t reductions = sweep.columns.size();
  KernelFunction::State chains(kLanes * reductions);
  for (size_t i = 0; i < reductions; ++i) {
    SmallVector<Value> columns(ArrayRef(sums).slice(i * n, n));
    columns.resize(kLanes, columns.front()); // what is not there is padding
    transposeLanes(f.e, columns);
    for (int64_t chain = 0; chain < kLanes; ++chain)
      chains[chain * reductions + i] = columns[chain];
  }
  return chains;
}

// The same where a row has a few vectors, whose sums are in registers all the while.
void RowSchedule::fewColumnsOfChunk(KernelFunction &f, const Index &chunk) {
  int64_t rows = domain.rows();
  const Sweep &sweep = sweeps[0];
  auto reductions = generics(sweep.columns);
  auto [first, bound] = boundsOf(f, chunk);
  f.run(domain.rowSize(), kFewVectors, Index::of(0),
        [&](ArrayRef<KernelFunction::Unit> units) {
          auto step = [&](Index row, KernelFunction::State &inside) {
            for (auto [u, unit] : llvm::enumerate(units)) {
              auto atoms = atomPositions(f, row, unit.position);
              trackReads(f, 0, atoms);
              f.accumulateAll(sweep.columns, atoms, inside, u, units.size(), unit.mask);
              storeFull(f, 0, unit, row);
            }
          };
          auto most = [&](int64_t bound, size_t ofAStep) {
            return bound / static_cast<int64_t>(units.size() * ofAStep);
          };
          StepChains chains;
          chains.together = std::max<int64_t>(1, std::min(most(kSideBySide, reductions.size()),
                                                          most(kAddedOps, kernel.ops.size())));
          if (hasNarrowRows()) {
            chains.many = kLanes;
            chains.sums = [&](Value from) { return narrowChains(f, from); };
          }
          auto sums = f.reduceSteps(first, bound, rows, pieceRows, reductions, units.size(),
                                    /*vector=*/true, step, chains);
          for (auto [i, op] : llvm::enumerate(sweep.columns))
            for (auto [u, unit] : llvm::enumerate(units)) {
              auto [memory, at] = placeIn(f, partials[op], chunk, unit.position);
              f.e.store(memory, sums[i * units.size() + u], at, unit.mask);
            }
        });
}

bool RowSchedule::hasFewColumns() const {
  return paddedColumns() <= kFewVectors * kLanes;
}

// Columns of a piece of a kernel with reductions over rows alone. Where rows are counted at run
// time the range is theirs, and columns are one block.
int64_t RowSchedule::columnBlock() const {
  if (kernel.sizes || hasFewColumns())
    return paddedColumns();
  SmallVector<int64_t> legal = {paddedColumns()};
  for (int64_t some : {1024, 4096, 16384})
    if (some < paddedColumns())
      legal.push_back(some);
  int64_t blocks = std::max(llvm::divideCeil(paddedColumns(), kColumnBlock),
                            llvm::divideCeil(kLeastPieces, rowPieces));
  int64_t preferred = std::min(
      paddedColumns(),
      std::max(kLeastColumnBlock, roundUp(llvm::divideCeil(paddedColumns(), blocks), kColumnUnit)));
  return kernel.choices.number("column_block", preferred, legal);
}

// Only reductions over rows (and stores beside them). A piece is some rows and a block of columns;
// few long rows would else be a single piece.
LogicalResult RowSchedule::emitColumns() {
  KernelFunction f(kernel, kernel.info.symbol);
  int64_t n = domain.rowSize(), size = columnBlock(), blocks = llvm::divideCeil(n, size);
  kernel.info.count = kernel.sizes ? domain.rows() : rowPieces * blocks;
  auto [firstPiece, lastPiece] = pieces(f);
  f.loop(firstPiece, lastPiece, rowPieces * blocks, [&](Index piece) {
    auto [rows, block] = f.e.space.divide(piece, blocks);
    eachChunk(f, rows, [&, block = block](const Index &chunk) {
      if (hasFewColumns())
        return fewColumnsOfChunk(f, chunk);
      f.block(block, n, size, [&](const Index &first, int64_t some) {
        columnsOfChunk(f, chunk, some, first);
      });
    });
  });
  return f.finish();
}

} // namespace weft::compiler

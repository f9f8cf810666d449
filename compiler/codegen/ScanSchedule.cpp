// Scans: one walk along the scanned dim, each step of which stores what the result is then. Pieces
// hold different parts of the other dims. Where the scanned dim is not the innermost, a piece is a
// block of columns: some rows of it are walked a vector after the other, so that each is a stream
// through memory, and what is carried waits in scratch for the next rows. Else it is a vector's
// worth of rows, whose tiles are transposed so that each lane walks a row: one row by itself would
// wait for each step. No element's value depends on the piece or the lane that it is in.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/Scan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

using namespace mlir;
using State = KernelFunction::State;
using Unit = KernelFunction::Unit;

// Columns of a piece of a scan: as many as leave enough pieces.
static int64_t scanColumns(int64_t lead, int64_t trail) {
  int64_t columns = kScanColumns;
  while (columns > kLeastScanColumns && lead * llvm::divideCeil(trail, columns) < kLeastPieces)
    columns /= 2;
  return columns;
}

namespace {

class ScanSchedule {
public:
  ScanSchedule(KernelBuilder &kernel, Operation *op)
      : kernel_(kernel), f_(kernel, kernel.info.symbol), scan_(f_, op) {}
  LogicalResult emit();

private:
  IndexSpace &space() {
    return f_.e.space;
  }
  // An element of each source at a linear position, or of neighbours; as a vector where asked.
  State elementsAt(const Index &linear, Value mask, bool vector) {
    State elements;
    for (Value source : scan_.sources) {
      Value element = f_.e.at(source, space().delinearize(linear, scan_.shape), mask);
      elements.push_back(vector ? f_.e.broadcast(element) : element);
    }
    return elements;
  }
  void store(Value value, const Index &linear, Value mask) {
    f_.e.store(f_.output(0), value, linear, mask);
  }

  void row(const Index &number);
  void rowByRow(Value from, Value to, const Index &first, int64_t most);
  void rowsTogether(const Index &first);
  void tile(const Index &first, const Index &column, int64_t width, State &carried);
  void prefetchTile(const Index &first, const Index &column);

  void claimColumns();
  void columns(const Index &lead, const Index &first, int64_t n);
  State waiting(const Unit &unit);
  void keep(const State &before, const State &after, const Unit &unit);

  KernelBuilder &kernel_;
  KernelFunction f_;
  Scan scan_;
  int64_t columns_ = 1; // of a piece
  // Where what is carried waits, in scratch, for each column of a piece.
  struct Waiting {
    int64_t offset;
    Type element;
  };
  SmallVector<Waiting> waiting_;
};

//===-- Rows ----------------------------------------------------------------------------------===//

void ScanSchedule::row(const Index &number) {
  auto at = [&](const Index &position) {
    return space().add(space().scale(number, scan_.size), position);
  };
  if (scan_.inAnyGroups() && scan_.size >= kLanes) {
    f_.blocks(scan_.size, kLanes, scan_.start(true), [&](const Index &from, int64_t lanes,
                                                         State &carried) {
      Value mask = f_.e.tailMask(lanes);
      Index neighbours = at(space().add(from, space().lane(lanes)));
      State elements = elementsAt(neighbours, mask, true);
      store(scan_.stepTogether(carried, elements, from), neighbours, mask);
    });
    return;
  }
  scan_.walk([&](const Index &position) { return elementsAt(at(position), nullptr, false); },
             [&](const Index &position, Value value) { store(value, at(position), nullptr); });
}

void ScanSchedule::rowByRow(Value from, Value to, const Index &first, int64_t most) {
  f_.loop(from, to, most, [&](Index number) { row(space().add(first, number)); });
}

void ScanSchedule::prefetchTile(const Index &first, const Index &column) {
  for (auto [i, argument] : llvm::enumerate(kernel_.arguments()))
    if (llvm::is_contained(scan_.sources, kernel_.lowered.lookup(argument)))
      for (int64_t row = 0; row < kLanes; ++row)
        f_.e.prefetchLine(
            f_.function.getArgument(i),
            space().add(space().add(space().scale(space().add(first, row), scan_.size), column),
                        (scan_.reverse ? -1 : 1) * kScanAhead * kLanes),
            /*write=*/false, /*nearest=*/false);
}

// `width` columns of kLanes rows.
void ScanSchedule::tile(const Index &first, const Index &column, int64_t width, State &carried) {
  Value mask = f_.e.tailMask(width);
  auto at = [&](int64_t row) {
    return space().add(space().scale(space().add(first, row), scan_.size),
                       space().add(column, space().lane(width)));
  };
  SmallVector<State> tiles(scan_.sources.size());
  for (int64_t row = 0; row < kLanes; ++row)
    for (auto [tile, element] : llvm::zip(tiles, elementsAt(at(row), mask, true)))
      tile.push_back(element);
  if (!mask)
    prefetchTile(first, column);
  for (State &tile : tiles)
    transposeLanes(f_.e, tile);
  State results = tiles[0]; // what is behind `width` is stored nowhere
  for (int64_t c = 0; c < width; ++c) {
    int64_t here = scan_.reverse ? width - 1 - c : c;
    State elements;
    for (State &tile : tiles)
      elements.push_back(tile[here]);
    results[here] = scan_.step(carried, elements, space().add(column, here));
  }
  scan_.endBlock(carried);
  for (int64_t c = width; c < kLanes; ++c)
    results[c] = results[0];
  transposeLanes(f_.e, results);
  for (int64_t row = 0; row < kLanes; ++row)
    store(results[row], at(row), mask);
}

// kLanes rows from `first` on, a block of their columns at a time.
void ScanSchedule::rowsTogether(const Index &first) {
  static_assert(kScanBlock == kLanes);
  int64_t tiles = scan_.size / kScanBlock, rest = scan_.size % kScanBlock;
  State carried = scan_.start(true);
  auto last = [&] {
    tile(first, Index::of(tiles * kScanBlock), rest, carried);
  };
  if (rest && scan_.reverse)
    last();
  carried = f_.loop(tiles, carried, [&](Index step, State &inside) {
    Index number = scan_.reverse ? space().add(space().scale(step, -1), tiles - 1) : step;
    tile(first, space().scale(number, kScanBlock), kScanBlock, inside);
  });
  if (rest && !scan_.reverse)
    last();
}

//===-- Columns -------------------------------------------------------------------------------===//

void ScanSchedule::claimColumns() {
  columns_ = std::min(scan_.trail,
                      kernel_.choices.number("column_block", scanColumns(scan_.lead, scan_.trail),
                                             {128, 512, 2048, 8192}));
  for (Value value : scan_.start(true)) {
    Type element = getElementTypeOrSelf(value.getType());
    waiting_.push_back(
        {kernel_.claimScratch(roundUp(columns_, kLanes) * memoryBytes(element)), element});
  }
}

State ScanSchedule::waiting(const Unit &unit) {
  State carried;
  for (auto [offset, element] : waiting_)
    carried.push_back(
        f_.e.broadcast(f_.e.load(f_.scratch(offset, roundUp(columns_, kLanes), element), element,
                                 unit.position, unit.mask)));
  return carried;
}

void ScanSchedule::keep(const State &before, const State &after, const Unit &unit) {
  for (auto [i, place] : llvm::enumerate(waiting_))
    if (before.empty() || before[i] != after[i])
      f_.e.store(f_.scratch(place.offset, roundUp(columns_, kLanes), place.element), after[i],
                 unit.position, unit.mask);
}

// `n` columns from `first` on.
void ScanSchedule::columns(const Index &lead, const Index &first, int64_t n) {
  auto each = [&](function_ref<void(const Unit &)> emit) {
    f_.each(n, 1, Index::of(0), [&](const Unit &unit) { emit(unit); });
  };
  // `count` steps of all columns, which lie in one block.
  auto steps = [&](const Index &from, int64_t count) {
    each([&](const Unit &unit) {
      SmallVector<Index> at, positions;
      SmallVector<State> elements;
      for (int64_t i = 0; i < count; ++i) {
        positions.push_back(scan_.along(space().add(from, i)));
        at.push_back(space().add(space().add(space().scale(lead, scan_.size * scan_.trail),
                                             space().scale(positions[i], scan_.trail)),
                                 space().add(first, unit.position)));
        elements.push_back(elementsAt(at[i], unit.mask, true));
      }
      State before = waiting(unit), carried = before;
      for (int64_t i = 0; i < count; ++i)
        store(scan_.step(carried, elements[i], positions[i]), at[i], unit.mask);
      keep(before, carried, unit);
    });
  };
  // With fewer rows side by side where an element is much code, of which there are up to three
  // times as many copies.
  int64_t rows =
      std::clamp<int64_t>(kAddedOps / static_cast<int64_t>(kernel_.ops.size()), 1, kScanRows);
  auto block = [&](const Index &from, int64_t count) {
    f_.loop(count / rows,
            [&](Index number) { steps(space().add(from, space().scale(number, rows)), rows); });
    if (count % rows)
      steps(space().add(from, count / rows * rows), count % rows);
    if (scan_.inBlocks())
      each([&](const Unit &unit) {
        State before = waiting(unit), carried = before;
        scan_.endBlock(carried);
        keep(before, carried, unit);
      });
  };
  State start = scan_.start(true);
  each([&](const Unit &unit) { keep({}, start, unit); });
  if (!scan_.inBlocks())
    return block(Index::of(0), scan_.size);
  // Blocks end at multiples of kScanBlock from the first element on.
  int64_t whole = scan_.size / kScanBlock, rest = scan_.size % kScanBlock;
  if (rest && scan_.reverse)
    block(Index::of(0), rest);
  f_.loop(whole, [&](Index number) {
    block(space().add(space().scale(number, kScanBlock), scan_.reverse ? rest : 0), kScanBlock);
  });
  if (rest && !scan_.reverse)
    block(Index::of(whole * kScanBlock), rest);
}

LogicalResult ScanSchedule::emit() {
  int64_t lead = scan_.lead, trail = scan_.trail;
  bool isEmpty = scan_.size == 0 || lead == 0 || trail == 0, hasColumns = trail > 1,
       together = trail == 1 && lead >= kLanes;
  if (hasColumns)
    claimColumns();
  int64_t blocks = std::max<int64_t>(1, llvm::divideCeil(trail, columns_));
  kernel_.info.count = isEmpty ? 0 : lead * blocks;
  // Where the number of rows is known at run time only, the range is one of rows.
  bool isSized = kernel_.sizes && together;
  if (isSized)
    kernel_.rangeUnit = kLanes;
  else if (together)
    kernel_.info.count = isEmpty ? 0 : llvm::divideCeil(lead, kLanes);
  if (isSized && !isEmpty) {
    // Ranges begin at multiples of kLanes.
    Value lanes = f_.e.constantIndex(kLanes), whole = f_.e.div(f_.end, lanes);
    f_.loop(f_.e.div(f_.begin, lanes), whole, lead / kLanes,
            [&](Index i) { rowsTogether(space().scale(i, kLanes)); });
    rowByRow(f_.e.mul(whole, lanes), f_.end, Index::of(0), lead);
    return f_.finish();
  }
  f_.loop(f_.begin, f_.end, std::max<int64_t>(kernel_.info.count, 1), [&](Index i) {
    if (isEmpty)
      return;
    if (together)
      return f_.block(i, lead, kLanes, [&](const Index &first, int64_t n) {
        if (n == kLanes)
          return rowsTogether(first);
        rowByRow(f_.e.constantIndex(0), f_.e.constantIndex(n), first, n);
      });
    if (!hasColumns)
      return row(i);
    auto [l, block] = space().divide(i, blocks);
    f_.block(block, trail, columns_,
             [&, l = l](const Index &first, int64_t n) { columns(l, first, n); });
  });
  return f_.finish();
}

} // namespace

LogicalResult scheduleScan(KernelBuilder &kernel) {
  return ScanSchedule(kernel, kernel.outputs.front().getDefiningOp()).emit();
}

} // namespace weft::compiler

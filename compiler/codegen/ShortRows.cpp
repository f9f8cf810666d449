// Bodies of kernels over short rows, kLanes of which are done together.
//
// A row by itself folds its vector in steps that wait for one another, and computes what depends on
// its sums with one lane. Together, the vectors of kLanes rows are transposed, the tree of a sum is
// one of vectors, and all lanes are busy with what follows. Rows that are no longer than a vector,
// which they would fill in part, are transposed whole: each of their columns is a vector. The
// operations on an element, and their order, are those of a row by itself, and so are the bits.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;
using Shape = FusionDomain::Shape;

bool RowSchedule::canGroup() const {
  if (domain.shape() != Shape::Rows || kernel.sizes || random || domain.outer().empty())
    return false;
  if (hasColumns || hasParts || !nearStores.empty())
    return false;
  return domain.runSize() == domain.rowSize() && domain.rows() >= kLanes;
}

bool RowSchedule::hasManyGroups() const {
  return domain.rows() >= kLeastGroups * kLanes;
}

// Rows after which groups begin anew: where the last outer dim ends, since rows of a group that
// lies in two lines of it would each divide to find their operands.
int64_t RowSchedule::groupedLine() const {
  int64_t line = domain.atoms()[domain.outer().back()];
  return line % kLanes == 0 || line < kLeastLine ? domain.rows() : line;
}

bool RowSchedule::canGroupRows() const {
  int64_t last = domain.outer().empty() ? 0 : domain.atoms()[domain.outer().back()];
  return canGroup() && (last % kLanes == 0 || groupedLine() == last) && domain.rowSize() > kLanes &&
         groupBytes() <= kMostGroupBytes;
}

bool RowSchedule::paysToGroupRows() const {
  size_t reductions = 0;
  bool hasExtreme = false;
  for (const Sweep &sweep : sweeps)
    for (Operation *op : sweep.reductions) {
      ++reductions;
      hasExtreme = hasExtreme || isa<ir::ReduceMaxOp, ir::ReduceMinOp>(op);
    }
  return hasManyGroups() && (reductions >= kLeastReductions || hasExtreme) &&
         groupBytes() <= kPreferredGroupBytes;
}

// Of the inputs and outputs of kLanes rows.
int64_t RowSchedule::groupBytes() const {
  int64_t bytes = 0;
  auto add = [&](Value value) {
    if (domain.role(value) == Role::Full)
      bytes += kLanes * domain.rowSize() * memoryBytes(elementOf(value));
  };
  for (Value argument : kernel.arguments())
    add(argument);
  for (Value output : kernel.outputs)
    add(output);
  return bytes;
}

bool RowSchedule::canTransposeRows() const {
  int64_t n = domain.rowSize();
  if (!canGroup() || n < 2 || n > kLanes)
    return false;
  if (n * static_cast<int64_t>(kernel.ops.size()) > kGroupOps)
    return false;
  // Bools are bytes in memory, and masks in registers.
  auto isBool = [&](Value value) {
    return domain.role(value) == Role::Full && elementOf(value).isInteger(1);
  };
  return llvm::none_of(kernel.arguments(), isBool) && llvm::none_of(kernel.outputs, isBool);
}

// The tree of foldLanes for kLanes rows: `lanes` are what it folds of each.
Value RowSchedule::foldTogether(KernelFunction &f, linalg::GenericOp reduction,
                                SmallVector<Value> lanes) {
  for (int64_t half = kLanes / 2; half >= 1; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      lanes[i] = f.combine(reduction, lanes[i], lanes[i + half]);
  return lanes[0];
}

// What is repeated over some of the rows' dims, as y [k, n] is in x [m, 1, n] - y, is no tile of
// the domain's. Where lanes would read every n-th element of it, runs of n are read and transposed.
void RowSchedule::transposeReads(KernelFunction &f, BlockArgument argument) {
  struct Tile {
    Index first;
    SmallVector<Value> columns;
  };
  Value lowered = kernel.lowered.lookup(argument);
  int64_t number = argument.getArgNumber();
  auto read = [&f, lowered, number, block = f.e.b.getInsertionBlock(),
               tiles = SmallVector<Tile>()](ArrayRef<Index> position, Value mask) mutable {
    auto type = ir::typeOf(lowered);
    Index place = f.e.space.linearize(position, type.getShape());
    auto [first, stride] = f.e.space.splitLanes(place);
    // Runs are whole: none begins before the memory or ends behind it.
    auto isWhole = [&, n = stride.value_or(0)] {
      return type.getNumElements() % n == 0 &&
             llvm::all_of(first.terms, [n](auto term) { return term.second % n == 0; });
    };
    if (mask || !stride || *stride <= kMostStride || *stride > kLanes || first.constant < 0 ||
        type.getElementType().isInteger(1) || f.e.b.getInsertionBlock() != block || !isWhole())
      return Value();
    f.e.onRead(number, place);
    int64_t column = first.constant % *stride;
    first.constant -= column;
    auto tile = llvm::find_if(tiles, [&](const Tile &each) { return each.first == first; });
    if (tile == tiles.end()) {
      tile = &tiles.emplace_back(Tile{first, {}});
      for (int64_t row = 0; row < kLanes; ++row) {
        Index run = f.e.space.add(f.e.space.add(first, row * *stride), f.e.space.lane(*stride));
        tile->columns.push_back(
            f.e.broadcast(f.e.load(f.function.getArgument(static_cast<unsigned>(number)),
                                   type.getElementType(), run, f.e.tailMask(*stride))));
      }
      transposeLanes(f.e, tile->columns);
    }
    return tile->columns[column];
  };
  f.e.setKnown(lowered, read);
}

// kLanes rows from `first` on, each no longer than a vector.
void RowSchedule::rowGroup(KernelFunction &f, const Index &first) {
  IndexSpace &space = f.e.space;
  int64_t n = domain.rowSize();
  Value mask = f.e.tailMask(n);
  Index rows = space.add(first, space.lane(kLanes));
  SmallVector<SmallVector<Index>> columns; // atoms of each
  for (int64_t c = 0; c < n; ++c)
    columns.push_back(atomPositions(f, rows, Index::of(c)));
  auto linear = [&](Value value, int64_t row) {
    return f.placeOf(value, atomPositions(f, space.add(first, row), space.lane(n)));
  };
  SmallVector<Value> known; // to the emitter, until the end of the group
  // Whatever is not read as a tile is read at positions that are not compared with those of the
  // stores.
  trackOtherReads(f);
  for (auto [number, argument] : llvm::enumerate(kernel.arguments())) {
    if (domain.role(argument) != Role::Full || !domain.layout(argument)) {
      known.push_back(kernel.lowered.lookup(argument));
      transposeReads(f, argument);
      continue;
    }
    for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
      bool isSame =
          domain.role(output) == Role::Full && *domain.layout(output) == *domain.layout(argument);
      inStep(i, number) &= isSame;
    }
    SmallVector<Value> tile;
    Value memory = f.function.getArgument(number);
    // Columns whose rows lie side by side in memory are vectors as they are.
    if (n <= kMostStride || domain.layout(argument)->back() == domain.outer().back()) {
      for (int64_t c = 0; c < n; ++c)
        tile.push_back(f.e.broadcast(f.e.load(memory, elementOf(argument),
                                              f.placeOf(argument, columns[c]), nullptr)));
    } else {
      for (int64_t row = 0; row < kLanes; ++row)
        tile.push_back(
            f.e.broadcast(f.e.load(memory, elementOf(argument), linear(argument, row), mask)));
      transposeLanes(f.e, tile);
    }
    SmallVector<SmallVector<Index>> places;
    for (int64_t c = 0; c < n; ++c)
      places.push_back(f.position(argument, columns[c]));
    known.push_back(kernel.lowered.lookup(argument));
    f.e.setKnown(known.back(), places, tile);
  }
  for (const Sweep &sweep : sweeps) {
    storeRows(f, sweep, rows);
    SmallVector<Value> sums;
    for (Operation *op : sweep.reductions) {
      linalg::GenericOp reduction = kernel.generic(op);
      Value identity = f.identity(reduction, true);
      // Lanes of a row's first accumulator, and of the second one, which has none of its elements.
      SmallVector<Value> lanes(kLanes, identity);
      for (int64_t c = 0; c < n; ++c)
        lanes[c] =
            f.accumulate(reduction, f.position(op->getOperand(0), columns[c]), identity, nullptr);
      for (Value &lane : lanes)
        lane = f.combine(reduction, lane, identity);
      sums.push_back(foldTogether(f, reduction, lanes));
    }
    SmallVector<SmallVector<Value>> tiles;
    for (int64_t i : sweep.stores) {
      Value output = kernel.outputs[i];
      SmallVector<Value> &tile = tiles.emplace_back();
      for (int64_t c = 0; c < n; ++c)
        tile.push_back(
            f.e.broadcast(f.e.at(kernel.lowered.lookup(output), f.position(output, columns[c]))));
      tile.resize(kLanes, tile.front()); // columns that do not exist are never stored
      transposeLanes(f.e, tile);
    }
    for (auto [i, tile] : llvm::zip(sweep.stores, tiles))
      for (int64_t row = 0; row < kLanes; ++row)
        f.e.store(f.output(i), tile[row], linear(kernel.outputs[i], row), mask);
    for (auto [op, sum] : llvm::zip(sweep.reductions, sums)) {
      known.push_back(kernel.lowered.lookup(op->getResult(0)));
      knowSum(f, op, rows, [sum = sum] { return sum; });
    }
  }
  for (Value value : known)
    f.e.dropKnown(value);
}

// kLanes rows from `first` on. Each sweep goes over all of them, and leaves vectors that are folded
// together.
void RowSchedule::sweepGroup(KernelFunction &f, const Index &first) {
  IndexSpace &space = f.e.space;
  Index rows = space.add(first, space.lane(kLanes));
  struct Folded {
    Operation *op;
    Value sums, memory; // of the rows: one a lane; the same in scratch, for loops over rows
  };
  SmallVector<Folded> folded;
  // What `at(entry)` gives is the result of each reduction so far for the row, or rows, at `row`.
  auto setKnown = [&](const Index &row, const std::function<Value(const Folded &)> &at) {
    for (const Folded &entry : folded)
      knowSum(f, entry.op, row, [entry, at] { return at(entry); });
  };
  for (auto [l, sweep] : llvm::enumerate(sweeps)) {
    setKnown(rows, [](const Folded &entry) { return entry.sums; });
    storeRows(f, sweep, rows);
    if (sweep.reductions.empty() && sweep.stores.empty() && !keepsAt(l))
      continue;
    SmallVector<Value, 4> unfolded;
    for (Operation *op : sweep.reductions) {
      Type element = elementOf(op->getResult(0));
      unfolded.push_back(f.scratch(kernel.claimScratch(kLanes * kLanes * memoryBytes(element)),
                                   kLanes * kLanes, element));
    }
    f.loop(kLanes, [&](Index number) {
      Index row = space.add(first, number);
      emitRowDims(f, row);
      setKnown(row, [&f, number](const Folded &entry) {
        return f.e.load(entry.memory, getElementTypeOrSelf(entry.sums.getType()), number, nullptr);
      });
      // Here, not where a loop over the row first needs it.
      for (const Folded &entry : folded)
        (void)f.e.at(kernel.lowered.lookup(entry.op->getResult(0)),
                     f.position(entry.op->getResult(0), atomPositions(f, row, Index::of(0))));
      Grouped grouped{number, unfolded};
      sweepRow(f, l, row, nullptr, &grouped);
    });
    for (auto [op, buffer] : llvm::zip(sweep.reductions, unfolded)) {
      Type element = elementOf(op->getResult(0));
      SmallVector<Value> lanes;
      for (int64_t row = 0; row < kLanes; ++row)
        lanes.push_back(
            f.e.load(buffer, element, space.add(space.lane(kLanes), row * kLanes), nullptr));
      transposeLanes(f.e, lanes);
      Value sums = foldTogether(f, kernel.generic(op), lanes);
      Value memory = f.scratch(kernel.claimScratch(kLanes * memoryBytes(element)), kLanes, element);
      f.e.store(memory, sums, space.lane(kLanes), nullptr);
      folded.push_back({op, sums, memory});
    }
  }
  for (const Folded &entry : folded)
    f.e.dropKnown(kernel.lowered.lookup(entry.op->getResult(0)));
}

LogicalResult RowSchedule::emitGroups() {
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  int64_t line = groupedLine(), groups = llvm::divideCeil(line, kLanes);
  kernel.info.count = domain.rows() / line * groups;
  f.loop(f.begin, f.end, kernel.info.count, [&](Index number) {
    auto [lineNumber, group] = space.divide(number, groups);
    Index base = space.scale(lineNumber, line);
    f.block(group, line, kLanes, [&](const Index &inLine, int64_t count) {
      Index first = space.add(base, inLine);
      if (count == kLanes)
        return body == Body::ShortRows ? rowGroup(f, first) : sweepGroup(f, first);
      f.loop(count, [&](Index row) { oneRow(f, space.add(first, row), nullptr); });
    });
  });
  return f.finish();
}

} // namespace weft::compiler

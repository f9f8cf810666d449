// Bodies of kernels over rows that are no longer than a vector: kLanes rows at a time, a lane each.
//
// A row by itself fills a part of a vector, folds it in steps that wait for one another, and computes what depends on its sums with one
// lane. Here each column of the rows is a vector: tiles of inputs and outputs are transposed in registers, the tree of a sum is one of
// vectors, and all lanes are busy. The operations on an element, and their order, are those of a row by itself, and so are the bits.
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

namespace linalg = mlir::linalg;
using mlir::Operation;
using mlir::Value;
using Role = FusionDomain::Role;
using Shape = FusionDomain::Shape;

// Groups of rows below which there is nothing to gain.
static constexpr int64_t kLeastGroups = 4;
// Ops of a group's code: each op of the fusion once a column.
static constexpr int64_t kGroupOps = 512;

bool RowSchedule::hasShortRows() const {
  int64_t n = domain.rowSize();
  if (domain.shape() != Shape::Rows || kernel.sizes || random || domain.outer().size() != 1) return false;
  if (hasColumns || hasParts || !nearStores.empty()) return false;
  if (n < 2 || n > kLanes || domain.runSize() != n || domain.rows() < kLeastGroups * kLanes) return false;
  if (n * static_cast<int64_t>(kernel.ops.size()) > kGroupOps) return false;
  // Bools are bytes in memory, and masks in registers.
  auto isBool = [&](Value value) { return domain.role(value) == Role::Full && elementOf(value).isInteger(1); };
  return llvm::none_of(kernel.fusion.getBody().front().getArguments(), isBool) && llvm::none_of(kernel.outputs, isBool);
}

// kLanes rows from `first` on.
void RowSchedule::rowGroup(KernelFunction &f, const Index &first) {
  IndexSpace &space = f.e.space;
  int64_t n = domain.rowSize();
  Value mask = f.e.tailMask(n);
  Index rows = space.add(first, space.lane(kLanes));
  llvm::SmallVector<llvm::SmallVector<Index>> columns; // atoms of each
  for (int64_t c = 0; c < n; ++c) columns.push_back(atomPositions(f, rows, Index::of(c)));
  auto linear = [&](Value value, int64_t row) {
    auto shape = mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
    return space.linearize(f.position(value, atomPositions(f, space.add(first, row), space.lane(n))), shape);
  };
  llvm::SmallVector<Value> known;
  // Whatever is not read as a tile is read at positions that are not compared with those of the stores.
  trackReads(f, nullptr, 0, {});
  for (auto [number, argument] : llvm::enumerate(kernel.fusion.getBody().front().getArguments())) {
    if (domain.role(argument) != Role::Full || !domain.layout(argument)) continue;
    for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
      bool inStep = domain.role(output) == Role::Full && *domain.layout(output) == *domain.layout(argument);
      auto [entry, isNew] = inPlace.try_emplace({static_cast<int64_t>(i), static_cast<int64_t>(number)}, true);
      entry->second &= inStep;
    }
    llvm::SmallVector<Value> tile;
    Value memory = f.function.getArgument(number);
    if (n <= kMostStride) {
      auto shape = mlir::cast<mlir::RankedTensorType>(argument.getType()).getShape();
      for (int64_t c = 0; c < n; ++c)
        tile.push_back(
            f.e.broadcast(f.e.load(memory, elementOf(argument), space.linearize(f.position(argument, columns[c]), shape), nullptr)));
    } else {
      for (int64_t row = 0; row < kLanes; ++row)
        tile.push_back(f.e.broadcast(f.e.load(memory, elementOf(argument), linear(argument, row), mask)));
      transposeTile(f.e, tile);
    }
    llvm::SmallVector<llvm::SmallVector<Index>> places;
    for (int64_t c = 0; c < n; ++c) places.push_back(f.position(argument, columns[c]));
    known.push_back(kernel.lowered.lookup(argument));
    f.e.setKnown(known.back(), [tile, places](llvm::ArrayRef<Index> position, Value) {
      for (auto [place, column] : llvm::zip(places, tile))
        if (position == llvm::ArrayRef(place)) return column;
      return Value();
    });
  }
  for (const Sweep &sweep : sweeps) {
    storeRows(f, sweep, rows);
    llvm::SmallVector<Value> sums;
    for (Operation *op : sweep.reductions) {
      linalg::GenericOp reduction = kernel.generic(op);
      Value identity = f.identity(reduction, true);
      // Lanes of a row's first accumulator, the second one, and the tree of foldLanes.
      llvm::SmallVector<Value> lanes(kLanes, identity);
      for (int64_t c = 0; c < n; ++c) lanes[c] = f.accumulate(reduction, f.position(op->getOperand(0), columns[c]), identity, nullptr);
      for (Value &lane : lanes) lane = f.combine(reduction, lane, identity);
      for (int64_t half = kLanes / 2; half >= 1; half /= 2)
        for (int64_t c = 0; c < half; ++c) lanes[c] = f.combine(reduction, lanes[c], lanes[c + half]);
      sums.push_back(lanes[0]);
    }
    llvm::SmallVector<llvm::SmallVector<Value>> tiles;
    for (int64_t i : sweep.stores) {
      Value output = kernel.outputs[i];
      llvm::SmallVector<Value> &tile = tiles.emplace_back();
      for (int64_t c = 0; c < n; ++c) tile.push_back(f.e.broadcast(f.e.at(kernel.lowered.lookup(output), f.position(output, columns[c]))));
      tile.resize(kLanes, tile.front()); // columns that do not exist are never stored
      transposeTile(f.e, tile);
    }
    for (auto [i, tile] : llvm::zip(sweep.stores, tiles))
      for (int64_t row = 0; row < kLanes; ++row) f.e.store(f.output(i), tile[row], linear(kernel.outputs[i], row), mask);
    for (auto [op, sum] : llvm::zip(sweep.reductions, sums)) {
      known.push_back(kernel.lowered.lookup(op->getResult(0)));
      auto here = f.position(op->getResult(0), columns.front());
      f.e.setKnown(known.back(), [&f, here, sum = sum](llvm::ArrayRef<Index> position, Value) -> Value {
        if (position == llvm::ArrayRef(here)) return sum;
        f.e.fail("a row's sum is read from another row");
        return sum;
      });
    }
  }
  for (Value value : known) f.e.dropKnown(value);
}

mlir::LogicalResult RowSchedule::emitShortRows() {
  KernelFunction f(kernel, kernel.info.symbol);
  kernel.info.count = llvm::divideCeil(domain.rows(), kLanes);
  f.loop(f.begin, f.end, kernel.info.count, {}, [&](Index group, KernelFunction::State &) {
    f.block(group, domain.rows(), kLanes, [&](const Index &first, int64_t count) {
      if (count == kLanes) return rowGroup(f, first);
      f.loop(count, {}, [&](Index row, KernelFunction::State &) { oneRow(f, f.e.space.add(first, row), nullptr); });
    });
  });
  return f.finish();
}

} // namespace weft::compiler

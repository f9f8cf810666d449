// Which op of a kernel over rows runs in which sweep over a row, and which outputs may take an
// input's buffer: what the schedules of all backends ask first.
#pragma once

#include "compiler/codegen/Schedule.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"

namespace weft::compiler {

// Reductions, by the role of what they give, and outputs, by their number.
struct Sweep {
  llvm::SmallVector<mlir::Operation *> reductions, columns,
      totals;                                     // Row, Col, and Total over Full values
  llvm::SmallVector<mlir::Operation *> rowTotals; // Scalar over Row values
  llvm::SmallVector<mlir::Operation *> parts;     // Part over Full values: all in the last sweep
  llvm::SmallVector<int64_t> stores, rowStores;   // outputs: Full, Row
};

// A row is swept once for each level: level 0 depends on no reduction of rows, level n + 1 on those
// of level n.
struct Sweeps {
  explicit Sweeps(KernelBuilder &kernel);

  KernelBuilder &kernel;
  const FusionDomain &domain;
  std::vector<Sweep> sweeps;
  llvm::SmallVector<int64_t> nearStores; // outputs: Near
  int64_t lastLevel = 0;
  bool hasColumns = false, hasRows = false, hasParts = false;

  int64_t level(mlir::Value value) const {
    return levels_.lookup(value);
  }
  static mlir::Type elementOf(mlir::Value value) {
    return mlir::getElementTypeOrSelf(value.getType());
  }
  llvm::SmallVector<mlir::linalg::GenericOp>
  generics(llvm::ArrayRef<mlir::Operation *> reductions) const;

  // Partial results of an op: `count` parts, each `stride` elements behind the one before.
  struct Partial {
    int64_t offset = 0, count = 1, stride = 1;
    mlir::Type element;
  };
  llvm::MapVector<mlir::Operation *, Partial> partials;
  Partial makePartial(mlir::Type element, int64_t count, int64_t stride = 1) {
    return {kernel.claimPartials(count * stride * memoryBytes(element)), count, stride, element};
  }
  void addPartial(mlir::Operation *op, mlir::Type element, int64_t count, int64_t stride = 1) {
    partials[op] = makePartial(element, count, stride);
  }
  static mlir::Value buffer(KernelFunction &f, const Partial &partial) {
    return f.partials(partial.offset, partial.count * partial.stride, partial.element);
  }
  // The buffer, and where `position` of a part lies in it.
  static std::pair<mlir::Value, Index> placeIn(KernelFunction &f, const Partial &partial,
                                               const Index &part, const Index &position) {
    return {buffer(f, partial), f.e.space.add(f.e.space.scale(part, partial.stride), position)};
  }

  // An element, or a vector of them, that goes to an output.
  struct Stored {
    int64_t output;
    mlir::Value value;
    Index place;
  };
  // Those of some outputs where the atoms are: to be stored once all is read that may lie in their
  // buffers.
  llvm::SmallVector<Stored, 1> compute(KernelFunction &f, llvm::ArrayRef<int64_t> outputs,
                                       llvm::ArrayRef<Index> atoms, mlir::Value mask = nullptr);
  void store(KernelFunction &f, llvm::ArrayRef<Stored> values, mlir::Value mask = nullptr);

  // Watches the reads of inputs while a sweep of `level` is emitted at `atoms`. Behind the last
  // level no output's store is in step with them.
  void trackReads(KernelFunction &f, int64_t level, llvm::ArrayRef<Index> atoms);
  void trackOtherReads(KernelFunction &f) {
    trackReads(f, lastLevel + 1, {});
  }
  // Whether all reads of the input so far were at the output's position, no later than its store.
  bool &inStep(int64_t output, int64_t input) {
    return inStep_.try_emplace({output, input}, true).first->second;
  }
  // Notes the pairs of which that holds once all is emitted, and whose elements are as wide.
  void noteInPlace();

private:
  llvm::DenseMap<mlir::Value, int64_t> levels_;
  llvm::DenseMap<std::pair<int64_t, int64_t>, bool> inStep_;
};

// Sums that are in memory while their terms come, in the order of reduceSteps: of more than kChain
// terms, each kChain become part of totals, which are in memory as well. `cells` loads and stores
// vectors of an op: number 0 is its sum, 1 and 2 are the totals.
template <typename Cells> struct SumsInMemory {
  KernelFunction &f;
  Cells cells;
  bool hasTotals;

  using State = KernelFunction::State;

  template <typename Unit> void start(mlir::Operation *op, const Unit &unit) {
    clear(op, unit);
    if (hasTotals)
      storeTotals(op, noTotals(op), unit);
  }
  template <typename Unit> void endChain(mlir::Operation *op, const Unit &unit) {
    State totals = loadTotals(op, unit);
    f.addToTotals(totals, f.kernel.generic(op), 1,
                  cells.load(op, 0, Sweeps::elementOf(op->getResult(0)), unit));
    storeTotals(op, totals, unit);
    clear(op, unit);
  }
  template <typename Unit> void finish(mlir::Operation *op, const Unit &unit) {
    cells.store(op, 0, f.fromTotals(loadTotals(op, unit), f.kernel.generic(op), 1)[0], unit);
  }

private:
  State noTotals(mlir::Operation *op) {
    return f.noTotals(f.kernel.generic(op), 1, f.e.width > 1);
  }
  template <typename Unit> void clear(mlir::Operation *op, const Unit &unit) {
    cells.store(op, 0, f.identity(f.kernel.generic(op), f.e.width > 1), unit);
  }
  template <typename Unit>
  void storeTotals(mlir::Operation *op, llvm::ArrayRef<mlir::Value> totals, const Unit &unit) {
    for (auto [i, total] : llvm::enumerate(totals))
      cells.store(op, i + 1, total, unit);
  }
  template <typename Unit> State loadTotals(mlir::Operation *op, const Unit &unit) {
    State totals = noTotals(op);
    for (auto [i, total] : llvm::enumerate(totals))
      total = cells.load(op, i + 1, Sweeps::elementOf(total), unit);
    return totals;
  }
};

} // namespace weft::compiler

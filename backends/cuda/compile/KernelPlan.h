// What the schedules share: which op of a fusion runs in which sweep over a row, where partial
// results lie, and which outputs may take an input's buffer.
#pragma once

#include "backends/cuda/compile/GpuFunction.h"
#include "backends/cuda/compile/Limits.h"
#include "llvm/ADT/MapVector.h"

namespace weft::backends::cuda {

// A row is swept once for each level: level 0 depends on no reduction, level n + 1 on the
// reductions of level n.
struct Sweep {
  llvm::SmallVector<mlir::Operation *> reductions; // over the row
  llvm::SmallVector<mlir::Operation *> columns;    // over the rows
  llvm::SmallVector<mlir::Operation *> totals;     // of everything
  llvm::SmallVector<mlir::Operation *> rowTotals;  // of one value a row
  llvm::SmallVector<mlir::Operation *>
      parts; // of parts of rows, and over some of the outer dims: all in the last sweep
  llvm::SmallVector<int64_t> stores, rowStores; // outputs: one element a position, one a row
};

class KernelPlan {
public:
  explicit KernelPlan(KernelBuilder &kernel);

  KernelBuilder &kernel;
  const FusionDomain &domain;
  std::vector<Sweep> sweeps;
  llvm::SmallVector<int64_t> nearStores; // outputs that are slices of rows
  bool hasRows = false, hasColumns = false, hasParts = false;

  // Partial results of an op: `count` parts, each `stride` elements after the one before.
  struct Partial {
    int64_t offset = 0, count = 1, stride = 1;
    mlir::Type element;
  };
  llvm::MapVector<mlir::Operation *, Partial> partials;
  Partial makePartial(mlir::Type element, int64_t count, int64_t stride = 1);
  void addPartial(mlir::Operation *op, mlir::Type element, int64_t count, int64_t stride = 1) {
    partials[op] = makePartial(element, count, stride);
  }
  mlir::Value buffer(GpuFunction &f, const Partial &partial) {
    return f.partials(partial.offset, partial.count * partial.stride, partial.element);
  }

  // Elements of a vector of kAccessBytes of the widest type in memory; at most kMostWidth.
  int64_t widest() const;
  // The most of them that divide a run of n elements.
  int64_t widthOf(int64_t n) const;

  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  }
  static mlir::Type elementOf(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  }
  llvm::SmallVector<mlir::linalg::GenericOp> generics(llvm::ArrayRef<mlir::Operation *> ops) const;

  // An element of output `number`, emitted, and where it goes.
  struct Store {
    int64_t number;
    mlir::Value value;
    Index linear;
  };
  // Emits the elements of outputs at `atoms`; the caller stores them once everything that may read
  // their buffers has been read.
  llvm::SmallVector<Store> compute(GpuFunction &f, llvm::ArrayRef<int64_t> outputs,
                                   llvm::ArrayRef<Index> atoms);
  void store(GpuFunction &f, llvm::ArrayRef<Store> stores);

  // Watches the reads of inputs while a sweep of `level` is emitted at `atoms`; atoms null: reads
  // that no output's store is in step with.
  void trackReads(GpuFunction &f, int64_t level, const llvm::SmallVector<Index> *atoms);
  // Notes the pairs whose every read was in step with the output's store.
  void noteInPlace();

private:
  int64_t level(mlir::Value value) const {
    return levels_.lookup(value);
  }
  llvm::DenseMap<mlir::Value, int64_t> levels_;
  llvm::DenseMap<std::pair<int64_t, int64_t>, bool> inPlace_;
};

// The schedules, one file each. They emit `kernel.info.symbol` and say how it is launched.
mlir::LogicalResult scheduleElementwise(KernelPlan &plan, Geometry &geometry);
// Whether an elementwise kernel reads operands along another dim than it writes, so that tiles in
// shared memory pay.
bool readsTransposed(KernelPlan &plan);
mlir::LogicalResult scheduleTransposed(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleRows(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleColumns(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleTotals(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleNest(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleScatter(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleScan(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleMatmul(KernelPlan &plan, Geometry &geometry);
mlir::LogicalResult scheduleEmpty(KernelPlan &plan, Geometry &geometry);
// Adds up partial results in order, and what depends on them: a second launch,
// `kernel.info.finish`.
mlir::LogicalResult scheduleFinish(KernelPlan &plan, Geometry &geometry);

inline int64_t ceilDivide(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}
// Blocks of at most `threads` threads for `count` of them.
inline Geometry gridOf(int64_t count, int64_t threads) {
  while (threads > kWarp && threads / 2 >= count)
    threads /= 2;
  return {(std::max<int64_t>(count, 1) + threads - 1) / threads, threads};
}

} // namespace weft::backends::cuda

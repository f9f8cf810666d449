// What the schedules share beside the sweeps over a row: how wide vectors are, and their names.
#pragma once

#include "backends/cuda/compile/GpuFunction.h"
#include "backends/cuda/compile/Limits.h"
#include "backends/cuda/device/cuda_code.h"
#include "compiler/codegen/Sweeps.h"

namespace weft::backends::cuda {

struct KernelPlan : compiler::Sweeps {
  using Sweeps::Sweeps;

  // The atom of the size that varies, the slowest one; -1 for none.
  int32_t namedAtom() const;
  // Elements of a vector of kAccessBytes of the widest type in memory; at most kMostWidth.
  int64_t widest() const;
  // The most of them that divide a run of n elements.
  int64_t widthOf(int64_t n) const;
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
// Blocks of at most `threads` threads for `count` of them; none for none.
inline Geometry gridOf(int64_t count, int64_t threads) {
  while (threads > kWarp && threads / 2 >= count)
    threads /= 2;
  return Geometry::of(count, threads, threads);
}

} // namespace weft::backends::cuda

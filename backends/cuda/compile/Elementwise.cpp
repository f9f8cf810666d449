// Elementwise kernels: one vector a thread, neighbours in neighbouring threads. What does not fill
// a vector is the last thread's.
#include "backends/cuda/compile/KernelPlan.h"
#include "backends/cuda/compile/Limits.h"

namespace weft::backends::cuda {

mlir::LogicalResult scheduleElementwise(KernelPlan &plan, Geometry &geometry) {
  const FusionDomain &domain = plan.domain;
  int64_t rowSize = domain.rowSize(), n = domain.rows() * rowSize;
  // A single run has a tail; where runs are shorter than the whole, a vector must not cross their
  // border.
  bool oneRun = domain.outer().empty();
  int64_t width = oneRun && n >= plan.widest() ? plan.widest() : plan.widthOf(rowSize);
  int64_t whole = n / width, tail = n % width, units = whole + (tail > 0);
  geometry = gridOf(units, kSharingThreads);
  GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, width);
  compiler::IndexSpace &space = f.e.space;
  auto emit = [&](const Index &linear) {
    auto [row, inner] = space.divide(linear, rowSize);
    auto atoms = compiler::atomPositions(f, row, inner);
    plan.trackReads(f, 0, atoms);
    plan.store(f, plan.compute(f, plan.sweeps[0].stores, atoms));
  };
  mlir::Value number = f.gridThread();
  Index i = space.scalar(number, units);
  bool exact = !tail && geometry.blocks * geometry.threads == units;
  f.when(
      exact ? mlir::Value() : f.lessThan(number, whole),
      [&] { emit(f.vectorAt(i)); },
      [&] {
        if (!tail)
          return;
        f.when(f.lessThan(number, units), [&] {
          for (int64_t k = 0; k < tail; ++k)
            emit(Index::of(whole * width + k));
        });
      });
  return f.finish();
}

} // namespace weft::backends::cuda

// Elementwise kernels: one vector a thread, neighbours in neighbouring threads. What does not fill
// a vector is the last thread's.
#include "backends/cuda/compile/KernelPlan.h"
#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

LogicalResult scheduleElementwise(KernelPlan &plan, Geometry &geometry) {
  const FusionDomain &domain = plan.domain;
  int64_t rowSize = domain.rowSize(), n = domain.rows() * rowSize;
  // A single run has a tail; where runs are shorter than the whole, a vector must not cross their
  // border.
  bool oneRun = domain.outer().empty(), varies = bool(plan.kernel.sizes);
  int64_t width = oneRun && n >= plan.widest() ? plan.widest() : plan.widthOf(rowSize);
  int64_t units = ceilDivide(n, width);
  bool mayHaveTail = oneRun && width > 1 && (varies || n % width);
  int64_t threads = gridOf(units, kSharingThreads).threads;
  geometry = Geometry::of(n, threads * width, threads);
  GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, width);
  compiler::IndexSpace &space = f.e.space;
  auto emit = [&](const Index &linear) {
    auto [row, inner] = space.divide(linear, rowSize);
    auto atoms = compiler::atomPositions(f, row, inner);
    plan.trackReads(f, 0, atoms);
    plan.store(f, plan.compute(f, plan.sweeps[0].stores, atoms));
  };
  Value number = f.gridThread();
  Index i = space.scalar(number, units);
  bool exact = !varies && n == geometry.blocks * geometry.perBlock;
  Value whole = f.e.div(f.count(), width);
  f.when(
      exact ? Value() : f.e.compare(arith::CmpIPredicate::slt, number, whole),
      [&] { emit(f.vectorAt(i)); },
      [&] {
        if (!mayHaveTail)
          return;
        Value first = f.e.mul(number, width);
        f.when(f.isPiece(first), [&] {
          if (!varies)
            for (int64_t at = n / width * width; at < n; ++at)
              emit(Index::of(at));
          for (int64_t k = 0; varies && k + 1 < width; ++k) {
            Value at = f.e.add(first, k);
            f.when(f.isPiece(at), [&] { emit(space.scalar(at, n)); });
          }
        });
      });
  return f.finish();
}

} // namespace weft::backends::cuda

// Reductions of everything: each block folds one run of the elements to a partial result.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

LogicalResult scheduleTotals(KernelPlan &plan, Geometry &geometry) {
  int64_t n = plan.domain.rowSize(), width = plan.widthOf(n), vectors = n / width;
  int64_t rounds = std::max(kLeastTotalRounds,
                            ceilDivide(vectors, kSharingThreads * kMostTotalBlocks)),
          perBlock = rounds * kSharingThreads;
  geometry = {ceilDivide(vectors, perBlock), kSharingThreads};
  const compiler::Sweep &sweep = plan.sweeps[0];
  for (Operation *op : sweep.totals)
    plan.addPartial(op, plan.elementOf(op->getResult(0)), geometry.blocks);

  GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, width);
  auto reductions = plan.generics(sweep.totals);
  Value first = f.e.add(f.e.mul(f.block, perBlock), f.thread);
  auto step = [&](Index round, GpuFunction::State &inside) {
    Value step = f.e.mul(round, kSharingThreads);
    Value number = f.e.add(first, step), guard;
    if (vectors % perBlock)
      guard = f.below(number, vectors);
    auto atoms = compiler::atomPositions(f, Index::of(0),
                                         f.vectorAt(f.e.space.scalar(number, vectors)));
    plan.trackReads(f, 0, atoms);
    f.accumulateAll(sweep.totals, atoms, inside, 0, 1, guard);
    f.setGuard(guard);
    auto stores = plan.compute(f, sweep.stores, atoms);
    f.setGuard(nullptr);
    f.when(guard, [&] { plan.store(f, stores); });
  };
  auto results = f.foldGroup(
      reductions, f.reduceSteps(rounds, reductions, 1, width > 1, step), kSharingThreads);
  f.when(f.isZero(f.thread), [&] {
    for (auto [op, sum] : llvm::zip(sweep.totals, results))
      f.e.store(plan.buffer(f, plan.partials[op]), sum, f.blockIndex(), nullptr);
  });
  return f.finish();
}

} // namespace weft::backends::cuda

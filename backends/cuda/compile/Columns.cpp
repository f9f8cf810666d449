// Reductions over the rows alone: a vector of columns a thread, a chunk of rows a block.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

LogicalResult scheduleColumns(KernelPlan &plan, Geometry &geometry) {
  int64_t rows = plan.domain.rows(), n = plan.domain.rowSize(), width = plan.widthOf(n),
          vectors = n / width;
  Geometry across = gridOf(vectors, kLoopThreads);
  int64_t chunks =
      std::clamp<int64_t>(kMostColumnBlocks / across.blocks, 1, ceilDivide(rows, kLeastChunkRows));
  int64_t chunkRows = ceilDivide(rows, chunks);
  chunks = ceilDivide(rows, chunkRows);
  geometry = {across.blocks * chunks, across.threads};
  const compiler::Sweep &sweep = plan.sweeps[0];
  for (Operation *op : sweep.columns)
    plan.addPartial(op, plan.elementOf(op->getResult(0)), chunks,
                    compiler::roundUp(n, kPartialUnit));

  GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, width);
  compiler::IndexSpace &space = f.e.space;
  auto [chunk, stripe] = space.divide(f.blockIndex(), across.blocks);
  Value first = f.e.mul(stripe, across.threads);
  Value vector = f.e.add(first, f.thread);
  Value from = f.e.scalarIndex(space.scale(chunk, chunkRows));
  f.when(f.lessThan(vector, vectors), [&, chunk = chunk] {
    Index position = f.vectorAt(space.scalar(vector, vectors));
    auto reductions = plan.generics(sweep.columns);
    Value to = f.e.minSigned(f.e.add(from, chunkRows), rows);
    auto step = [&](Index row, GpuFunction::State &inside) {
      auto atoms = compiler::atomPositions(f, row, position);
      plan.trackReads(f, 0, atoms);
      f.accumulateAll(sweep.columns, atoms, inside, 0, 1, nullptr);
      plan.store(f, plan.compute(f, sweep.stores, atoms));
    };
    auto sums = f.reduceSteps(from, to, rows, chunkRows, reductions, 1, width > 1, step);
    for (auto [op, sum] : llvm::zip(sweep.columns, sums)) {
      auto [memory, at] = plan.placeIn(f, plan.partials[op], chunk, position);
      f.e.store(memory, sum, at, nullptr);
    }
  });
  return f.finish();
}

} // namespace weft::backends::cuda

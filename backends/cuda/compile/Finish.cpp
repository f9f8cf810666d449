// The second launch of a kernel with partial results: adds them up in order and computes what depends on them. A thread has a vector of
// columns; the first block also folds what becomes scalars.
#include "backends/cuda/compile/KernelPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

namespace arith = mlir::arith;
using mlir::Operation;
using mlir::Value;
using Role = FusionDomain::Role;

static constexpr int64_t kThreads = 128;

static void finishScalars(KernelPlan &plan, GpuFunction &f, llvm::ArrayRef<int64_t> outputs) {
  auto fold = [&](Operation *op, const KernelPlan::Partial &partial) {
    auto reduction = plan.kernel.generic(op);
    int64_t rounds = ceilDivide(partial.count, kThreads);
    Value buffer = plan.buffer(f, partial), zero = f.identity(reduction, false);
    GpuFunction::State sum = f.loop(rounds, {zero}, [&](Index round, GpuFunction::State &inside) {
      Value step = f.e.make<arith::MulIOp>(f.e.scalarIndex(round), f.e.constantIndex(kThreads));
      Value number = f.e.make<arith::AddIOp>(step, f.thread), guard = f.lessThan(number, partial.count);
      number = f.e.make<arith::MinSIOp>(number, f.e.constantIndex(partial.count - 1));
      Value next = f.combine(reduction, inside[0], f.e.load(buffer, partial.element, f.e.space.scalar(number, partial.count), nullptr));
      inside[0] = f.e.make<arith::SelectOp>(guard, next, inside[0]);
    });
    return f.foldGroup(reduction, sum, kThreads)[0];
  };
  for (auto &[op, partial] : plan.partials) {
    if (plan.domain.role(op->getResult(0)) == Role::Col) continue;
    f.e.setKnown(plan.kernel.lowered.lookup(op->getResult(0)), [sum = fold(op, partial)](llvm::ArrayRef<Index>, Value) { return sum; });
  }
  f.when(f.isZero(f.thread),
         [&] { plan.store(f, plan.compute(f, outputs, compiler::atomPositions(f, Index::of(0), Index::of(0)))); });
}

static void finishColumns(KernelPlan &plan, GpuFunction &f, llvm::ArrayRef<int64_t> outputs, const Index &position) {
  for (auto &[op, partial] : plan.partials) {
    if (plan.domain.role(op->getResult(0)) != Role::Col) continue;
    auto reduction = plan.kernel.generic(op);
    Value buffer = plan.buffer(f, partial);
    auto part = [&, &partial = partial](const Index &chunk) {
      return f.e.load(buffer, partial.element, f.e.space.add(f.e.space.scale(chunk, partial.stride), position), nullptr);
    };
    Value sum = partial.count == 1 ? part(Index::of(0))
                                   : f.loop(partial.count, {f.identityOf(reduction)}, [&](Index chunk, GpuFunction::State &total) {
                                       total[0] = f.combine(reduction, total[0], part(chunk));
                                     })[0];
    f.e.setKnown(plan.kernel.lowered.lookup(op->getResult(0)), [sum](llvm::ArrayRef<Index>, Value) { return sum; });
  }
  plan.store(f, plan.compute(f, outputs, compiler::atomPositions(f, Index::of(0), position)));
}

mlir::LogicalResult scheduleFinish(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  kernel.info.finish = kernel.info.symbol + "_finish";
  llvm::SmallVector<int64_t> scalars, columns;
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    if (plan.domain.role(output) == Role::Scalar) scalars.push_back(i);
    if (plan.domain.role(output) == Role::Col) columns.push_back(i);
  }
  int64_t n = plan.domain.rowSize(), width = plan.hasColumns ? plan.widthOf(n) : 1, vectors = plan.hasColumns ? n / width : 0;
  geometry = {std::max<int64_t>(1, ceilDivide(vectors, kThreads)), kThreads};
  GpuFunction f(kernel, kernel.info.finish, geometry, width);
  // What is read only now must not have been overwritten by the first launch.
  plan.trackReads(f, 0, nullptr);
  if (!scalars.empty()) f.when(geometry.blocks == 1 ? Value() : f.isZero(f.block), [&] { finishScalars(plan, f, scalars); });
  if (!columns.empty()) {
    Value vector = f.gridThread();
    f.when(f.lessThan(vector, vectors), [&] {
      Index at = f.e.space.scale(f.e.space.scalar(vector, vectors), width);
      finishColumns(plan, f, columns, width == 1 ? at : f.e.space.add(at, f.e.space.lane(width)));
    });
  }
  plan.noteInPlace();
  return f.finish();
}

} // namespace weft::backends::cuda

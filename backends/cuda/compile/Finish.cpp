// The second launch of a kernel with partial results: adds them up in order and computes what
// depends on them. A thread has a vector of columns; the first block also folds what becomes
// scalars.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

namespace arith = mlir::arith;
using mlir::Operation;
using mlir::Value;
using Role = FusionDomain::Role;

static void finishScalars(KernelPlan &plan, GpuFunction &f, llvm::ArrayRef<int64_t> outputs) {
  auto fold = [&](Operation *op, const KernelPlan::Partial &partial) {
    auto reduction = plan.kernel.generic(op);
    int64_t rounds = ceilDivide(partial.count, kLoopThreads);
    Value buffer = plan.buffer(f, partial);
    auto add = [&](Index round, GpuFunction::State &inside) {
      Value step =
          f.e.make<arith::MulIOp>(f.e.scalarIndex(round), f.e.constantIndex(kLoopThreads));
      Value number = f.e.make<arith::AddIOp>(step, f.thread),
            guard = f.lessThan(number, partial.count);
      number = f.e.make<arith::MinSIOp>(number, f.e.constantIndex(partial.count - 1));
      Value next = f.combine(
          reduction, inside[0],
          f.e.load(buffer, partial.element, f.e.space.scalar(number, partial.count), nullptr));
      inside[0] = f.e.make<arith::SelectOp>(guard, next, inside[0]);
    };
    return f.foldGroup(reduction, f.reduceSteps(rounds, reduction, 1, false, add),
                       kLoopThreads)[0];
  };
  for (auto &[op, partial] : plan.partials) {
    if (Role role = plan.domain.role(op->getResult(0)); role == Role::Col || role == Role::Part)
      continue;
    f.e.setKnown(plan.kernel.lowered.lookup(op->getResult(0)),
                 [sum = fold(op, partial)](llvm::ArrayRef<Index>, Value) { return sum; });
  }
  f.when(f.isZero(f.thread), [&] {
    plan.store(f, plan.compute(f, outputs, compiler::atomPositions(f, Index::of(0), Index::of(0))));
  });
}

static void finishColumns(KernelPlan &plan, GpuFunction &f, llvm::ArrayRef<int64_t> outputs,
                          const Index &position) {
  for (auto &[op, partial] : plan.partials) {
    if (plan.domain.role(op->getResult(0)) != Role::Col)
      continue;
    auto reduction = plan.kernel.generic(op);
    Value buffer = plan.buffer(f, partial);
    auto part = [&, &partial = partial](const Index &chunk) {
      return f.e.load(buffer, partial.element,
                      f.e.space.add(f.e.space.scale(chunk, partial.stride), position), nullptr);
    };
    Value sum = partial.count == 1
                    ? part(Index::of(0))
                    : f.reduceSteps(partial.count, reduction, 1, f.e.width > 1,
                                    [&](Index chunk, GpuFunction::State &total) {
                                      total[0] = f.combine(reduction, total[0], part(chunk));
                                    })[0];
    f.e.setKnown(plan.kernel.lowered.lookup(op->getResult(0)),
                 [sum](llvm::ArrayRef<Index>, Value) { return sum; });
  }
  plan.store(f, plan.compute(f, outputs, compiler::atomPositions(f, Index::of(0), position)));
}

// The sums of parts of rows, over the outer dims that they reduce: one thread for each.
static void finishParts(KernelPlan &plan, GpuFunction &f, llvm::ArrayRef<int64_t> outputs,
                        const Index &position) {
  const FusionDomain &domain = plan.domain;
  FusionDomain::Layout layout = domain.partialLayout(), added = domain.addedRows();
  llvm::SmallVector<Index> atoms(domain.atoms().size());
  auto place = [&](llvm::ArrayRef<int32_t> some, const Index &linear) {
    compiler::placeAtoms(f.e.space, domain, atoms, some, linear);
  };
  place(domain.kept(), position);
  int64_t count = domain.positions(added);
  for (auto &[op, partial] : plan.partials) {
    if (domain.role(op->getResult(0)) != Role::Part)
      continue;
    auto reduction = plan.kernel.generic(op);
    Value buffer = plan.buffer(f, partial);
    auto part = [&, &partial = partial](const Index &number) {
      place(added, number);
      llvm::SmallVector<Index> digits;
      for (int32_t atom : layout)
        digits.push_back(atoms[atom]);
      return f.e.load(buffer, partial.element, f.e.space.linearize(digits, domain.extents(layout)),
                      nullptr);
    };
    Value sum = count == 1
                    ? part(Index::of(0))
                    : f.reduceSteps(count, reduction, 1, false,
                                    [&](Index number, GpuFunction::State &total) {
                                      total[0] = f.combine(reduction, total[0], part(number));
                                    })[0];
    f.e.setKnown(plan.kernel.lowered.lookup(op->getResult(0)),
                 [sum](llvm::ArrayRef<Index>, Value) { return sum; });
  }
  place(added, Index::of(0));
  plan.store(f, plan.compute(f, outputs, atoms));
}

mlir::LogicalResult scheduleFinish(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  kernel.info.finish = kernel.info.symbol + "_finish";
  llvm::SmallVector<int64_t> scalars,
      columns; // columns: or parts of rows, of which a kernel has only one kind
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    if (plan.domain.role(output) == Role::Scalar)
      scalars.push_back(i);
    if (Role role = plan.domain.role(output); role == Role::Col || role == Role::Part)
      columns.push_back(i);
  }
  int64_t n = plan.domain.rowSize(), width = plan.hasColumns ? plan.widthOf(n) : 1,
          vectors = plan.hasColumns ? n / width : 0;
  if (plan.hasParts) {
    vectors = plan.domain.positions(plan.domain.kept());
  }
  geometry = {std::max<int64_t>(1, ceilDivide(vectors, kLoopThreads)), kLoopThreads};
  GpuFunction f(kernel, kernel.info.finish, geometry, width);
  // What is read only now must not have been overwritten by the first launch.
  plan.trackReads(f, 0, nullptr);
  if (!scalars.empty())
    f.when(geometry.blocks == 1 ? Value() : f.isZero(f.block),
           [&] { finishScalars(plan, f, scalars); });
  if (!columns.empty()) {
    Value vector = f.gridThread();
    f.when(f.lessThan(vector, vectors), [&] {
      Index at = f.e.space.scale(f.e.space.scalar(vector, vectors), width);
      if (plan.hasParts)
        return finishParts(plan, f, columns, at);
      finishColumns(plan, f, columns, width == 1 ? at : f.e.space.add(at, f.e.space.lane(width)));
    });
  }
  plan.noteInPlace();
  return f.finish();
}

} // namespace weft::backends::cuda

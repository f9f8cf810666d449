// Reductions over dims that are neither the inner nor the outer ones, with the elementwise ops that
// feed them and that follow on their results.
//
// Where the innermost dim is kept, a thread has a vector of kept elements and walks the reduced
// dims; where it is reduced, a warp has a kept element and its threads walk the reduced dims
// together.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

struct NestSchedule {
  explicit NestSchedule(KernelPlan &plan) : plan(plan), domain(plan.domain) {
    for (Operation *op : plan.kernel.ops)
      if (compiler::isReduction(op))
        ops.push_back(op);
    reductions = plan.generics(ops);
    for (auto [i, output] : llvm::enumerate(plan.kernel.outputs))
      outputs.push_back(i);
  }

  KernelPlan &plan;
  const FusionDomain &domain;
  SmallVector<Operation *> ops;
  SmallVector<linalg::GenericOp> reductions;
  SmallVector<int64_t> outputs;

  void place(GpuFunction &f, MutableArrayRef<Index> atoms, ArrayRef<int32_t> some,
             const Index &linear) {
    compiler::placeAtoms(f.e.space, domain, atoms, some, linear);
  }
  void store(GpuFunction &f, ArrayRef<Index> atoms, ArrayRef<Value> sums, Value guard) {
    for (auto [op, sum] : llvm::zip(ops, sums))
      f.know(op, atoms, [sum = sum] { return sum; });
    f.when(guard, [&] { plan.store(f, plan.compute(f, outputs, atoms)); });
  }

  LogicalResult keptInnermost(int32_t along, Geometry &geometry) {
    SmallVector<int32_t> others = compiler::outerWithout(domain, along);
    int64_t n = domain.atoms()[along], width = plan.widthOf(n), vectors = n / width,
            count = domain.positions(others) * vectors;
    geometry = gridOf(count, kLoopThreads);
    GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, width);
    compiler::IndexSpace &space = f.e.space;
    Value number = f.gridThread();
    f.when(f.isPiece(number), [&] {
      SmallVector<Index> atoms(domain.atoms().size());
      auto [other, vector] = space.divide(space.scalar(number, count), vectors);
      place(f, atoms, others, other);
      atoms[along] = f.vectorAt(vector);
      auto sums = f.reduceSteps(domain.positions(domain.inner()), reductions, 1, width > 1,
                                [&](Index step, GpuFunction::State &inside) {
                                  place(f, atoms, domain.inner(), step);
                                  f.accumulateAll(ops, atoms, inside, 0, 1, nullptr);
                                });
      for (int32_t atom : domain.inner())
        atoms[atom] = Index::of(0);
      store(f, atoms, sums, nullptr);
    });
    return f.finish();
  }

  LogicalResult reducedInnermost(ArrayRef<int32_t> layout, Geometry &geometry) {
    // In the order of memory, so that the threads of a warp read neighbours.
    SmallVector<int32_t> reduced;
    for (int32_t atom : layout)
      if (llvm::is_contained(domain.inner(), atom))
        reduced.push_back(atom);
    int64_t width = plan.widthOf(domain.atoms()[layout.back()]),
            vectors = domain.positions(reduced) / width, count = domain.rows();
    constexpr int64_t kGroups = kLoopThreads / kWarp;
    geometry = Geometry::of(count, kGroups, kLoopThreads);
    GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, width);
    compiler::IndexSpace &space = f.e.space;
    auto [warp, lane] = space.divide(f.threadIndex(), kWarp);
    Value member = f.e.scalarIndex(lane);
    Value number = f.e.add(f.e.mul(f.block, kGroups), warp);
    f.when(f.isPiece(number), [&] {
      SmallVector<Index> atoms(domain.atoms().size());
      place(f, atoms, domain.outer(), space.scalar(number, count));
      for (const Index &atom : atoms)
        (void)f.e.scalarIndex(atom);
      auto add = [&](Index round, GpuFunction::State &inside) {
        Value step = f.e.mul(round, kWarp);
        Value vector = f.e.add(step, member), guard;
        if (vectors % kWarp)
          guard = f.below(vector, vectors);
        place(f, atoms, reduced, f.vectorAt(space.scalar(vector, vectors)));
        f.accumulateAll(ops, atoms, inside, 0, 1, guard);
      };
      auto sums = f.reduceSteps(ceilDivide(vectors, kWarp), reductions, 1, width > 1, add);
      for (int32_t atom : reduced)
        atoms[atom] = Index::of(0);
      store(f, atoms, f.foldGroup(reductions, sums, kWarp), f.isZero(member));
    });
    return f.finish();
  }
};

} // namespace

LogicalResult scheduleNest(KernelPlan &plan, Geometry &geometry) {
  NestSchedule nest(plan);
  const FusionDomain::Layout &layout = *plan.domain.layout(nest.ops.front()->getOperand(0));
  if (llvm::is_contained(plan.domain.outer(), layout.back()))
    return nest.keptInnermost(layout.back(), geometry);
  return nest.reducedInnermost(layout, geometry);
}

} // namespace weft::backends::cuda

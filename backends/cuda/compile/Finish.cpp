// The second launch of a kernel with partial results: adds them up in order and computes what
// depends on them. A warp has a vector of columns in each thread, and the warps of a block share
// the partial results of these columns; the first block also folds what becomes scalars.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

using Role = FusionDomain::Role;

static void finishScalars(KernelPlan &plan, GpuFunction &f, ArrayRef<int64_t> outputs) {
  int64_t threads = f.geometry.threads;
  auto fold = [&](Operation *op, const KernelPlan::Partial &partial) {
    auto reduction = plan.kernel.generic(op);
    int64_t rounds = ceilDivide(partial.count, threads);
    Value buffer = plan.buffer(f, partial);
    auto add = [&](Index round, GpuFunction::State &inside) {
      Value step = f.e.mul(round, threads);
      Value number = f.e.add(step, f.thread), guard = f.below(number, partial.count);
      Value next = f.combine(
          reduction, inside[0],
          f.e.load(buffer, partial.element, f.e.space.scalar(number, partial.count), nullptr));
      inside[0] = f.e.make<arith::SelectOp>(guard, next, inside[0]);
    };
    return f.foldGroup(reduction, f.reduceSteps(rounds, reduction, 1, false, add),
                       threads)[0];
  };
  for (auto &[op, partial] : plan.partials) {
    if (Role role = plan.domain.role(op->getResult(0)); role == Role::Col || role == Role::Part)
      continue;
    f.know(op, fold(op, partial));
  }
  f.when(f.isZero(f.thread), [&] {
    plan.store(f, plan.compute(f, outputs, compiler::atomPositions(f, Index::of(0), Index::of(0))));
  });
}

// How many warps share the partial results of the columns of one.
static int64_t sharingWarps(const KernelPlan &plan, int64_t width) {
  int64_t most = 1, laneBytes = 0, warps = 1;
  for (auto &[op, partial] : plan.partials)
    if (plan.domain.role(op->getResult(0)) == Role::Col) {
      most = std::max(most, partial.count);
      laneBytes += width * compiler::memoryBytes(partial.element);
    }
  auto fits = [&](int64_t warps) {
    return warps * kLeastPartsOfWarp <= most && warps * kWarp <= kMostFinishThreads &&
           warps * kWarp * laneBytes <= kSharedBytes;
  };
  while (fits(2 * warps))
    warps *= 2;
  return warps;
}

// The columns of the thread, the lane of a warp. Of several warps all threads of the block come
// here, and the first warp stores where `mine` holds.
static void finishColumns(KernelPlan &plan, GpuFunction &f, ArrayRef<int64_t> outputs,
                          const Index &vector, Value mine, int64_t warps, const Index &warp,
                          const Index &lane) {
  compiler::IndexSpace &space = f.e.space;
  Index position = f.vectorAt(vector);
  for (auto &[op, partial] : plan.partials) {
    if (plan.domain.role(op->getResult(0)) != Role::Col)
      continue;
    auto reduction = plan.kernel.generic(op);
    Value buffer = plan.buffer(f, partial);
    int64_t count = partial.count, each = ceilDivide(count, warps);
    Value first = f.e.scalarIndex(space.scale(warp, each));
    auto add = [&, &partial = partial](Index step, GpuFunction::State &total) {
      Value number = f.e.add(first, step), inside;
      if (each * warps != count)
        inside = f.below(number, count);
      Value part = f.e.load(
          buffer, partial.element,
          space.add(space.scale(space.scalar(number, count), partial.stride), position), nullptr);
      Value next = f.combine(reduction, total[0], part);
      total[0] = inside ? f.e.make<arith::SelectOp>(inside, next, total[0]) : next;
    };
    Value sum = f.reduceSteps(each, reduction, 1, f.e.width > 1, add)[0];
    if (warps > 1) {
      Value shared = f.shared(warps * kWarp * f.e.width, partial.element);
      auto place = [&](const Index &warp) {
        return f.vectorAt(space.add(space.scale(warp, kWarp), lane));
      };
      f.e.store(shared, sum, place(warp), nullptr);
      f.barrier();
      for (int64_t w = 0; w < warps; ++w) {
        Value part = f.e.load(shared, partial.element, place(Index::of(w)), nullptr);
        sum = w == 0 ? part : f.combine(reduction, sum, part);
      }
    }
    f.know(op, sum);
  }
  if (warps > 1)
    mine = f.e.make<arith::AndIOp>(mine, f.isZero(f.e.scalarIndex(warp)));
  f.when(mine, [&] {
    plan.store(f, plan.compute(f, outputs, compiler::atomPositions(f, Index::of(0), position)));
  });
}

// The sums of parts of rows, over the outer dims that they reduce: one thread for each.
static void finishParts(KernelPlan &plan, GpuFunction &f, ArrayRef<int64_t> outputs,
                        const Index &position) {
  const FusionDomain &domain = plan.domain;
  FusionDomain::Layout layout = domain.partialLayout(), added = domain.addedRows();
  SmallVector<Index> atoms(domain.atoms().size());
  auto place = [&](ArrayRef<int32_t> some, const Index &linear) {
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
      SmallVector<Index> digits;
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
    f.know(op, sum);
  }
  place(added, Index::of(0));
  plan.store(f, plan.compute(f, outputs, atoms));
}

LogicalResult scheduleFinish(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  kernel.info.finish = kernel.info.symbol + "_finish";
  SmallVector<int64_t> scalars,
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
  int64_t warps = plan.hasColumns && !columns.empty() ? sharingWarps(plan, width) : 1,
          lanes = warps == 1 ? kLoopThreads : kWarp; // of columns in a block
  geometry = {std::max<int64_t>(1, ceilDivide(vectors, lanes)), warps * lanes};
  GpuFunction f(kernel, kernel.info.finish, geometry, width);
  // What is read only now must not have been overwritten by the first launch.
  plan.trackOtherReads(f);
  if (!scalars.empty())
    f.when(geometry.blocks == 1 ? Value() : f.isZero(f.block),
           [&] { finishScalars(plan, f, scalars); });
  if (!columns.empty() && plan.hasParts) {
    Value vector = f.gridThread();
    f.when(f.lessThan(vector, vectors),
           [&] { finishParts(plan, f, columns, f.e.space.scalar(vector, vectors)); });
  } else if (!columns.empty()) {
    Index warp = Index::of(0), lane = f.threadIndex();
    if (warps > 1)
      std::tie(warp, lane) = f.e.space.divide(f.threadIndex(), kWarp);
    Value first = f.e.mul(f.block, lanes);
    Value vector = f.e.add(first, lane), mine = f.lessThan(vector, vectors);
    auto finish = [&](Value vector, Value mine) {
      finishColumns(plan, f, columns, f.e.space.scalar(vector, vectors), mine, warps, warp, lane);
    };
    if (warps == 1)
      f.when(mine, [&] { finish(vector, nullptr); });
    else // columns behind the end repeat the last one
      finish(f.e.minSigned(vector, vectors - 1), mine);
  }
  return f.finish();
}

} // namespace weft::backends::cuda

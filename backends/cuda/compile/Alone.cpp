// Ops with schedules of their own: scatters, scans, matmul (where no library takes it), and kernels
// without elements.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "compiler/codegen/Scan.h"
#include "compiler/codegen/Scatter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

static int64_t product(ArrayRef<int64_t> sizes) {
  return ShapedType::getNumElements(sizes);
}

// A thread has one place in the dims around the scattered one, and a range of targets in it. It
// copies the base there, then reads all indices in the source's order, some at a time, and adds or
// puts what is for its range: whoever writes an element does so alone, in a fixed order. Where the
// source's length varies, all threads read as many indices as the launch has pieces.
LogicalResult scheduleScatter(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  compiler::Scatter scatter(kernel, kernel.outputs.front().getDefiningOp());
  int64_t size = scatter.size, trail = scatter.trail, places = scatter.lead * trail;
  int64_t ranges = std::clamp<int64_t>(kScatterThreads / std::max<int64_t>(places, 1), 1,
                                       std::max<int64_t>(size, 1));
  int64_t perRange = ceilDivide(std::max<int64_t>(size, 1), ranges);
  ranges = ceilDivide(std::max<int64_t>(size, 1), perRange);
  int64_t count = product(scatter.to) == 0 ? 0 : places * ranges;
  geometry = gridOf(count, kLoopThreads);
  bool varies = kernel.sizes && scatter.dim == 0;
  if (varies) {
    geometry.count = scatter.steps;
    geometry.perBlock = kWholeGrid;
  }

  GpuFunction f(kernel, kernel.info.symbol, geometry, 1);
  compiler::IndexSpace &space = f.e.space;
  Value number = f.gridThread(), memory;
  Value all = varies ? f.e.scalar(f.count()) : f.e.constantIndex(scatter.steps);
  if (scatter.hasTotals(scatter.steps))
    memory = plan.buffer(f, plan.makePartial(f.builder.getF64Type(), product(scatter.to)));
  auto emit = [&](compiler::Scatter::Totals totals) {
    auto [outer, c] = space.divide(space.scalar(number, count),
                                   trail); // neighbouring threads, neighbouring columns
    auto [l, range] = space.divide(outer, ranges);
    auto leadAt = space.delinearize(l, scatter.leadTo),
         trailAt = space.delinearize(c, scatter.trailTo);
    auto element = [&, l = l, c = c](const Index &t) {
      return scatter.element(space, l, t, c);
    };
    Value first = f.e.scalarIndex(space.scale(range, perRange));
    Value end = f.e.minSigned(f.e.add(first, perRange), size);
    f.loop(first, end, size, [&](Index t) {
      Index at = element(t);
      Value there = f.e.at(scatter.base, space.delinearize(at, scatter.to));
      scatter.begin(f, totals, at, there, /*vector=*/false);
    });
    Value covered = scatter.covers(f.e, leadAt, scatter.leadFrom, scatter.leadTo);
    covered = scatter.covers(f.e, trailAt, scatter.trailFrom, scatter.trailTo, covered);
    f.when(covered, [&] {
      int64_t most = scatter.steps, together = std::clamp<int64_t>(most, 1, kIndicesTogether);
      Value rounds = f.e.divideUp(all, together);
      f.loop(0, rounds, ceilDivide(most, together), [&](Index round) {
        struct Reading {
          SmallVector<Index> at;
          Index target;
          Value mine;
        };
        SmallVector<Reading> readings;
        for (int64_t i = 0; i < together; ++i) {
          Index s = space.add(space.scale(round, together), Index::of(i));
          Value inside;
          if (varies || most % together) {
            // Behind the end the last one is looked at once more.
            Value raw = f.e.scalarIndex(s);
            inside = f.e.compare(arith::CmpIPredicate::slt, raw, all);
            s = space.scalar(f.e.minSigned(raw, f.e.sub(all, 1)), most);
          }
          Reading one{leadAt, Index::of(0), nullptr};
          one.at.append(space.delinearize(s, scatter.middle));
          one.at.append(trailAt);
          one.target = scatter.target(f.e, one.at);
          Value t = f.e.scalarIndex(one.target);
          one.mine = f.e.make<arith::AndIOp>(f.e.compare(arith::CmpIPredicate::sge, t, first),
                                             f.e.compare(arith::CmpIPredicate::slt, t, end));
          if (inside)
            one.mine = f.e.make<arith::AndIOp>(one.mine, inside);
          readings.push_back(std::move(one));
        }
        for (const Reading &one : readings)
          f.when(one.mine, [&] {
            auto place = element(one.target); // arguments have no order, and both emit
            scatter.meet(f, totals, place, f.e.at(scatter.source, one.at));
          });
      });
    });
    if (totals.memory)
      f.loop(first, end, size,
             [&](Index t) { scatter.end(f, totals, element(t), /*vector=*/false); });
  };
  // How many steps there are decides at run time whether they have totals, as it does elsewhere.
  Value hasTotals;
  if (varies && memory && !scatter.hasTotals(0))
    hasTotals = f.e.compare(arith::CmpIPredicate::uge, all, scatter.leastTotals());
  auto choose = [&] {
    f.when(hasTotals, [&] { emit({.memory = memory}); }, [&] { emit({}); });
  };
  if (count)
    f.when(varies ? f.lessThan(number, count) : f.isPiece(number), choose);
  return f.finish();
}

// A thread walks one line along the scanned dim and stores what the result is at each step.
// Neighbouring threads have neighbouring lines. Lines along the innermost dim are read with a
// stride between threads, which is slow.
LogicalResult scheduleScan(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  Operation *op = kernel.outputs.front().getDefiningOp();
  int64_t dim = cast<IntegerAttr>(op->getAttr("dim")).getInt();
  ArrayRef<int64_t> shape = compiler::shapeOf(op->getResult(0));
  int64_t count =
      shape[dim] == 0 ? 0 : product(shape.take_front(dim)) * product(shape.drop_front(dim + 1));
  geometry = gridOf(count, kLoopThreads);
  GpuFunction f(kernel, kernel.info.symbol, geometry, 1);
  compiler::Scan scan(f, op);
  compiler::IndexSpace &space = f.e.space;
  Value number = f.gridThread();
  if (count)
    f.when(f.isPiece(number), [&] {
      auto [lead, column] = space.divide(space.scalar(number, count), scan.trail);
      Index first = space.add(space.scale(lead, scan.size * scan.trail), column);
      auto at = [&](const Index &position) {
        return space.add(first, space.scale(position, scan.trail));
      };
      scan.walk(
          [&](const Index &position) {
            GpuFunction::State elements;
            for (Value source : scan.sources)
              elements.push_back(f.e.at(source, space.delinearize(at(position), shape)));
            return elements;
          },
          [&](const Index &position, Value value) {
            f.e.store(f.output(0), value, at(position), nullptr);
          });
    });
  return f.finish();
}

// A vector of a row of the result a thread, whose sums stay in registers; each adds its products in
// the order of reduceSteps.
LogicalResult scheduleMatmul(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  Operation *op = kernel.outputs.front().getDefiningOp();
  auto generic = kernel.generic(op);
  SmallVector<int64_t> loops = generic.getStaticLoopRanges();
  int64_t k = loops.pop_back_val();
  // Roles say nothing of such a kernel: the width is the result's.
  int64_t width = std::min(kMostProductWidth,
                           kAccessBytes / compiler::memoryBytes(plan.elementOf(op->getResult(0))));
  // Of a vector, elements are what varies.
  while (loops.back() % width || (kernel.sizes && loops.size() == 1 && width > 1))
    width /= 2;
  int64_t count = product(loops) / width;
  geometry = gridOf(count, kLoopThreads);
  GpuFunction f(kernel, kernel.info.symbol, geometry, width);
  compiler::IndexSpace &space = f.e.space;
  Value number = f.gridThread();
  if (count)
    f.when(f.isPiece(number), [&] {
      Index linear = f.vectorAt(space.scalar(number, count));
      SmallVector<Index> position = space.delinearize(linear, loops);
      position.emplace_back();
      auto sums =
          f.reduceSteps(k, generic, 1, width > 1, [&](Index depth, GpuFunction::State &inside) {
            position.back() = depth;
            inside[0] = f.accumulate(generic, position, inside[0], nullptr);
          });
      f.e.store(f.output(0), sums[0], linear, nullptr);
    });
  return f.finish();
}

// Reductions of nothing give their identity; whatever outputs have elements are computed from that,
// by one thread.
LogicalResult scheduleEmpty(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  int64_t most = 0;
  for (Value output : kernel.outputs)
    most = std::max(most, product(compiler::shapeOf(output)));
  geometry = gridOf(most, kLoopThreads);
  GpuFunction f(kernel, kernel.info.symbol, geometry, 1);
  for (Operation *op : kernel.ops)
    if (compiler::isReduction(op) && product(compiler::shapeOf(op->getResult(0))))
      f.know(op, f.identity(kernel.generic(op), false));
  Value number = f.gridThread();
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    int64_t n = product(compiler::shapeOf(output));
    if (n == 0)
      continue;
    f.when(f.lessThan(number, n), [&, i = i, output = output] {
      Index linear = f.e.space.scalar(number, n);
      f.e.store(f.output(i),
                f.e.at(kernel.lowered.lookup(output),
                       f.e.space.delinearize(linear, compiler::shapeOf(output))),
                linear, nullptr);
    });
  }
  return f.finish();
}

} // namespace weft::backends::cuda

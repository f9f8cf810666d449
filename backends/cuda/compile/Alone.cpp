// Ops with schedules of their own: scatters, scans, matmul (where no library takes it), and kernels
// without elements.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "compiler/codegen/Scan.h"
#include "dialects/weft/lowerings/LowerToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

static int64_t product(ArrayRef<int64_t> sizes) {
  return ShapedType::getNumElements(sizes);
}

// A thread has one place in the dims around the scattered one, and a range of targets in it. It
// copies the base there, then reads all indices in the source's order, some at a time, and adds (of
// index_put, puts) what is for its range: whoever writes an element does so alone, in a fixed order.
LogicalResult scheduleScatter(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  Operation *op = kernel.outputs.front().getDefiningOp();
  auto generic = kernel.generic(op);
  int64_t dim = generic->getAttrOfType<IntegerAttr>(ir::kScatterDim).getInt();
  Value base = generic.getDpsInits()[0], indices = generic.getDpsInputs()[0],
        source = generic.getDpsInputs()[1];
  ArrayRef<int64_t> to = plan.shapeOf(base), from = plan.shapeOf(source),
                    index = plan.shapeOf(indices);
  bool puts = isa<ir::IndexPutOp>(op), wholeSlices = puts || isa<ir::IndexAddOp>(op);
  int64_t taken = wholeSlices ? index.size() : 1; // source dims in place of the scattered one
  ArrayRef<int64_t> leadTo = to.take_front(dim), leadFrom = from.take_front(dim),
                    trailTo = to.drop_front(dim + 1), trailFrom = from.drop_front(dim + taken),
                    middle = from.slice(dim, taken);
  int64_t size = to[dim], trail = product(trailTo), places = product(leadTo) * trail;
  int64_t ranges = std::clamp<int64_t>(kScatterThreads / std::max<int64_t>(places, 1), 1,
                                       std::max<int64_t>(size, 1));
  int64_t perRange = ceilDivide(std::max<int64_t>(size, 1), ranges);
  ranges = ceilDivide(std::max<int64_t>(size, 1), perRange);
  int64_t count = product(to) == 0 ? 0 : places * ranges;
  geometry = gridOf(count, kLoopThreads);

  GpuFunction f(kernel, kernel.info.symbol, geometry, 1);
  compiler::IndexSpace &space = f.e.space;
  Value number = f.gridThread(), out = f.output(0), kept;
  // Totals of float32, or what those of float64 lose, for each element of the result.
  Type type = plan.elementOf(base), f64 = f.builder.getF64Type();
  bool isWide = type.isF32();
  if (compiler::scattersTotals(op, product(middle)))
    kept = plan.buffer(f, plan.makePartial(f64, product(to)));
  auto load = [&](Value memory, const Index &at) {
    return f.e.load(memory, memory == kept ? f64 : type, at, nullptr);
  };
  auto emit = [&] {
    auto [outer, c] = space.divide(space.scalar(number, count),
                                   trail); // neighbouring threads, neighbouring columns
    auto [l, range] = space.divide(outer, ranges);
    auto leadAt = space.delinearize(l, leadTo), trailAt = space.delinearize(c, trailTo);
    auto element = [&, l = l, c = c](const Index &t) {
      return space.add(space.add(space.scale(l, size * trail), space.scale(t, trail)), c);
    };
    Value first = f.e.scalarIndex(space.scale(range, perRange));
    Value end = f.e.make<arith::MinSIOp>(
        f.e.make<arith::AddIOp>(first, f.e.constantIndex(perRange)), f.e.constantIndex(size));
    f.loop(first, end, size, {}, [&](Index t, GpuFunction::State &) {
      Value there = f.e.at(base, space.delinearize(element(t), to));
      if (!kept || !isWide)
        f.e.store(out, there, element(t), nullptr);
      if (kept)
        f.e.store(kept,
                  isWide ? f.e.make<arith::ExtFOp>(f64, there)
                         : f.e.constant(f.builder.getF64FloatAttr(0)),
                  element(t), nullptr);
    });
    // In PyTorch's scatter_add the indices may cover a part of the other dims only.
    Value covered;
    auto within = [&](ArrayRef<Index> at, ArrayRef<int64_t> have, ArrayRef<int64_t> all) {
      for (auto [position, some, every] : llvm::zip(at, have, all)) {
        if (some == every)
          continue;
        Value inside = f.lessThan(f.e.scalarIndex(position), some);
        covered = covered ? f.e.make<arith::AndIOp>(covered, inside) : inside;
      }
    };
    within(leadAt, leadFrom, leadTo);
    within(trailAt, trailFrom, trailTo);
    f.when(covered, [&] {
      auto put = [&](ArrayRef<Index> at, const Index &place) {
        Value update = f.e.at(source, at);
        if (kept && isWide) {
          Value wide = f.e.make<arith::ExtFOp>(f64, update);
          return f.e.store(kept, f.sum(load(kept, place), wide), place, nullptr);
        }
        if (kept) {
          Value lost = load(kept, place);
          update = f.addKeeping(load(out, place), update, lost);
          f.e.store(kept, lost, place, nullptr);
        } else if (!puts) {
          update = compiler::combineScattered(f.e, op, load(out, place), update);
        }
        f.e.store(out, update, place, nullptr);
      };
      int64_t all = product(middle), together = std::clamp<int64_t>(all, 1, kIndicesTogether);
      f.loop(ceilDivide(all, together), {}, [&](Index round, GpuFunction::State &) {
        struct Reading {
          SmallVector<Index> at;
          Index target;
          Value mine;
        };
        SmallVector<Reading> readings;
        for (int64_t i = 0; i < together; ++i) {
          Index s = space.add(space.scale(round, together), Index::of(i));
          Value inside;
          if (all % together) {
            // Behind the end the last one is looked at once more.
            Value raw = f.e.scalarIndex(s);
            inside = f.lessThan(raw, all);
            s = space.scalar(f.e.make<arith::MinSIOp>(raw, f.e.constantIndex(all - 1)), all);
          }
          Reading one{leadAt, Index::of(0), nullptr};
          one.at.append(space.delinearize(s, middle));
          one.at.append(trailAt);
          SmallVector<Index> indexAt;
          for (size_t i = 0; i < index.size(); ++i)
            indexAt.push_back(one.at[wholeSlices ? dim + i : i]);
          one.target = f.e.checkedIndex(f.e.at(indices, indexAt), size);
          Value t = f.e.scalarIndex(one.target);
          one.mine =
              f.e.make<arith::AndIOp>(f.e.make<arith::CmpIOp>(arith::CmpIPredicate::sge, t, first),
                                      f.e.make<arith::CmpIOp>(arith::CmpIPredicate::slt, t, end));
          if (inside)
            one.mine = f.e.make<arith::AndIOp>(one.mine, inside);
          readings.push_back(std::move(one));
        }
        for (const Reading &one : readings)
          f.when(one.mine, [&] { put(one.at, element(one.target)); });
      });
    });
    if (kept)
      f.loop(first, end, size, {}, [&](Index t, GpuFunction::State &) {
        Value value = load(kept, element(t));
        f.e.store(out,
                  isWide ? f.e.make<arith::TruncFOp>(type, value)
                         : f.settle(load(out, element(t)), value),
                  element(t), nullptr);
      });
  };
  if (count)
    f.when(f.lessThan(number, count), emit);
  return f.finish();
}

// A thread walks one line along the scanned dim and stores what the result is at each step.
// Neighbouring threads have neighbouring lines. Lines along the innermost dim are read with a
// stride between threads, which is slow.
LogicalResult scheduleScan(KernelPlan &plan, Geometry &geometry) {
  KernelBuilder &kernel = plan.kernel;
  Operation *op = kernel.outputs.front().getDefiningOp();
  auto dim = kernel.generic(op)->getAttrOfType<IntegerAttr>(ir::kScanDim).getInt();
  ArrayRef<int64_t> shape = plan.shapeOf(op->getResult(0));
  int64_t count =
      shape[dim] == 0 ? 0 : product(shape.take_front(dim)) * product(shape.drop_front(dim + 1));
  geometry = gridOf(count, kLoopThreads);
  GpuFunction f(kernel, kernel.info.symbol, geometry, 1);
  compiler::Scan scan(f, op);
  compiler::IndexSpace &space = f.e.space;
  Value number = f.gridThread();
  if (count)
    f.when(f.lessThan(number, count), [&] {
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
  int64_t width =
      std::min(kMostProductWidth,
               kAccessBytes / compiler::memoryBytes(plan.elementOf(op->getResult(0))));
  while (loops.back() % width)
    width /= 2;
  int64_t count = product(loops) / width;
  geometry = gridOf(count, kLoopThreads);
  GpuFunction f(kernel, kernel.info.symbol, geometry, width);
  compiler::IndexSpace &space = f.e.space;
  Value number = f.gridThread();
  if (count)
    f.when(f.lessThan(number, count), [&] {
      Index linear = f.vectorAt(space.scalar(number, count));
      SmallVector<Index> position = space.delinearize(linear, loops);
      position.emplace_back();
      auto sums =
          f.reduceSteps(k, generic, 1, width > 1, [&](Index depth, GpuFunction::State &inside) {
            position.back() = depth;
            inside[0] = f.accumulateWhere(nullptr, generic, position, inside[0]);
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
    most = std::max(most, product(plan.shapeOf(output)));
  geometry = gridOf(most, kLoopThreads);
  GpuFunction f(kernel, kernel.info.symbol, geometry, 1);
  for (Operation *op : kernel.ops)
    if (compiler::isReduction(op) && product(plan.shapeOf(op->getResult(0))))
      f.e.setKnown(kernel.generic(op).getResult(0),
                   [&f, generic = kernel.generic(op)](ArrayRef<Index>, Value) {
                     return f.identity(generic, false);
                   });
  Value number = f.gridThread();
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    int64_t n = product(plan.shapeOf(output));
    if (n == 0)
      continue;
    f.when(f.lessThan(number, n), [&, i = i, output = output] {
      Index linear = f.e.space.scalar(number, n);
      f.e.store(f.output(i),
                f.e.at(kernel.lowered.lookup(output),
                       f.e.space.delinearize(linear, plan.shapeOf(output))),
                linear, nullptr);
    });
  }
  return f.finish();
}

} // namespace weft::backends::cuda

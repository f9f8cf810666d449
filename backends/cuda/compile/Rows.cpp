// Kernels with reductions over rows' elements (softmax, layer_norm, their gradients), with or
// without reductions over the rows beside them.
//
// A group of threads, part of a block or a whole one, takes a row; its threads take every
// group-size-th vector. Up to kMostUnits vectors a thread stay in registers through all sweeps;
// longer rows are read again by each sweep. Reductions over the rows go chunk by chunk: a group
// walks the rows of its chunk and adds them up, and leaves a partial result. Reductions of parts of
// rows leave one for each part.
#include "backends/cuda/compile/KernelPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

namespace arith = mlir::arith;
using mlir::Operation;
using mlir::Value;

// Vectors of a row that one thread keeps: 16 registers a value of 4 bytes.
static constexpr int64_t kMostUnits = 4;
// Threads of a group. More would leave each fewer than 128 registers.
static constexpr int64_t kMostThreads = 512;
// Groups of one warp in a block: a multiprocessor holds fewer blocks than warps.
static constexpr int64_t kWarpsPerBlock = 4;
// Chunks of rows of a reduction over the rows: about two for each multiprocessor of the largest
// GPU.
static constexpr int64_t kMostChunks = 256;

namespace {

struct RowSchedule {
  RowSchedule(KernelPlan &plan, Geometry &geometry)
      : plan(plan), rows(plan.domain.rows()), n(plan.domain.rowSize()),
        width(plan.widthOf(plan.hasParts ? plan.domain.partRun() : plan.domain.runSize())),
        vectors(n / width) {
    while (threads < kMostThreads && threads * kMostUnits < vectors)
      threads *= 2;
    units = ceilDivide(vectors, threads);
    groups = threads == kWarp ? kWarpsPerBlock : 1;
    chunkRows = plan.hasColumns ? ceilDivide(rows, std::min(rows, kMostChunks)) : 1;
    workers = ceilDivide(rows, chunkRows);
    geometry = {ceilDivide(workers, groups), threads * groups};
    for (const Sweep &sweep : plan.sweeps) {
      for (Operation *op : sweep.columns) {
        plan.addPartial(op, plan.elementOf(op->getResult(0)), workers, compiler::roundUp(n, 16));
        columns.push_back(op);
      }
      for (Operation *op : sweep.rowTotals)
        plan.addPartial(op, plan.elementOf(op->getOperand(0)), rows);
      for (Operation *op : sweep.parts)
        plan.addPartial(op, plan.elementOf(op->getResult(0)), rows, n / plan.domain.partRun());
    }
  }

  KernelPlan &plan;
  int64_t rows, n, width, vectors;
  int64_t threads = kWarp, units = 1, groups = 1; // in a group; vectors a thread; in a block
  int64_t chunkRows = 1, workers = 1;
  llvm::SmallVector<Operation *> columns;
  Value member; // of the thread in its group

  bool inRegisters() const {
    return units <= kMostUnits;
  }

  // A vector of a row, and which threads have it.
  struct Unit {
    Index position;
    Value guard; // null: all
  };
  Unit unit(GpuFunction &f, Value number, bool all) {
    compiler::IndexSpace &space = f.e.space;
    Value guard;
    if (!all) {
      guard = f.lessThan(number, vectors);
      // The others look at the last vector, and what they find is dropped.
      number = f.e.make<arith::MinSIOp>(number, f.e.constantIndex(vectors - 1));
    }
    Index at = space.scale(space.scalar(number, vectors), width);
    return {width == 1 ? at : space.add(at, space.lane(width)), guard};
  }

  using State = GpuFunction::State;
  // emit(units, state) for all vectors of the thread, those in registers at once.
  State each(GpuFunction &f, State state,
             llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit) {
    if (inRegisters()) {
      llvm::SmallVector<Unit> all;
      for (int64_t u = 0; u < units; ++u)
        all.push_back(unit(f, f.e.make<arith::AddIOp>(member, f.e.constantIndex(u * threads)),
                           (u + 1) * threads <= vectors));
      emit(all, state);
      return state;
    }
    return f.loop(units, state, [&](Index round, State &inside) {
      Value first = f.e.make<arith::MulIOp>(f.e.scalarIndex(round), f.e.constantIndex(threads));
      emit(unit(f, f.e.make<arith::AddIOp>(first, member), vectors % threads == 0), inside);
    });
  }

  Index columnAt(GpuFunction &f, const Index &worker, const KernelPlan::Partial &partial,
                 const Index &position) {
    return f.e.space.add(f.e.space.scale(worker, partial.stride), position);
  }

  void storeRows(GpuFunction &f, const Sweep &sweep, const Index &row) {
    if (sweep.rowStores.empty() && sweep.rowTotals.empty())
      return;
    plan.trackReads(f, 0, nullptr);
    f.when(f.isZero(member), [&] {
      auto atoms = compiler::atomPositions(f, row, Index::of(0));
      plan.store(f, plan.compute(f, sweep.rowStores, atoms));
      for (Operation *op : sweep.rowTotals) {
        Value value = f.e.at(plan.kernel.lowered.lookup(op->getOperand(0)),
                             f.position(op->getOperand(0), atoms));
        f.e.store(plan.buffer(f, plan.partials[op]), value, row, nullptr);
      }
    });
  }

  // One sweep over one row. `sums`: what reductions over the rows have added up so far, a vector
  // for each of them and each unit.
  void sweepRow(GpuFunction &f, int64_t level, const Index &row, const Index &worker, State &sums) {
    const Sweep &sweep = plan.sweeps[level];
    storeRows(f, sweep, row);
    // Before the stores: an output may take an input's buffer.
    if (!sweep.parts.empty())
      foldParts(f, sweep, level, row);
    if (sweep.reductions.empty() && sweep.columns.empty() && sweep.stores.empty())
      return;
    auto reductions = plan.generics(sweep.reductions);
    State slots;
    for (auto reduction : reductions)
      slots.push_back(f.identityOf(reduction));
    slots = each(f, slots, [&](llvm::ArrayRef<Unit> all, State &inside) {
      llvm::SmallVector<llvm::SmallVector<KernelPlan::Store>> stores;
      for (auto [u, unit] : llvm::enumerate(all)) {
        auto atoms = compiler::atomPositions(f, row, unit.position);
        plan.trackReads(f, level, &atoms);
        for (auto [i, op] : llvm::enumerate(sweep.reductions))
          inside[i] = f.accumulateWhere(unit.guard, reductions[i],
                                        f.position(op->getOperand(0), atoms), inside[i]);
        for (Operation *op : sweep.columns) {
          auto reduction = plan.kernel.generic(op);
          auto position = f.position(op->getOperand(0), atoms);
          if (inRegisters()) {
            Value &sum = sums[(llvm::find(columns, op) - columns.begin()) * units + u];
            sum = f.accumulateWhere(unit.guard, reduction, position, sum);
            continue;
          }
          const KernelPlan::Partial &partial = plan.partials[op];
          Value buffer = plan.buffer(f, partial);
          Index at = columnAt(f, worker, partial, unit.position);
          Value sum = f.accumulateWhere(unit.guard, reduction, position,
                                        f.e.load(buffer, partial.element, at, nullptr));
          f.when(unit.guard, [&] { f.e.store(buffer, sum, at, nullptr); });
        }
        f.setGuard(unit.guard);
        stores.push_back(plan.compute(f, sweep.stores, atoms));
        f.setGuard(nullptr);
      }
      for (auto [unit, values] : llvm::zip(all, stores))
        f.when(unit.guard, [&, &values = values] { plan.store(f, values); });
    });
    auto results = f.foldGroup(reductions, slots, threads);
    for (auto [op, sum] : llvm::zip(sweep.reductions, results)) {
      auto here = f.position(op->getResult(0), compiler::atomPositions(f, row, Index::of(0)));
      f.e.setKnown(plan.kernel.lowered.lookup(op->getResult(0)),
                   [&f, here, sum = sum](llvm::ArrayRef<Index> position, Value) -> Value {
                     if (position != llvm::ArrayRef(here))
                       f.e.fail("a row's sum is read from another row");
                     return sum;
                   });
    }
  }

  // Reductions of parts of rows: run by run, each folded by all threads of the group to one partial
  // result.
  void foldParts(GpuFunction &f, const Sweep &sweep, int64_t level, const Index &row) {
    auto reductions = plan.generics(sweep.parts);
    int64_t run = plan.domain.partRun(), parts = n / run, inRun = run / width;
    f.loop(parts, {}, [&](Index part, State &) {
      State slots;
      for (auto reduction : reductions)
        slots.push_back(f.identityOf(reduction));
      slots = f.loop(ceilDivide(inRun, threads), slots, [&](Index round, State &inside) {
        Value first = f.e.make<arith::MulIOp>(f.e.scalarIndex(round), f.e.constantIndex(threads));
        Value number = f.e.make<arith::AddIOp>(first, member),
              guard = inRun % threads ? f.lessThan(number, inRun) : Value();
        if (guard)
          number = f.e.make<arith::MinSIOp>(number, f.e.constantIndex(inRun - 1));
        compiler::IndexSpace &space = f.e.space;
        Index at =
            space.add(space.scale(part, run), space.scale(space.scalar(number, inRun), width));
        auto atoms =
            compiler::atomPositions(f, row, width == 1 ? at : space.add(at, space.lane(width)));
        plan.trackReads(f, level, &atoms);
        for (auto [i, op] : llvm::enumerate(sweep.parts))
          inside[i] = f.accumulateWhere(guard, reductions[i], f.position(op->getOperand(0), atoms),
                                        inside[i]);
      });
      auto sums = f.foldGroup(reductions, slots, threads);
      f.when(f.isZero(member), [&] {
        Index at = f.e.space.add(f.e.space.scale(row, parts), part);
        for (auto [op, sum] : llvm::zip(sweep.parts, sums))
          f.e.store(plan.buffer(f, plan.partials[op]), sum, at, nullptr);
      });
    });
  }

  void row(GpuFunction &f, const Index &row, const Index &worker, State &sums) {
    // The row's dims, computed where all sweeps see them.
    for (const Index &atom : compiler::atomPositions(f, row, Index::of(0)))
      (void)f.e.scalarIndex(atom);
    for (size_t level = 0; level < plan.sweeps.size(); ++level)
      sweepRow(f, level, row, worker, sums);
    storeNear(f, row);
  }

  // Outputs that are slices of the row, whose sums are known by now: one element a thread.
  void storeNear(GpuFunction &f, const Index &row) {
    if (plan.nearStores.empty())
      return;
    llvm::ArrayRef<int32_t> near = plan.domain.near();
    int64_t count = plan.domain.positions(near);
    plan.trackReads(f, 0, nullptr);
    int64_t width = std::exchange(f.e.width, 1);
    f.loop(ceilDivide(count, threads), {}, [&](Index round, State &) {
      Value first = f.e.make<arith::MulIOp>(f.e.scalarIndex(round), f.e.constantIndex(threads));
      Value number = f.e.make<arith::AddIOp>(first, member);
      f.when(count % threads ? f.lessThan(number, count) : Value(), [&] {
        auto atoms = compiler::atomPositions(f, row, Index::of(0));
        compiler::placeAtoms(f.e.space, plan.domain, atoms, near, f.e.space.scalar(number, count));
        plan.store(f, plan.compute(f, plan.nearStores, atoms));
      });
    });
    f.e.width = width;
  }

  // All rows of a chunk; then the partial results.
  void chunk(GpuFunction &f, const Index &worker) {
    if (!inRegisters())
      each(f, {}, [&](llvm::ArrayRef<Unit> all, State &) {
        for (Operation *op : columns)
          for (const Unit &unit : all)
            f.when(unit.guard, [&] {
              f.e.store(plan.buffer(f, plan.partials[op]), f.identityOf(plan.kernel.generic(op)),
                        columnAt(f, worker, plan.partials[op], unit.position), nullptr);
            });
      });
    State sums;
    if (inRegisters())
      for (Operation *op : columns)
        sums.append(units, f.identityOf(plan.kernel.generic(op)));
    Value first = f.e.scalarIndex(f.e.space.scale(worker, chunkRows));
    Value bound = f.e.make<arith::MinSIOp>(
        f.e.make<arith::AddIOp>(first, f.e.constantIndex(chunkRows)), f.e.constantIndex(rows));
    sums = f.loop(first, bound, rows, sums,
                  [&](Index at, State &inside) { row(f, at, worker, inside); });
    if (!inRegisters())
      return;
    each(f, {}, [&](llvm::ArrayRef<Unit> all, State &) {
      for (auto [i, op] : llvm::enumerate(columns))
        for (auto [u, unit] : llvm::enumerate(all))
          f.when(unit.guard, [&, i = i, op = op, u = u, &unit = unit] {
            f.e.store(plan.buffer(f, plan.partials[op]), sums[i * units + u],
                      columnAt(f, worker, plan.partials[op], unit.position), nullptr);
          });
    });
  }
};

} // namespace

mlir::LogicalResult scheduleRows(KernelPlan &plan, Geometry &geometry) {
  RowSchedule rows(plan, geometry);
  GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, rows.width);
  Value group = f.block;
  rows.member = f.thread;
  if (rows.groups > 1) {
    auto [warp, lane] = f.e.space.divide(f.threadIndex(), kWarp);
    rows.member = f.e.scalarIndex(lane);
    Value first = f.e.make<arith::MulIOp>(f.block, f.e.constantIndex(rows.groups));
    group = f.e.make<arith::AddIOp>(first, f.e.scalarIndex(warp));
  }
  f.when(rows.workers % rows.groups ? f.lessThan(group, rows.workers) : Value(), [&] {
    Index worker = f.e.space.scalar(group, rows.workers);
    GpuFunction::State none;
    if (plan.hasColumns)
      rows.chunk(f, worker);
    else
      rows.row(f, worker, worker, none);
  });
  plan.noteInPlace();
  return f.finish();
}

} // namespace weft::backends::cuda

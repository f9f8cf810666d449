// Kernels with reductions over rows' elements (softmax, layer_norm, their gradients), with or
// without reductions over the rows beside them.
//
// A group of threads, part of a block or a whole one, takes a row; its threads take every
// group-size-th vector. Of rows that lie side by side each thread takes one. Some vectors a thread
// (mostUnits) stay in registers through all sweeps; longer rows are read again by each sweep.
// Reductions over the rows go chunk by chunk: a group walks the rows of its chunk and adds them up,
// and leaves a partial result. Reductions of parts of rows leave one for each part.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

struct RowSchedule {
  RowSchedule(KernelPlan &plan, Geometry &geometry)
      : plan(plan), rows(plan.domain.rows()), n(plan.domain.rowSize()),
        width(plan.widthOf(plan.hasParts ? plan.domain.partRun() : plan.domain.runSize())),
        vectors(n / width), mostUnits(std::min(kMostUnits, kMostRowElements / width)) {
    // Rows that lie side by side take a thread each, so that neighbours read a line together.
    if (plan.domain.lanes() >= 0)
      threads = 1, groups = kWarp * kWarpsPerBlock;
    else
      while (threads < kMostRowThreads && threads * mostUnits < vectors)
        threads *= 2;
    units = ceilDivide(vectors, threads);
    if (threads == kWarp)
      groups = kWarpsPerBlock;
    chunkRows = plan.hasColumns ? ceilDivide(rows, std::min(rows, kMostRowChunks)) : 1;
    workers = ceilDivide(rows, chunkRows);
    geometry = Geometry::of(workers, groups, threads * groups);
    for (const compiler::Sweep &sweep : plan.sweeps) {
      for (Operation *op : sweep.columns) {
        Type element = plan.elementOf(op->getResult(0));
        int64_t stride = compiler::roundUp(n, kPartialUnit);
        plan.addPartial(op, element, workers, stride);
        columns.push_back(op);
        for (KernelPlan::Partial &total : totals[op])
          if (inBlocks())
            total = plan.makePartial(Float64Type::get(element.getContext()), workers, stride);
      }
      for (Operation *op : sweep.rowTotals)
        plan.addPartial(op, plan.elementOf(op->getOperand(0)), rows);
      for (Operation *op : sweep.parts)
        plan.addPartial(op, plan.elementOf(op->getResult(0)), rows, n / plan.domain.partRun());
    }
  }

  KernelPlan &plan;
  int64_t rows, n, width, vectors;
  int64_t mostUnits;                              // in registers
  int64_t threads = kWarp, units = 1, groups = 1; // in a group; vectors a thread; in a block
  int64_t chunkRows = 1, workers = 1;
  SmallVector<Operation *> columns;
  Value member; // of the thread in its group

  // Totals of what rows add up in memory, where their columns are too many for registers and they
  // are too many for one accumulator (KernelFunction::noTotals).
  DenseMap<Operation *, std::array<KernelPlan::Partial, 2>> totals;

  bool inRegisters() const {
    return units <= mostUnits;
  }
  bool inBlocks() const {
    return !inRegisters() && chunkRows > compiler::kChain;
  }

  // A vector of a row, and which threads have it.
  struct Unit {
    Index position;
    Value guard; // null: all
  };
  Unit unit(GpuFunction &f, Value number, bool all) {
    Value guard;
    if (!all)
      guard = f.below(number, vectors);
    return {f.vectorAt(f.e.space.scalar(number, vectors)), guard};
  }

  using State = GpuFunction::State;
  // emit(units, state) for all vectors of the thread, those in registers at once; the state is an
  // accumulator for each of `reductions`.
  State each(GpuFunction &f, ArrayRef<linalg::GenericOp> reductions,
             function_ref<void(ArrayRef<Unit>, State &)> emit) {
    if (inRegisters()) {
      State state;
      for (auto reduction : reductions)
        state.push_back(f.identityOf(reduction));
      SmallVector<Unit> all;
      for (int64_t u = 0; u < units; ++u)
        all.push_back(unit(f, f.e.add(member, u * threads), (u + 1) * threads <= vectors));
      emit(all, state);
      return state;
    }
    return f.reduceSteps(units, reductions, 1, width > 1, [&](Index round, State &inside) {
      Value first = f.e.mul(round, threads);
      emit(unit(f, f.e.add(first, member), vectors % threads == 0), inside);
    });
  }

  Value loadColumn(GpuFunction &f, const Index &worker, const KernelPlan::Partial &partial,
                   const Index &position) {
    auto [memory, at] = plan.placeIn(f, partial, worker, position);
    return f.e.load(memory, partial.element, at, nullptr);
  }
  void storeColumn(GpuFunction &f, const Index &worker, const KernelPlan::Partial &partial,
                   const Unit &unit, Value value) {
    f.when(unit.guard, [&] {
      auto [memory, at] = plan.placeIn(f, partial, worker, unit.position);
      f.e.store(memory, value, at, nullptr);
    });
  }
  // Where sums of columns are that do not fit into registers: in the worker's partial results.
  struct ColumnCells {
    RowSchedule &rows;
    GpuFunction &f;
    const Index &worker;

    Value load(Operation *op, size_t number, Type element, const Unit &unit) {
      return rows.loadColumn(f, worker, partialOf(op, number, element), unit.position);
    }
    void store(Operation *op, size_t number, Value value, const Unit &unit) {
      rows.storeColumn(f, worker, partialOf(op, number, getElementTypeOrSelf(value.getType())),
                       unit, value);
    }

  private:
    KernelPlan::Partial partialOf(Operation *op, size_t number, Type element) {
      KernelPlan::Partial partial =
          number == 0 ? rows.plan.partials[op] : rows.totals[op][number - 1];
      partial.element = element;
      return partial;
    }
  };

  void storeRows(GpuFunction &f, const compiler::Sweep &sweep, const Index &row) {
    if (sweep.rowStores.empty() && sweep.rowTotals.empty())
      return;
    plan.trackOtherReads(f);
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
    const compiler::Sweep &sweep = plan.sweeps[level];
    storeRows(f, sweep, row);
    // Before the stores: an output may take an input's buffer.
    if (!sweep.parts.empty())
      foldParts(f, sweep, level, row);
    if (sweep.reductions.empty() && sweep.columns.empty() && sweep.stores.empty())
      return;
    auto reductions = plan.generics(sweep.reductions);
    State slots = each(f, reductions, [&](ArrayRef<Unit> all, State &inside) {
      SmallVector<SmallVector<KernelPlan::Stored, 1>> stores;
      for (auto [u, unit] : llvm::enumerate(all)) {
        auto atoms = compiler::atomPositions(f, row, unit.position);
        plan.trackReads(f, level, atoms);
        f.accumulateAll(sweep.reductions, atoms, inside, 0, 1, unit.guard);
        for (Operation *op : sweep.columns) {
          auto reduction = plan.kernel.generic(op);
          auto position = f.position(op->getOperand(0), atoms);
          if (inRegisters()) {
            Value &sum = sums[(llvm::find(columns, op) - columns.begin()) * units + u];
            sum = f.accumulate(reduction, position, sum, unit.guard);
            continue;
          }
          const KernelPlan::Partial &partial = plan.partials[op];
          storeColumn(f, worker, partial, unit,
                      f.accumulate(reduction, position,
                                   loadColumn(f, worker, partial, unit.position), unit.guard));
        }
        f.setGuard(unit.guard);
        stores.push_back(plan.compute(f, sweep.stores, atoms));
        f.setGuard(nullptr);
      }
      for (auto [unit, values] : llvm::zip(all, stores))
        f.when(unit.guard, [&, &values = values] { plan.store(f, values); });
    });
    auto results = f.foldGroup(reductions, slots, threads);
    for (auto [op, sum] : llvm::zip(sweep.reductions, results))
      f.know(op, compiler::atomPositions(f, row, Index::of(0)), [sum = sum] { return sum; });
  }

  // Reductions of parts of rows: run by run, each folded by all threads of the group to one partial
  // result.
  void foldParts(GpuFunction &f, const compiler::Sweep &sweep, int64_t level, const Index &row) {
    auto reductions = plan.generics(sweep.parts);
    int64_t run = plan.domain.partRun(), parts = n / run, inRun = run / width;
    f.loop(parts, [&](Index part) {
      auto step = [&](Index round, State &inside) {
        Value first = f.e.mul(round, threads);
        Value number = f.e.add(first, member),
              guard = inRun % threads ? f.below(number, inRun) : Value();
        compiler::IndexSpace &space = f.e.space;
        Index at =
            space.add(space.scale(part, run), space.scale(space.scalar(number, inRun), width));
        auto atoms =
            compiler::atomPositions(f, row, width == 1 ? at : space.add(at, space.lane(width)));
        plan.trackReads(f, level, atoms);
        f.accumulateAll(sweep.parts, atoms, inside, 0, 1, guard);
      };
      auto sums = f.foldGroup(
          reductions, f.reduceSteps(ceilDivide(inRun, threads), reductions, 1, width > 1, step),
          threads);
      f.when(f.isZero(member), [&] {
        for (auto [op, sum] : llvm::zip(sweep.parts, sums)) {
          auto [memory, at] = plan.placeIn(f, plan.partials[op], row, part);
          f.e.store(memory, sum, at, nullptr);
        }
      });
    });
  }

  void row(GpuFunction &f, const Index &row, const Index &worker, State &sums) {
    compiler::emitRowDims(f, row);
    for (size_t level = 0; level < plan.sweeps.size(); ++level)
      sweepRow(f, level, row, worker, sums);
    storeNear(f, row);
  }

  // Outputs that are slices of the row, whose sums are known by now: one element a thread.
  void storeNear(GpuFunction &f, const Index &row) {
    if (plan.nearStores.empty())
      return;
    ArrayRef<int32_t> near = plan.domain.near();
    int64_t count = plan.domain.positions(near);
    plan.trackOtherReads(f);
    int64_t width = std::exchange(f.e.width, 1);
    f.loop(ceilDivide(count, threads), [&](Index round) {
      Value first = f.e.mul(round, threads);
      Value number = f.e.add(first, member);
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
    Value first = f.e.scalarIndex(f.e.space.scale(worker, chunkRows));
    Value bound = f.e.minSigned(f.e.add(first, chunkRows), rows);
    if (!inRegisters())
      return chunkInMemory(f, worker, first, bound);
    State sums =
        f.reduceSteps(first, bound, rows, chunkRows, plan.generics(columns), units, width > 1,
                      [&](Index at, State &inside) { row(f, at, worker, inside); });
    each(f, {}, [&](ArrayRef<Unit> all, State &) {
      for (auto [i, op] : llvm::enumerate(columns))
        for (auto [u, unit] : llvm::enumerate(all))
          storeColumn(f, worker, plan.partials[op], unit, sums[i * units + u]);
    });
  }

  // The same where rows are added up in memory.
  void chunkInMemory(GpuFunction &f, const Index &worker, Value first, Value bound) {
    compiler::SumsInMemory sums{f, ColumnCells{*this, f, worker}, inBlocks()};
    auto eachColumn = [&](function_ref<void(Operation *, const Unit &)> emit) {
      each(f, {}, [&](ArrayRef<Unit> all, State &) {
        for (Operation *op : columns)
          for (const Unit &unit : all)
            emit(op, unit);
      });
    };
    eachColumn([&](Operation *op, const Unit &unit) { sums.start(op, unit); });
    State none;
    auto sweep = [&](Value from, Value to) {
      f.loop(from, to, rows, [&](Index at) { row(f, at, worker, none); });
    };
    if (!inBlocks())
      return sweep(first, bound);
    Value size = f.e.constantIndex(compiler::kChain);
    f.loop(ceilDivide(chunkRows, compiler::kChain), [&](Index number) {
      Value from = f.e.add(first, f.e.space.scale(number, compiler::kChain)),
            to = f.e.minSigned(f.e.add(from, size), bound);
      sweep(from, to);
      eachColumn([&](Operation *op, const Unit &unit) { sums.endChain(op, unit); });
    });
    eachColumn([&](Operation *op, const Unit &unit) { sums.finish(op, unit); });
  }
};

} // namespace

LogicalResult scheduleRows(KernelPlan &plan, Geometry &geometry) {
  RowSchedule rows(plan, geometry);
  GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, rows.width);
  Value group = f.block;
  rows.member = f.thread;
  if (rows.groups > 1) {
    auto [number, member] = f.e.space.divide(f.threadIndex(), rows.threads);
    rows.member = f.e.scalarIndex(member);
    Value first = f.e.mul(f.block, rows.groups);
    group = f.e.add(first, number);
  }
  f.when(f.isPiece(group), [&] {
    Index worker = f.e.space.scalar(group, rows.workers);
    GpuFunction::State none;
    if (plan.hasColumns)
      rows.chunk(f, worker);
    else
      rows.row(f, worker, worker, none);
  });
  return f.finish();
}

} // namespace weft::backends::cuda

// Reductions over dims that are neither the inner nor the outer ones: over middle dims ([B, T, C]
// -> [B, C]) or over several groups ([N, C, H, W] -> [C]), with the elementwise ops that feed them
// and that follow on their results.
//
// Kept dims run in parallel. Where the innermost dim is kept, vectors lie along it and the reduced
// dims are walked one by one; where it is reduced, its run is folded as a row is, and the outer
// reduced dims add up such rows. Inputs that lie along the reduced dim where vectors lie across it
// (images whose channels were moved last) are read as they lie, chain by chain, and turned into
// scratch: each lane of a vector would else be gathered from a line of its own.
#include "compiler/codegen/Schedule.h"

#include "compiler/codegen/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

using namespace mlir;

namespace {

struct NestSchedule {
  NestSchedule(KernelBuilder &kernel, KernelFunction &f) : kernel(kernel), f(f) {
    for (Operation *op : kernel.ops)
      if (isReduction(op)) {
        ops.push_back(op);
        reductions.push_back(kernel.generic(op));
      }
  }

  KernelBuilder &kernel;
  KernelFunction &f;
  SmallVector<Operation *> ops;
  SmallVector<linalg::GenericOp> reductions;

  void place(MutableArrayRef<Index> atoms, ArrayRef<int32_t> some, const Index &linear) {
    placeAtoms(f.e.space, kernel.domain, atoms, some, linear);
  }
  // The kernel's outputs where the kept atoms are at `atoms`, whose reductions gave `sums`.
  void store(ArrayRef<Index> atoms, ArrayRef<Value> sums, Value mask) {
    for (auto [op, sum] : llvm::zip(ops, sums))
      f.know(op, atoms, [sum = sum] { return sum; });
    for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
      Value value = f.e.at(kernel.lowered.lookup(output), f.position(output, atoms), mask);
      f.e.store(f.output(i), value, f.placeOf(output, atoms), mask);
    }
  }

  // An input that is turned: its tile in scratch has the steps of a chain, one a row.
  struct Turned {
    BlockArgument argument;
    Value scratch;
  };
  SmallVector<Turned, 1> turnedInputs(int64_t width) {
    SmallVector<Turned, 1> inputs;
    for (BlockArgument argument : kernel.arguments()) {
      const FusionDomain::Layout *layout = kernel.domain.layout(argument);
      if (kernel.sizes || !layout || kernel.domain.role(argument) != FusionDomain::Role::Full ||
          !kernel.domain.liesAcrossNest(*layout))
        continue;
      Type element = storedIn(argument);
      int64_t count = kChain * width;
      inputs.push_back(
          {argument, f.scratch(kernel.claimScratch(count * memoryBytes(element)), count, element)});
    }
    return inputs;
  }
  static Type storedIn(Value value) {
    return memoryType(getElementTypeOrSelf(value.getType()));
  }

  // The steps of the chain that begins at `from`, of `count` lanes from `first` on, into the
  // scratch of a turned input, `width` elements a step. `atoms` places the others.
  void turn(const Turned &input, ArrayRef<Index> given, int32_t lanes, Value from,
            const Index &first, int64_t count, int64_t width) {
    IndexSpace &space = f.e.space;
    SmallVector<Index> atoms(given);
    Type element = storedIn(input.argument);
    unsigned number = input.argument.getArgNumber();
    int32_t along = kernel.domain.inner().front();
    int64_t steps = kernel.domain.atoms()[along];
    // The last chain may be a part of one; beyond it nothing is read.
    Index begin = space.scalar(from, std::max<int64_t>(steps - kChain + 1, 1));
    f.loop(kChain / kLanes, [&](Index tile) {
      Index below = space.scale(tile, kLanes), step = space.add(begin, below);
      Value mask;
      if (steps % kChain)
        mask = f.e.tailMask(f.e.sub(steps, step));
      f.blocks(count, kLanes, [&](const Index &beside, int64_t some) {
        SmallVector<Value> lines;
        for (int64_t lane = 0; lane < some; ++lane) {
          atoms[lanes] = space.add(space.add(first, beside), lane);
          atoms[along] = space.add(step, space.lane(kLanes));
          Index place = f.placeOf(input.argument, atoms);
          // No machine's own prefetcher follows as many lines as a tile has.
          f.e.prefetchLine(f.function.getArgument(number),
                           space.add(space.splitLanes(place).first, kTurnedAhead * kLanes), false);
          lines.push_back(
              f.e.broadcast(f.e.load(f.function.getArgument(number), element, place, mask)));
        }
        // Lanes that do not exist are padding.
        lines.resize(kLanes, lines.front());
        transposeLanes(f.e, lines);
        for (int64_t row = 0; row < kLanes; ++row)
          f.e.store(input.scratch, lines[row],
                    space.add(space.add(space.scale(space.add(below, row), width), beside),
                              space.lane(kLanes)),
                    nullptr);
      });
    });
  }

  // What a turned input is at a step of the chain that begins at `from`, in the lanes of a vector
  // that are `beside` behind the first.
  void knowTurned(const Turned &input, ArrayRef<Index> atoms, Value from, const Index &step,
                  int64_t beside, int64_t width) {
    IndexSpace &space = f.e.space;
    Value row = f.e.sub(step, from);
    Index at = space.add(space.add(space.scale(space.scalar(row, kChain), width), beside),
                         space.lane(kLanes));
    f.e.setKnown(
        kernel.lowered.lookup(input.argument), [this, here = f.position(input.argument, atoms), at,
                                                input](ArrayRef<Index> position, Value) {
          return position == ArrayRef(here)
                     ? f.e.load(input.scratch, getElementTypeOrSelf(input.argument.getType()), at,
                                nullptr)
                     : Value();
        });
  }

  void emitKeptInnermost(int32_t lanes) {
    SmallVector<int32_t> others = outerWithout(kernel.domain, lanes);
    ArrayRef<int32_t> reduced = kernel.domain.inner();
    int64_t vectors = kernel.choices.number("vectors", kNestVectors, {1, 2, 4, 8}),
            n = kernel.domain.atoms()[lanes], width = vectors * kLanes,
            blocks = llvm::divideCeil(n, width), rows = kernel.domain.positions(reduced);
    kernel.info.count = kernel.domain.positions(others) * blocks;
    bool isWindow = rows <= kWindow && rows * static_cast<int64_t>(kernel.ops.size()) <= kWindowOps;
    SmallVector<Turned, 1> turned = turnedInputs(width);
    auto columns = [&](const Index &other, int64_t size, const Index &base) {
      f.run(size, vectors, base,
            [&](ArrayRef<KernelFunction::Unit> units) {
              SmallVector<Index> atoms(kernel.domain.atoms().size());
              place(atoms, others, other);
              int64_t copies = units.size(), count = 0;
              for (const KernelFunction::Unit &unit : units)
                count += unit.lanes;
              Index first = f.e.space.splitLanes(units.front().position).first;
              Value chain; // its first step
              StepChains chains;
              if (!turned.empty())
                chains.begin = [&](Value from) {
                  chain = from;
                  for (const Turned &input : turned)
                    turn(input, atoms, lanes, from, first, count, width);
                };
              auto step = [&](Index row, KernelFunction::State &inside) {
                place(atoms, reduced, row);
                for (int64_t u = 0; u < copies; ++u) {
                  atoms[lanes] = units[u].position;
                  for (const Turned &input : turned)
                    knowTurned(input, atoms, chain, row, u * kLanes, width);
                  f.accumulateAll(ops, atoms, inside, u, copies, units[u].mask);
                }
              };
              KernelFunction::State sums;
              if (isWindow) {
                // In the order of a loop, but its loads are seen together: neighbouring columns of
                // a window come from the same ones.
                for (linalg::GenericOp reduction : reductions)
                  sums.append(copies, f.identity(reduction, true));
                for (int64_t row = 0; row < rows; ++row)
                  step(Index::of(row), sums);
              } else {
                sums = f.reduceRows(rows, reductions, copies, true, step, chains);
              }
              for (const Turned &input : turned)
                f.e.dropKnown(kernel.lowered.lookup(input.argument));
              for (int64_t u = 0; u < copies; ++u) {
                atoms[lanes] = units[u].position;
                SmallVector<Value> mine;
                for (size_t i = 0; i < ops.size(); ++i)
                  mine.push_back(sums[i * copies + u]);
                store(atoms, mine, units[u].mask);
              }
            });
    };
    f.loop(f.begin, f.end, kernel.info.count, [&](Index piece) {
      auto [other, block] = f.e.space.divide(piece, blocks);
      f.block(block, n, width,
              [&, other = other](const Index &base, int64_t size) { columns(other, size, base); });
    });
  }

  // Asks for the elements of inputs at `atoms`, a vector of them.
  void prefetch(ArrayRef<Index> atoms, int32_t lanes) {
    for (auto [i, argument] : llvm::enumerate(kernel.arguments())) {
      const FusionDomain::Layout *layout = kernel.domain.layout(argument);
      if (!layout || layout->empty() || layout->back() != lanes)
        continue;
      f.e.prefetch(f.function.getArgument(i), f.placeOf(argument, atoms), false);
    }
  }

  void emitReducedInnermost(ArrayRef<int32_t> layout) {
    ArrayRef<int32_t> reduced = kernel.domain.inner();
    size_t run = 0;
    while (run < layout.size() && llvm::is_contained(reduced, layout[layout.size() - 1 - run]))
      ++run;
    ArrayRef<int32_t> inner = layout.take_back(run);
    SmallVector<int32_t> outer;
    for (int32_t atom : reduced)
      if (!llvm::is_contained(inner, atom))
        outer.push_back(atom);
    kernel.info.count = kernel.domain.rows();
    int64_t bytes = memoryBytes(ir::typeOf(ops.front()->getOperand(0)).getElementType());
    int64_t rows = kernel.domain.positions(outer),
            rowsAhead =
                std::min<int64_t>(rows - 1, kAheadBytes / (kernel.domain.positions(inner) * bytes));
    f.loop(f.begin, f.end, kernel.info.count, [&](Index kept) {
      SmallVector<Index> atoms(kernel.domain.atoms().size());
      place(atoms, kernel.domain.outer(), kept);
      // Computed here, once: the loops below see the values.
      for (const Index &atom : atoms)
        (void)f.e.scalarIndex(atom);
      auto sums =
          f.reduceRows(rows, reductions, 1, false, [&](Index row, KernelFunction::State &totals) {
            place(atoms, outer, row);
            SmallVector<Index> ahead(atoms);
            if (rowsAhead > 0)
              place(ahead, outer, f.ahead(row, rowsAhead, rows));
            auto parts = f.reduceRun(
                kernel.domain.positions(inner), kSlots, Index::of(0), reductions,
                [&](ArrayRef<KernelFunction::Unit> units, KernelFunction::State &slots) {
                  for (const KernelFunction::Unit &unit : units) {
                    place(atoms, inner, unit.position);
                    f.accumulateAll(ops, atoms, slots, unit.slot, kSlots, unit.mask);
                    if (rowsAhead <= 0)
                      continue;
                    place(ahead, inner, unit.position);
                    prefetch(ahead, inner.back());
                  }
                });
            for (size_t i = 0; i < ops.size(); ++i)
              totals[i] = f.combine(reductions[i], totals[i], parts[i]);
          });
      store(atoms, sums, nullptr);
    });
  }
};

} // namespace

int32_t keptInnermost(KernelBuilder &kernel) {
  Operation *reduction = *llvm::find_if(kernel.ops, isReduction);
  int32_t innermost = kernel.domain.layout(reduction->getOperand(0))->back();
  return llvm::is_contained(kernel.domain.outer(), innermost) ? innermost : -1;
}

LogicalResult scheduleNest(KernelBuilder &kernel) {
  KernelFunction f(kernel, kernel.info.symbol);
  NestSchedule nest(kernel, f);
  if (int32_t lanes = keptInnermost(kernel); lanes >= 0)
    nest.emitKeptInnermost(lanes);
  else
    nest.emitReducedInnermost(*kernel.domain.layout(nest.ops.front()->getOperand(0)));
  return f.finish();
}

} // namespace weft::compiler

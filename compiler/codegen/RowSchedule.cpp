// Kernels over rows: elementwise ones, reductions over the inner dims (Row), over the rows (Col),
// over everything (Total), and all of these in one kernel.
//
// A row is swept once for each level: level 0 depends on no reduction, level n + 1 on the Row
// reductions of level n. A sweep does all reductions, stores and accumulations of its level (those
// of parts of rows are all in the last one). What is cheap is computed again in later sweeps; what
// is not (exp, tanh, random numbers, ...) is kept in a row of scratch. Reductions over rows go
// chunk by chunk into partial results, which `finish` adds in order.
#include "compiler/codegen/RowSchedule.h"

#include "compiler/codegen/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;
using Shape = FusionDomain::Shape;

// Whether a reduction gives the same bits in any order.
static bool isExact(Operation *op) {
  return isa<ir::ReduceMaxOp, ir::ReduceMinOp>(op);
}

SmallVector<RowSchedule::Stored, 1> RowSchedule::computeFull(KernelFunction &f, int64_t l,
                                                             const KernelFunction::Unit &unit,
                                                             const Index &row) {
  auto atoms = atomPositions(f, row, unit.position);
  trackReads(f, l, atoms);
  return compute(f, sweeps[l].stores, atoms, unit.mask);
}

// All values of a sweep's stores first, then the stores: an input's buffer may be an output's.
void RowSchedule::storeFull(KernelFunction &f, int64_t l, ArrayRef<KernelFunction::Unit> units,
                            const Index &row) {
  for (const KernelFunction::Unit &unit : units)
    store(f, computeFull(f, l, unit, row), unit.mask);
}

void RowSchedule::storeRows(KernelFunction &f, const Sweep &sweep, const Index &row) {
  storeRows(f, sweep, row, atomPositions(f, row, Index::of(0)), nullptr);
}

void RowSchedule::storeRows(KernelFunction &f, const Sweep &sweep, const Index &row,
                            ArrayRef<Index> atoms, Value mask) {
  trackOtherReads(f);
  for (int64_t i : sweep.rowStores)
    store(f, compute(f, i, atoms, mask), mask);
  for (Operation *op : sweep.rowTotals) {
    Value value = f.e.at(kernel.lowered.lookup(op->getOperand(0)),
                         f.position(op->getOperand(0), atoms), mask);
    f.e.store(buffer(f, partials[op]), value, row, mask);
  }
}

// The values in scratch at a vector of a row: what this sweep keeps is computed and stored, what an
// earlier one kept is known.
void RowSchedule::keepOrKnow(KernelFunction &f, int64_t l, const KernelFunction::Unit &unit,
                             ArrayRef<Index> atoms, const Index &scratchRow) {
  for (auto &[value, where] : kept) {
    bool isTurned = where.level == kTurnedLevel;
    Value buffer =
        f.scratch(where.offset, isTurned ? turnedRows * turnedStride() : scratchElements(),
                  elementOf(value));
    auto here = f.position(value, atoms);
    if (where.level == l) {
      Value element = f.e.at(kernel.lowered.lookup(value), here, unit.mask);
      // The padding takes the lanes that do not exist.
      Index whole = f.e.space.add(unit.position, 0);
      for (auto &term : whole.terms)
        if (f.e.space.symbol(term.first).kind == IndexSpace::Kind::Lane)
          term = f.e.space.lane(kLanes).terms[0];
      llvm::sort(whole.terms);
      f.e.store(buffer, f.e.broadcast(element), f.e.space.add(whole, scratchRow), nullptr);
    } else if (where.level < l) {
      f.e.setKnown(kernel.lowered.lookup(value),
                   [&f, buffer, here, element = elementOf(value),
                    at = f.e.space.add(unit.position, isTurned ? turnedRow : scratchRow)](
                       ArrayRef<Index> position, Value mask) {
                     return position == ArrayRef(here) ? f.e.load(buffer, element, at, mask)
                                                       : Value();
                   });
    }
  }
}

void RowSchedule::forgetKept(KernelFunction &f) {
  for (auto &entry : kept)
    f.e.dropKnown(kernel.lowered.lookup(entry.first));
}

void RowSchedule::knowSum(KernelFunction &f, Operation *op, const Index &row,
                          std::function<Value()> sum) {
  f.know(op, atomPositions(f, row, Index::of(0)), std::move(sum));
}

// One sweep over one row. `chunk`: the number of the chunk whose partial results Col reductions add
// to.
void RowSchedule::sweepRow(KernelFunction &f, int64_t l, const Index &row, const Index *chunk,
                           const Grouped *grouped) {
  const Sweep &sweep = sweeps[l];
  if (!grouped)
    storeRows(f, sweep, row);
  if (!sweep.parts.empty())
    return sweepParts(f, l, row);
  if (sweep.reductions.empty() && sweep.columns.empty() && sweep.stores.empty() &&
      !keepsAt(l))
    return;
  auto reductions = generics(sweep.reductions);
  int64_t n = domain.rowSize();
  bool onlyExact = llvm::all_of(sweep.reductions, isExact) && sweep.columns.empty() &&
                   sweep.stores.empty() && !keepsAt(l);
  int64_t group = onlyExact ? std::max(unroll, kExactVectors.of(kernel.vectorBytes)) : unroll;
  auto elements = [&](ArrayRef<KernelFunction::Unit> units, KernelFunction::State &slots) {
    SmallVector<SmallVector<Value>> groups(sweep.reductions.size());
    for (const KernelFunction::Unit &unit : units) {
      auto atoms = atomPositions(f, row, unit.position);
      trackReads(f, l, atoms);
      keepOrKnow(f, l, unit, atoms,
                 grouped ? f.e.space.scale(grouped->number, paddedRow()) : Index::of(0));
      for (auto [i, op] : llvm::enumerate(sweep.reductions)) {
        auto position = f.position(op->getOperand(0), atoms);
        Value &slot = slots[i * kSlots + unit.slot];
        if (isExact(op) && !unit.mask) {
          // In any order the same: the vectors of a group meet first, so that a group costs the
          // accumulator one step.
          groups[i].push_back(f.e.broadcast(f.e.inputsAt(reductions[i], position, nullptr)[0]));
        } else {
          slot = f.accumulate(reductions[i], position, slot, unit.mask);
        }
      }
      for (Operation *op : sweep.columns) {
        auto [memory, at] = placeIn(f, partials[op], *chunk, unit.position);
        // The padding is never read.
        Value sum = f.e.load(memory, partials[op].element, at, unit.mask);
        sum = f.accumulate(kernel.generic(op), f.position(op->getOperand(0), atoms),
                           f.e.broadcast(sum), unit.mask);
        f.e.store(memory, sum, at, unit.mask);
      }
      prefetch(f, l, row, unit);
      storeFull(f, l, unit, row);
    }
    for (auto [i, group] : llvm::enumerate(groups))
      if (!group.empty()) {
        group.push_back(slots[i * kSlots]);
        slots[i * kSlots] = f.combineAll(reductions[i], group);
      }
  };
  if (grouped) {
    KernelFunction::State slots;
    for (linalg::GenericOp reduction : reductions)
      slots.append(kSlots, f.identity(reduction, true));
    slots = f.run(n, group, Index::of(0), slots, elements);
    Index at = f.e.space.add(f.e.space.scale(grouped->number, kLanes), f.e.space.lane(kLanes));
    static_assert(kSlots == 2);
    for (auto [i, reduction] : llvm::enumerate(reductions))
      f.e.store(grouped->unfolded[i], f.combine(reduction, slots[2 * i], slots[2 * i + 1]), at,
                nullptr);
    forgetKept(f);
    return;
  }
  // The range of a sized kernel of one row ends where the row does. Runs that lie apart are folded
  // one by one and added up, as NestSchedule does it for reductions alone.
  int64_t length = domain.runSize();
  auto runByRun = [&] {
    return f.reduceRows(
        n / length, reductions, 1, false, [&](Index number, KernelFunction::State &totals) {
          auto parts =
              f.reduceRun(length, group, f.e.space.scale(number, length), reductions, elements);
          for (size_t i = 0; i < parts.size(); ++i)
            totals[i] = f.combine(reductions[i], totals[i], parts[i]);
        });
  };
  auto sums = isSizedRow()  ? f.reduceRunUpTo(rowEnd, n, Index::of(0), reductions, elements)
              : length == n ? f.reduceRun(n, group, Index::of(0), reductions, elements)
                            : runByRun();
  forgetKept(f);
  for (auto [op, sum] : llvm::zip(sweep.reductions, sums))
    knowSum(f, op, row, [sum = sum] { return sum; });
}

void RowSchedule::oneRow(KernelFunction &f, const Index &row, const Index *chunk) {
  emitRowDims(f, row);
  for (int64_t l = 0; l <= lastLevel; ++l)
    sweepRow(f, l, row, chunk);
  storeNear(f, row);
}

//===-- Bodies --------------------------------------------------------------------------------===//

// The whole vectors of a round, `unroll` of them behind each other.
SmallVector<KernelFunction::Unit, 4> RowSchedule::vectorsOf(KernelFunction &f,
                                                            const Index &round) const {
  SmallVector<KernelFunction::Unit, 4> units;
  for (int64_t u = 0; u < unroll; ++u)
    units.push_back(
        {f.e.space.add(f.e.space.add(f.e.space.scale(round, unroll * kLanes), u * kLanes),
                       f.e.space.lane(kLanes)),
         nullptr, kLanes, 0});
  return units;
}

// One run of elements, cut into pieces.
LogicalResult RowSchedule::emitLinear() {
  KernelFunction f(kernel, kernel.info.symbol);
  int64_t n = domain.rowSize(), step = unroll * kLanes, whole = n / step,
          size = kernel.choices.number("piece", kPieceElements, {1024, 4096, 16384});
  kernel.info.count = llvm::divideCeil(n, size);
  int64_t perPiece = size / step;
  auto scale = [&](Value pieces) {
    return f.e.mul(pieces, perPiece);
  };
  Value last = f.e.constantIndex(whole);
  if (whole) {
    f.loop(scale(f.begin), f.e.minSigned(scale(f.end), last), whole,
           [&](Index round) { storeFull(f, 0, vectorsOf(f, round), Index::of(0)); });
  }
  if (n % step) {
    // Whoever has the last piece does what is left.
    Value isLast = f.e.compare(arith::CmpIPredicate::eq, f.end, kernel.info.count);
    f.when(isLast, [&] {
      f.run(n % step, unroll, Index::of(whole * step),
            [&](ArrayRef<KernelFunction::Unit> units) { storeFull(f, 0, units, Index::of(0)); });
    });
  }
  return f.finish();
}

// Whether the kernel reads what has as many elements as there are at run time, or where data says.
bool RowSchedule::readsMemoryThatEnds() const {
  auto hasName = [&](Value argument) {
    return kernel.sizes.named.contains(argument);
  };
  return llvm::any_of(kernel.fusion.getBody().getArguments(), hasName) ||
         kernel.tensors.walk([](tensor::ExtractOp) { return WalkResult::interrupt(); })
             .wasInterrupted();
}

// The same where the number of elements is known at run time only: the range is one of elements,
// and the vector that the last one ends in is masked by what is left.
LogicalResult RowSchedule::emitSizedLinear() {
  KernelFunction f(kernel, kernel.info.symbol);
  int64_t n = domain.rowSize(), step = unroll * kLanes;
  kernel.info.count = n;
  kernel.rangeUnit = kPieceElements;
  auto leftFrom = [&](const Index &first) {
    return f.e.sub(f.end, first);
  };
  // Ranges begin at multiples of kPieceElements.
  Value first = f.e.div(f.begin, step);
  if (random && !readsMemoryThatEnds()) {
    // Elements behind the last one are computed as well, and not stored. A draw is the largest code
    // that kernels have: it is there once.
    f.loop(first, f.e.divideUp(f.end, step), n / step + 1, [&](Index round) {
      SmallVector<SmallVector<Stored, 1>, 4> values;
      for (const KernelFunction::Unit &unit : vectorsOf(f, round))
        values.push_back(computeFull(f, 0, unit, Index::of(0)));
      Value left = leftFrom(f.e.space.scale(round, step));
      Value isWhole = f.e.compare(arith::CmpIPredicate::sge, left, step);
      f.when(
          isWhole,
          [&] {
            for (ArrayRef<Stored> each : values)
              store(f, each, nullptr);
          },
          [&] {
            for (auto [u, each] : llvm::enumerate(values))
              store(f, each, f.e.tailMask(f.e.sub(left, static_cast<int64_t>(u) * kLanes)));
          });
    });
  } else {
    Value whole = f.e.div(f.end, step);
    f.loop(first, whole, n / step + 1,
           [&](Index round) { storeFull(f, 0, vectorsOf(f, round), Index::of(0)); });
    Value tail = f.e.mul(whole, unroll);
    f.loop(tail, f.e.divideUp(f.end, kLanes), n / kLanes + 1, [&](Index number) {
      Index at = f.e.space.scale(number, kLanes);
      KernelFunction::Unit unit{f.e.space.add(at, f.e.space.lane(kLanes)),
                                f.e.tailMask(leftFrom(at)), kLanes, 0};
      storeFull(f, 0, unit, Index::of(0));
    });
  }
  return f.finish();
}

// Elementwise with rows: a piece is a row or a block of one.
LogicalResult RowSchedule::emitRowBlocks() {
  KernelFunction f(kernel, kernel.info.symbol);
  int64_t n = domain.rowSize();
  SmallVector<int64_t> legal = {n};
  for (int64_t some : {1024, 4096, 16384})
    if (some < n)
      legal.push_back(some);
  int64_t size = kernel.choices.number("row_block", n < 2 * kRowBlock ? n : kRowBlock, legal),
          blocks = llvm::divideCeil(n, size);
  kernel.info.count = domain.rows() * blocks;
  f.loop(f.begin, f.end, kernel.info.count, [&](Index piece) {
    auto [row, block] = f.e.space.divide(piece, blocks);
    emitRowDims(f, row);
    f.block(block, n, size, [&, row = row](const Index &first, int64_t some) {
      f.run(some, unroll, first,
            [&](ArrayRef<KernelFunction::Unit> units) { storeFull(f, 0, units, row); });
    });
  });
  return f.finish();
}

// The pieces of the range. That of a sized kernel is one of rows: pieces are whole, but for the
// last of all.
std::pair<Value, Value> RowSchedule::pieces(KernelFunction &f) {
  if (!kernel.sizes.lengthDims.empty()) {
    // Those rows that begin in the range.
    auto rowsBefore = [&](Value element) {
      Value more = f.e.sub(rowEnd, 1);
      return f.e.div(f.e.add(element, more), rowEnd);
    };
    return {rowsBefore(f.begin), rowsBefore(f.end)};
  }
  if (isSizedRow()) {
    kernel.rangeUnit = roundUp(domain.rowSize(), kLanes);
    return {f.e.constantIndex(0), f.e.constantIndex(1)};
  }
  if (!kernel.sizes || !hasColumns)
    return {f.begin, f.end};
  kernel.rangeUnit = pieceRows;
  Value size = f.e.constantIndex(pieceRows);
  return {f.e.div(f.begin, size), f.e.div(f.e.add(f.end, pieceRows - 1), size)};
}

LogicalResult RowSchedule::emitRows() {
  KernelFunction f(kernel, kernel.info.symbol);
  kernel.info.count = isSizedRow()   ? domain.rows() * domain.rowSize()
                      : kernel.sizes ? domain.rows()
                                     : rowPieces;
  rowEnd = f.end;
  if (!kernel.sizes.lengthDims.empty())
    rowEnd = f.e.lengths[LengthDim::kOwn] =
        f.e.div(f.function.getArguments().back(), domain.rows());
  auto [firstPiece, lastPiece] = pieces(f);
  f.loop(firstPiece, lastPiece, rowPieces, [&](Index piece) {
    if (hasColumns)
      eachChunk(f, piece, [&](const Index &chunk) { rowsOfChunk(f, chunk); });
    else
      oneRow(f, piece, nullptr);
  });
  return f.finish();
}

// Reductions of everything: blocks of kReductionBlock elements, each folded to a scalar.
LogicalResult RowSchedule::emitTotals() {
  KernelFunction f(kernel, kernel.info.symbol);
  int64_t n = domain.rowSize(), whole = n / kReductionBlock,
          blocks = llvm::divideCeil(n, kReductionBlock);
  kernel.info.count = blocks;
  const Sweep &sweep = sweeps[0];
  auto reductions = generics(sweep.totals);
  // Of `size` elements, or of as many as `left` says, at most `size`.
  auto block = [&](int64_t size, const Index &number, Value left = nullptr) {
    Index base = f.e.space.scale(number, kReductionBlock);
    auto elements = [&](ArrayRef<KernelFunction::Unit> units, KernelFunction::State &slots) {
      for (const KernelFunction::Unit &unit : units) {
        auto atoms = atomPositions(f, Index::of(0), unit.position);
        trackReads(f, 0, atoms);
        f.accumulateAll(sweep.totals, atoms, slots, unit.slot, kSlots, unit.mask);
        storeFull(f, 0, unit, Index::of(0));
      }
    };
    auto sums = left ? f.reduceRunUpTo(left, size, base, reductions, elements)
                     : f.reduceRun(size, unroll, base, reductions, elements);
    for (auto [op, sum] : llvm::zip(sweep.totals, sums))
      f.e.store(buffer(f, partials[op]), sum, number, nullptr);
  };
  if (kernel.sizes) {
    // The range is one of elements: blocks are whole, but for the last of all.
    kernel.info.count = n;
    kernel.rangeUnit = kReductionBlock;
    Value size = f.e.constantIndex(kReductionBlock), first = f.e.div(f.begin, size),
          last = f.e.div(f.end, size), left = f.e.rem(f.end, size);
    if (whole)
      f.loop(first, last, whole, [&](Index number) { block(kReductionBlock, number); });
    Value isPart = f.e.compare(arith::CmpIPredicate::ne, left, 0);
    f.when(isPart, [&] {
      block(std::min(n, kReductionBlock), f.e.space.scalar(last, blocks), left);
    });
    return f.finish();
  }
  if (whole)
    f.loop(f.begin, f.e.minSigned(f.end, whole), whole,
           [&](Index number) { block(kReductionBlock, number); });
  if (n % kReductionBlock) {
    Value isLast = f.e.compare(arith::CmpIPredicate::eq, f.end, kernel.info.count);
    f.when(isLast, [&] { block(n % kReductionBlock, Index::of(whole)); });
  }
  return f.finish();
}

//===-- Finish --------------------------------------------------------------------------------===//

void RowSchedule::storeOutputs(KernelFunction &f, Role role, ArrayRef<Index> atoms, Value mask) {
  for (auto [i, output] : llvm::enumerate(kernel.outputs))
    if (domain.role(output) == role)
      store(f, compute(f, static_cast<int64_t>(i), atoms, mask), mask);
}

// The totals of parts(i), `copies` of them, for i in [0, count), which `most` bounds.
static KernelFunction::State addUp(KernelFunction &f, linalg::GenericOp reduction, int64_t copies,
                                   bool vector, Value count, int64_t most,
                                   function_ref<KernelFunction::State(const Index &)> parts) {
  auto totals = f.loop(0, count, most, f.noTotals(reduction, copies, vector),
                       [&](Index i, KernelFunction::State &inside) {
                         f.addToTotals(inside, reduction, copies, parts(i));
                       });
  return f.fromTotals(totals, reduction, copies);
}

// Adds the partial results in order, and computes what depends on them.
LogicalResult RowSchedule::emitFinish() {
  kernel.info.finish = kernel.info.symbol + "_finish";
  KernelFunction f(kernel, kernel.info.finish);
  trackOtherReads(f);
  int64_t rows = domain.rows(), n = domain.rowSize();
  for (auto &[op, partial] : partials) {
    if (Role role = domain.role(op->getResult(0)); role == Role::Col || role == Role::Part)
      continue;
    linalg::GenericOp reduction = kernel.generic(op);
    Value sum, memory = buffer(f, partial);
    if (domain.shape() == Shape::Total) {
      int64_t blocks = partial.count;
      Value count = f.e.constantIndex(blocks);
      if (kernel.sizes)
        count = f.e.divideUp(f.end, kReductionBlock);
      auto value = [&](const Index &i) {
        return f.e.load(memory, partial.element, i, nullptr);
      };
      if (blocks == 1)
        sum = value(Index::of(0));
      else
        sum = addUp(f, reduction, 1, false, count, blocks,
                    [&](const Index &i) { return KernelFunction::State{value(i)}; })[0];
    } else {
      auto add = [&](ArrayRef<KernelFunction::Unit> units, KernelFunction::State &slots) {
        for (const KernelFunction::Unit &unit : units) {
          Value next =
              f.combine(reduction, slots[unit.slot],
                        f.e.broadcast(f.e.load(memory, partial.element, unit.position, unit.mask)));
          slots[unit.slot] =
              unit.mask ? f.e.make<arith::SelectOp>(unit.mask, next, slots[unit.slot]) : next;
        }
      };
      bool vary = kernel.sizes && kernel.sizes.lengthDims.empty();
      sum = vary ? f.reduceRunUpTo(f.end, rows, Index::of(0), reduction, add)[0]
                 : f.reduceRun(rows, kSlots, Index::of(0), reduction, add)[0];
    }
    f.know(op, sum);
  }
  storeOutputs(f, Role::Scalar, atomPositions(f, Index::of(0), Index::of(0)), nullptr);
  if (hasParts)
    finishParts(f);
  if (hasColumns) {
    // Vectors of the sums of a chunk lie together, those of the next one far away.
    f.run(n, kFinishVectors.of(kernel.vectorBytes), Index::of(0),
          [&](ArrayRef<KernelFunction::Unit> units) {
            SmallVector<SmallVector<Index>> atoms;
            for (const KernelFunction::Unit &unit : units)
              atoms.push_back(atomPositions(f, Index::of(0), unit.position));
            SmallVector<std::pair<Operation *, KernelFunction::State>> sums;
            for (auto &[op, partial] : partials) {
              if (domain.role(op->getResult(0)) != Role::Col)
                continue;
              linalg::GenericOp reduction = kernel.generic(op);
              auto values = [&, partial = partial](const Index &chunk) {
                KernelFunction::State parts;
                for (const KernelFunction::Unit &unit : units) {
                  auto [memory, at] = placeIn(f, partial, chunk, unit.position);
                  parts.push_back(f.e.broadcast(f.e.load(memory, partial.element, at, unit.mask)));
                }
                return parts;
              };
              Value count =
                  kernel.sizes ? f.chunksOf(f.end, rows) : f.e.constantIndex(chunks);
              sums.emplace_back(
                  op, chunks == 1 ? values(Index::of(0))
                                  : addUp(f, reduction, units.size(), true, count, chunks, values));
            }
            for (auto [u, unit] : llvm::enumerate(units)) {
              for (auto &[op, sum] : sums)
                f.know(op, sum[u]);
              storeOutputs(f, Role::Col, atoms[u], unit.mask);
            }
          });
  }
  return f.finish();
}

LogicalResult RowSchedule::run() {
  plan();
  if (failed(emitBody()))
    return failure();
  if (!partials.empty() && failed(emitFinish()))
    return failure();
  noteInPlace();
  return success();
}

LogicalResult scheduleRows(KernelBuilder &kernel) {
  return RowSchedule(kernel).run();
}

} // namespace weft::compiler

// Reductions of parts of rows: over the runs that the leading dims of a row leave, and over some of
// the outer dims. group_norm's rows are the groups of a sample, and its weight and bias get sums
// over pixels and samples, a number a channel.
//
// The last sweep folds each run of a row to a partial result, one for each reduction, row and run;
// `finish` adds up those of the outer dims. That is the order in which NestSchedule sweeps such a
// reduction in a kernel of its own, so that fusing does not change a bit.
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using namespace mlir;

// The last sweep over a row: it has no Row reductions. Its stores are done in the same loop where
// runs fill vectors.
void RowSchedule::sweepParts(KernelFunction &f, int64_t l, const Index &row) {
  const Sweep &sweep = sweeps[l];
  int64_t run = domain.partRun(), parts = partsOfRow();
  bool together = run >= kLanes;
  auto reductions = generics(sweep.parts);
  f.loop(parts, [&](Index number) {
    auto sums =
        f.reduceRun(run, unroll, f.e.space.scale(number, run), reductions,
                    [&](ArrayRef<KernelFunction::Unit> units, KernelFunction::State &slots) {
                      for (const KernelFunction::Unit &unit : units) {
                        auto atoms = atomPositions(f, row, unit.position);
                        trackReads(f, l, atoms);
                        keepOrKnow(f, l, unit, atoms);
                        f.accumulateAll(sweep.parts, atoms, slots, unit.slot, kSlots, unit.mask);
                        prefetch(f, l, row, unit);
                        if (together)
                          storeFull(f, l, unit, row);
                      }
                    });
    for (auto [op, sum] : llvm::zip(sweep.parts, sums)) {
      auto [memory, at] = placeIn(f, partials[op], row, number);
      f.e.store(memory, sum, at, nullptr);
    }
    forgetKept(f);
  });
  if (together || sweep.stores.empty())
    return;
  f.each(domain.rowSize(), unroll, Index::of(0), [&](const KernelFunction::Unit &unit) {
    keepOrKnow(f, l, unit, atomPositions(f, row, unit.position));
    storeFull(f, l, unit, row);
  });
  forgetKept(f);
}

// Adds up the partial results, and stores what becomes of them. Vectors lie along the kept dims.
void RowSchedule::finishParts(KernelFunction &f) {
  SmallVector<Operation *> ops;
  SmallVector<linalg::GenericOp> reductions;
  for (auto &[op, partial] : partials) {
    if (domain.role(op->getResult(0)) != Role::Part)
      continue;
    ops.push_back(op);
    reductions.push_back(kernel.generic(op));
  }
  FusionDomain::Layout layout = domain.partialLayout(), added = domain.addedRows();
  int64_t count = domain.positions(added);
  f.each(domain.positions(domain.kept()), 1, Index::of(0), [&](const KernelFunction::Unit &unit) {
    SmallVector<Index> atoms(domain.atoms().size());
    placeAtoms(f.e.space, domain, atoms, domain.kept(), unit.position);
    auto part = [&](Operation *op) {
      SmallVector<Index> digits;
      for (int32_t atom : layout)
        digits.push_back(atoms[atom]);
      const Partial &partial = partials[op];
      return f.e.broadcast(f.e.load(buffer(f, partial), partial.element,
                                    f.e.space.linearize(digits, domain.extents(layout)),
                                    unit.mask));
    };
    KernelFunction::State sums;
    if (count == 1) {
      for (Operation *op : ops)
        sums.push_back(part(op));
    } else {
      sums = f.reduceRows(count, reductions, 1, true,
                          [&](Index number, KernelFunction::State &totals) {
                            placeAtoms(f.e.space, domain, atoms, added, number);
                            for (auto [i, op] : llvm::enumerate(ops))
                              totals[i] = f.combine(reductions[i], totals[i], part(op));
                          });
    }
    for (auto [op, sum] : llvm::zip(ops, sums))
      f.know(op, sum);
    storeOutputs(f, Role::Part, atoms, unit.mask);
  });
}

} // namespace weft::compiler

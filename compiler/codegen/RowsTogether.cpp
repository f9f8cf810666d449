// Bodies of kernels whose rows read the same elements beside their own, some rows together: the
// product of a matrix and a vector.
//
// A row by itself reads as much of the vector as of the matrix. A vector that is longer than the L1
// cache comes from the L2 each time, so that half of what is on its way to the core is no part of
// the matrix, and memory stands idle. Rows together load the vector once for all of them. The
// operations on an element, and their order, are those of a row by itself, and so are the bits.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;
using Shape = FusionDomain::Shape;

// Whether a row is one sweep with sums, and leaves nothing else.
bool RowSchedule::hasLoneSums() const {
  if (domain.shape() != Shape::Rows || kernel.sizes || random || domain.outer().empty())
    return false;
  if (hasColumns || hasParts || !nearStores.empty() || domain.runSize() != domain.rowSize())
    return false;
  return lastLevel == 1 && sweeps[1].reductions.empty() &&
         llvm::all_of(sweeps, [](const Sweep &sweep) { return sweep.stores.empty(); });
}

// How many rows a sweep may do together; empty where they may not.
SmallVector<int64_t> RowSchedule::countsTogether() const {
  SmallVector<int64_t> counts;
  if (!hasLoneSums())
    return counts;
  // All of them stand at one place of the dims further out.
  int64_t inLine = domain.atoms()[domain.outer().back()], ops = kernel.ops.size();
  for (int64_t count : {2, 3, 4, 8})
    if (count <= domain.rows() && count * ops <= kMostTogetherOps &&
        (domain.outer().size() == 1 || inLine % count == 0))
      counts.push_back(count);
  return counts;
}

// How many rows the costs have a sweep do together; 1 where they share too little.
int64_t RowSchedule::rowsTogether() const {
  int32_t along = domain.outer().back(), within = domain.inner().back();
  int64_t shared = 0;
  for (Value argument : kernel.arguments()) {
    const FusionDomain::Layout *layout = domain.layout(argument);
    if (layout && llvm::is_contained(*layout, within) && !llvm::is_contained(*layout, along))
      shared += domain.rowSize() * memoryBytes(elementOf(argument));
  }
  if (shared <= kSharedBytes)
    return 1;
  int64_t accumulators = kTogetherSums.of(kernel.vectorBytes),
          reductions = sweeps[0].reductions.size(), ops = kernel.ops.size();
  int64_t count = std::min(accumulators / (kSlots * reductions), kTogetherOps / ops);
  // All of them stand at one place of the dims further out.
  if (domain.outer().size() > 1)
    while (count > 1 && domain.atoms()[along] % count)
      --count;
  return std::clamp<int64_t>(count, 1, std::max<int64_t>(1, domain.rows() / kLeastPieces));
}

void RowSchedule::sweepTogether(KernelFunction &f, ArrayRef<Index> rows) {
  const Sweep &sweep = sweeps[0];
  for (const Index &row : rows)
    emitRowDims(f, row);
  for (const Index &row : rows)
    storeRows(f, sweep, row);
  trackOtherReads(f);
  SmallVector<linalg::GenericOp> reductions; // each once a row
  for (size_t i = 0; i < rows.size(); ++i)
    for (Operation *op : sweep.reductions)
      reductions.push_back(kernel.generic(op));
  size_t each = sweep.reductions.size();
  auto sums =
      f.reduceRun(domain.rowSize(), unroll, Index::of(0), reductions,
                  [&](ArrayRef<KernelFunction::Unit> units, KernelFunction::State &slots) {
                    for (const KernelFunction::Unit &unit : units)
                      for (auto [r, row] : llvm::enumerate(rows)) {
                        auto atoms = atomPositions(f, row, unit.position);
                        f.accumulateAll(sweep.reductions, atoms, slots,
                                        r * each * kSlots + unit.slot, kSlots, unit.mask);
                      }
                  });
  for (auto [r, row] : llvm::enumerate(rows)) {
    for (auto [i, op] : llvm::enumerate(sweep.reductions))
      knowSum(f, op, row, [sum = sums[r * each + i]] { return sum; });
    storeRows(f, sweeps[1], row);
  }
}

LogicalResult RowSchedule::emitTogether(int64_t count) {
  KernelFunction f(kernel, kernel.info.symbol);
  kernel.info.count = llvm::divideCeil(domain.rows(), count);
  f.loop(f.begin, f.end, kernel.info.count, [&](Index group) {
    f.block(group, domain.rows(), count, [&](const Index &first, int64_t some) {
      SmallVector<Index> rows;
      for (int64_t i = 0; i < some; ++i)
        rows.push_back(f.e.space.add(first, i));
      sweepTogether(f, rows);
    });
  });
  return f.finish();
}

} // namespace weft::compiler

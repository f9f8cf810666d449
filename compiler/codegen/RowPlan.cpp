// Which memory the sweeps over a row share: scratch for a row's expensive values, partial results.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;

void RowSchedule::plan() {
  random = llvm::any_of(kernel.ops, [](Operation *op) { return isa<ir::RandomUniformOp>(op); });
  chooseBody();
  if (body == Body::RowGroups)
    scratchRows = kLanes;
  if (body == Body::Turned)
    planTurned();
  planScratch();
  planPartials();
  planPrefetch();
}

// Elements that a row takes in scratch: the last vector of a run is stored whole. Where a row has
// several runs, the next one overwrites what is not its own.
int64_t RowSchedule::paddedRow() const {
  bool oneRun = domain.runSize() == domain.rowSize();
  return roundUp(oneRun ? domain.rowSize() : domain.rowSize() + kLanes, kLanes);
}

// Elements of a kept value that wait in scratch at a time.
int64_t RowSchedule::scratchElements() const {
  return body == Body::Lanes ? domain.rowSize() * laneWidth
                             : scratchRows * roundUp(paddedRow(), kLanes * 4);
}

void RowSchedule::planScratch() {
  DenseMap<Value, int64_t> neededFirst; // the sweep
  auto waits = [&](Operation *op) {
    return cast<ir::WeftOp>(op).cost() >= kernel.choices.number("keep", kKeptCost, {1, 4, 12, 48});
  };
  for (int64_t l = 0; l <= lastLevel; ++l) {
    Sweep &sweep = sweeps[l];
    SmallVector<Value> work;
    for (Operation *op : sweep.reductions)
      work.push_back(op->getOperand(0));
    for (Operation *op : sweep.columns)
      work.push_back(op->getOperand(0));
    for (Operation *op : sweep.parts)
      work.push_back(op->getOperand(0));
    for (int64_t i : sweep.stores)
      work.push_back(kernel.outputs[i]);
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      if ((!op && !isCrowded(value)) || !seen.insert(value).second)
        continue;
      if (op && isReduction(op))
        continue;
      auto [first, isNew] = neededFirst.try_emplace(value, l);
      if (!isNew && first->second < l && domain.role(value) == Role::Full && (!op || waits(op))) {
        int64_t bytes = scratchElements() * memoryBytes(elementOf(value));
        if (bytes / scratchRows <= kMostScratchRow) {
          if (!kept.count(value))
            kept[value] = {kernel.claimScratch(bytes), first->second};
          continue;
        }
      }
      if (op)
        work.append(op->operand_begin(), op->operand_end());
    }
  }
}

void RowSchedule::planPartials() {
  int64_t rows = domain.rows(), n = domain.rowSize();
  if (hasColumns)
    pieceRows = largestChunk(rows);
  rowPieces = llvm::divideCeil(rows, pieceRows);
  chunks = chunkCount(rows);
  for (Sweep &sweep : sweeps) {
    for (Operation *op : sweep.columns) {
      Type element = elementOf(op->getResult(0));
      addPartial(op, element, chunks, paddedColumns());
      if (hasColumnTotals())
        for (int64_t &offset : columnTotals[op])
          offset = kernel.claimScratch((hasRows ? paddedColumns() : columnBlock()) * 8);
    }
    for (Operation *op : sweep.parts)
      addPartial(op, elementOf(op->getResult(0)), rows, partsOfRow());
    for (Operation *op : sweep.rowTotals)
      addPartial(op, elementOf(op->getOperand(0)), rows);
    for (Operation *op : sweep.totals)
      addPartial(op, elementOf(op->getResult(0)), llvm::divideCeil(n, kReductionBlock));
  }
}

} // namespace weft::compiler

// The steps of a scan along a line, said once for the schedules of every target: what is carried
// from an element to the next, and what the result is there.
#pragma once

#include "compiler/codegen/Schedule.h"

namespace weft::compiler {

class Scan {
public:
  using State = KernelFunction::State;

  Scan(KernelFunction &f, mlir::Operation *op);

  // Of the result: the scanned dim and its size, and the dims before and after it.
  int64_t dim, size, lead, trail;
  bool reverse = false;
  llvm::ArrayRef<int64_t> shape;
  // The tensors, of the result's shape, of each of which a step reads an element.
  llvm::SmallVector<mlir::Value, 2> sources;

  // The position along the dim that a step is at.
  Index along(const Index &step);
  // What is carried to the first step: of a line, or of a vector of lines side by side.
  State start(bool vector);
  // One more step, which has these elements of the sources and lies at `position`; the result
  // there.
  mlir::Value step(State &carried, llvm::ArrayRef<mlir::Value> elements, const Index &position);

  // Whether steps give the same bits in whatever groups they are taken. Then neighbours of one line
  // are a vector, of which carried values wait for the last lane alone.
  bool inAnyGroups() const;
  // kLanes steps of one line at once, of which `position` is the first; carried: kLanes equal
  // lanes.
  mlir::Value stepTogether(State &carried, llvm::ArrayRef<mlir::Value> elements,
                           const Index &position);

  // Sums are added up by themselves in blocks of kScanBlock steps, which end at multiples of it
  // from the first element on; what is before the block is a total, which is added to each. So the
  // sum of floats of one sign never turns back, and errs by a fraction of kScanBlock roundings,
  // however long the line is. Other scans, and sums of one block, carry all from step to step: a
  // product of a block could be too large where that with what is before it is not.
  bool inBlocks() const;
  // Behind the last step of a block; nothing where there are none.
  void endBlock(State &carried);

  // All steps of one line, as scalars: elements(position) are read, and store(position, result).
  void walk(llvm::function_ref<State(const Index &)> elements,
            llvm::function_ref<void(const Index &, mlir::Value)> store);

private:
  // Of an extreme and its place, `later` if it is at least as good, else `before`.
  State better(const State &before, const State &later);
  // Results of float32 are carried as float64.
  mlir::Value widened(mlir::Value value);
  mlir::Value narrowed(mlir::Value value);

  KernelFunction &f_;
  mlir::Operation *op_;
  mlir::linalg::GenericOp generic_;
};

} // namespace weft::compiler

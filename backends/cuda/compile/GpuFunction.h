// One GPU kernel being emitted: what its threads know of themselves, guards, and folds over the
// threads of a group.
//
// It shares with the CPU's schedules the reading of a fusion (ElementEmitter): a vector is what one
// thread loads at once, 16 bytes where alignment allows.
#pragma once

#include "compiler/codegen/Schedule.h"

namespace weft::backends::cuda {

using compiler::FusionDomain;
using compiler::Index;
using compiler::KernelBuilder;

// How a kernel is launched: for `count` pieces, of which a block has `perBlock`, or all blocks each
// (kWholeGrid). Where a size varies, the pieces of a smaller one are the first of them.
struct Geometry {
  int64_t blocks = 0;
  int64_t threads = 1; // in a block
  int64_t count = 0, perBlock = 1;

  static Geometry of(int64_t count, int64_t perBlock, int64_t threads) {
    return {(count + perBlock - 1) / perBlock, threads, count, perBlock};
  }
};

// Arguments: pointers to inputs, outputs, partial results, and one to an i32 in which bad indices
// are noted; all in global memory. Where a size varies, behind them the count of pieces, an i64.
class GpuFunction : public compiler::KernelFunction {
public:
  // Blocks of `threads` threads, vectors of `width` elements (1: scalars).
  GpuFunction(KernelBuilder &kernel, llvm::StringRef name, Geometry geometry, int64_t width);

  mlir::Value thread, block; // of index type
  Geometry geometry;

  Index threadIndex() {
    return e.space.scalar(thread, geometry.threads);
  }
  Index blockIndex() {
    return e.space.scalar(block, geometry.blocks);
  }
  // Number of the thread in the grid.
  mlir::Value gridThread();

  // Whether there is a piece of that number; null where all that threads have are there.
  mlir::Value isPiece(mlir::Value number);
  // The number of pieces: known when the kernel runs where a size varies.
  compiler::Number count();
  // value < bound; of the raw value, since an Index below 1 is the constant 0.
  mlir::Value lessThan(mlir::Value value, int64_t bound);
  // The same, for a thread that has none of them to look at the last one: what it finds is dropped.
  mlir::Value below(mlir::Value &number, int64_t count);
  mlir::Value isZero(mlir::Value value);
  // The elements of the vector of this number.
  Index vectorAt(const Index &number);
  // Elements that are emitted now count only where `guard` (null: everywhere) holds: a bad index
  // elsewhere is no failure.
  void setGuard(mlir::Value guard) {
    guard_ = guard;
  }
  // Where `guard`, one for all lanes, holds (null: everywhere).
  mlir::Value accumulate(mlir::linalg::GenericOp reduction, llvm::ArrayRef<Index> position,
                         mlir::Value accumulator, mlir::Value guard) override;

  // The values of the `threads` threads of a group (a power of two: part of a warp, or a whole
  // block) as one, in all of them, in a fixed order. All threads of the block must come here where
  // a group is larger than a warp.
  llvm::SmallVector<mlir::Value> foldGroup(llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
                                           llvm::ArrayRef<mlir::Value> values, int64_t threads);
  // Waits for all threads of the block.
  void barrier();
  // A buffer that the threads of a block share.
  mlir::Value shared(int64_t count, mlir::Type element);

  mlir::Value identityOf(mlir::linalg::GenericOp reduction) {
    return identity(reduction, e.width > 1);
  }

  // Ends the function.
  mlir::LogicalResult finish();

private:
  mlir::Value shuffle(mlir::Value value, int64_t distance);

  mlir::Value guard_, flag_;
  mlir::Value count_; // null: that of the geometry
  int64_t sharedBuffers_ = 0;
};

} // namespace weft::backends::cuda

// Which images of a slice lie with channels last, and the rewriting that makes it so.
#pragma once

#include "compiler/claim/Provider.h"
#include "compiler/layout/LayoutTable.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

// Images are values of four dims: [N, C, H, W] where they are row-major, [N, H, W, C] in memory
// where channels come last.
//
// Where: at convolutions whose library prefers it (Provider::prefersChannelsLast), and from there
// on through what reads their results: elementwise ops, reductions, slices, concatenations, batch
// normalization, max pooling. Values of other ranks, and what an op that is not in this list reads,
// are row-major. A value that one side has and the other needs is transposed once, whoever reads
// it; constants and broadcasts of little are made in both orders instead.
//
// Linear in the ops and their operands. Weaknesses: the decision is one for the whole slice;
// nothing goes from a reader back to what it reads, so that what was computed row-major before the
// first convolution is transposed there; reshapes that split channels (group norm) and windows
// (average pooling) end a region.
class ChannelsLast {
public:
  ChannelsLast(mlir::Block &block, const ProviderSet &providers)
      : block_(block), providers_(providers) {}

  // Whether an op runs with channels last, by what runs so before it.
  void analyze();

  // Of what analyze() found. Bytes of the transposes that stay; of the copies that calls for
  // row-major images would make for themselves.
  int64_t transposedBytes() const {
    return transposedBytes_;
  }
  int64_t copiedBytes() const {
    return copiedBytes_;
  }
  int64_t numTransposes() const {
    return numTransposes_;
  }
  int64_t numConvolutions() const {
    return numConvolutions_;
  }
  bool pays() const;

  // Composites that run with channels last: to be decomposed, and the block analyzed anew, before
  // apply().
  llvm::ArrayRef<mlir::Operation *> composites() const {
    return composites_;
  }

  // Rewrites the block: ops that run with channels last take and give values of [N, H, W, C]; a
  // convolution stands between transposes, which its provider takes in.
  void apply();

private:
  bool runsChannelsLast(mlir::Operation *op) const;
  // For a convolution, the operands that are images, of a library that prefers channels last; empty
  // for other ops.
  llvm::SmallVector<unsigned, 2> imageOperands(mlir::Operation *op) const;
  bool isFree(mlir::Value value) const;
  void countTranspose(mlir::Value value);

  mlir::Value channelsLast(mlir::Value value);
  mlir::Value rowMajorValue(mlir::Value value);
  mlir::Value remade(mlir::Operation *op, mlir::OpBuilder &builder);
  void applyConvolution(mlir::Operation *op);
  void applyOther(mlir::Operation *op);

  mlir::Block &block_;
  const ProviderSet &providers_;
  llvm::DenseSet<mlir::Operation *> ops_;  // those that run with channels last
  llvm::DenseSet<mlir::Value> values_;     // their results that are images
  llvm::DenseSet<mlir::Value> free_;       // images that cost as little to make again as to read
  llvm::DenseSet<mlir::Value> transposed_; // counted
  llvm::SmallVector<mlir::Operation *> composites_;
  int64_t transposedBytes_ = 0, copiedBytes_ = 0, numTransposes_ = 0, numConvolutions_ = 0;
  int64_t transposedOfImage_ = 0,
          copiedOfImage_ = 0; // bytes of one image of a batch: what pays() compares
  // While applying: an image, as [N, C, H, W], to the value of [N, H, W, C]; and where its op is
  // gone, the other way.
  llvm::DenseMap<mlir::Value, mlir::Value> last_, back_;
};

} // namespace weft::compiler

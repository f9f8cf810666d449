// Cuts ops over the axes of a mesh of ranks: each rank computes its part, and collectives stand
// where parts must be exchanged.
//
// A value is whole on all ranks, or each of its dims may be cut along one axis into equal parts, of
// which a rank has one. What an op does with cut operands follows from its index statement. For
// each axis that operands are cut along there is one decision, the one that moves the fewest bytes:
//
//   a dim of the results is cut   matmul (a:data k, k n) -> (a:data n)
//   a reduced dim is cut          matmul (a k:model, k:model n) -> (a n), and all_reduce follows
//   data choose the cut dim       index_select (n:model b, a) -> (a b): each rank looks up what it
//                                 has, and all_reduce follows
//   what is added is cut          index_add (n b, a:data, a:data b) -> (n b): each rank adds what it
//                                 has, and all_reduce follows
//   none                          arg_sort (a b:model) -> (a b), and operands are gathered
//
// Operands that are whole are sliced where the op is cut, and those that are cut elsewhere move.
//
// An op whose operands would be gathered is decomposed where that moves fewer bytes: a softmax over
// a dim that is cut becomes a maximum, exponentials and a sum, and ranks exchange rows. Samples that
// such an op draws are cut as its first operand is: a slice of what one process draws, of which a
// kernel computes no more than it reads.
//
// Weakness: one op after the other, in order. An operand is never cut because of what comes later.
#pragma once

#include <string>

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::compiler {

// The ranks that differ from this one in their place on one axis alone.
struct MeshAxis {
  std::string name;
  std::string group; // as collectives name it
  int64_t rank = 0;  // this one's place on the axis
  int64_t ranks = 1;
};

constexpr int32_t kWhole = -1;
// For each dim of a tensor the axis along which it is cut, or kWhole. No axis stands twice.
using Axes = llvm::SmallVector<int32_t, 4>;

struct ShardedValue {
  mlir::Value part; // what this rank has
  Axes axes;
};

class Sharder {
public:
  // Builds at the builder's place what this rank computes.
  Sharder(mlir::OpBuilder &builder, llvm::ArrayRef<MeshAxis> mesh)
      : builder_(builder), mesh_(mesh) {}

  mlir::OpBuilder &builder() {
    return builder_;
  }
  // A value that the ops to come read, and what this rank has of it.
  void give(mlir::Value whole, ShardedValue sharded) {
    values_[whole] = std::move(sharded);
  }
  // What run() has made of a value, or was given for it.
  const ShardedValue &at(mlir::Value whole) const {
    return values_.find(whole)->second;
  }
  // Cuts the ops of a block but its terminator, in order. Composites that are decomposed are so in
  // the block. Fails with an error at the op where its decomposition does.
  llvm::LogicalResult run(mlir::Block &block);
  // The part that a rank has where the value is cut along `to`, whose parts must be equal.
  mlir::Value reshard(mlir::Location loc, const ShardedValue &value, llvm::ArrayRef<int32_t> to);
  // The reduction of what the ranks of the axis have.
  mlir::Value reduce(mlir::Location loc, mlir::Value partial, ir::Reduction reduction,
                     int32_t axis);
  // This rank's part, along `dim`, of the reduction of what the ranks of the axis have.
  mlir::Value scatter(mlir::Location loc, mlir::Value partial, ir::Reduction reduction, int64_t dim,
                      int32_t axis);

private:
  struct Plan;
  Plan plan(mlir::Operation *op, mlir::OpBuilder &scratch);
  void place(mlir::Operation *op, const Plan &plan);
  // Bytes that ranks exchange where the op is decomposed.
  double movedIfDecomposed(ir::WeftOp op) const;
  mlir::Value lookUp(mlir::Operation *op, mlir::ValueRange operands, const MeshAxis &axis);
  mlir::Value swapped(mlir::Location loc, mlir::Value value, int64_t dim);
  mlir::Value gather(mlir::Location loc, mlir::Value part, int64_t dim, const MeshAxis &axis);
  mlir::Value slice(mlir::Location loc, mlir::Value whole, int64_t dim, const MeshAxis &axis);
  mlir::Value move(mlir::Location loc, mlir::Value part, int64_t from, int64_t to,
                   const MeshAxis &axis);

  mlir::OpBuilder &builder_;
  llvm::ArrayRef<MeshAxis> mesh_;
  llvm::DenseMap<mlir::Value, ShardedValue> values_;
  double moved_ = 0; // bytes that ranks exchange for what was placed
  llvm::DenseMap<mlir::Operation *, Axes> drawn_; // how samples are to be cut
};

// Whether a dim of the size has equal parts on the axis, each with something in it.
inline bool divides(const MeshAxis &axis, int64_t size) {
  return size > 0 && size % axis.ranks == 0;
}
// The sizes of a part, of those of the whole.
template <typename Sizes>
Sizes partSizes(Sizes sizes, llvm::ArrayRef<int32_t> axes, llvm::ArrayRef<MeshAxis> mesh) {
  for (auto [size, axis] : llvm::zip_equal(sizes, axes))
    size /= axis == kWhole ? 1 : mesh[axis].ranks;
  return sizes;
}
// The sizes of the whole, of those of a part.
template <typename Sizes>
Sizes wholeSizes(Sizes sizes, llvm::ArrayRef<int32_t> axes, llvm::ArrayRef<MeshAxis> mesh) {
  for (auto [size, axis] : llvm::zip_equal(sizes, axes))
    size *= axis == kWhole ? 1 : mesh[axis].ranks;
  return sizes;
}

} // namespace weft::compiler

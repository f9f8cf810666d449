// The graph that the fuse phase contracts: groups of ops in a topological order that is kept while
// groups merge.
#pragma once

#include <string>
#include <vector>

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// Whether the op is a constant of equal elements.
bool isSplat(mlir::Operation *op);

// Nodes are ops that become part of exactly one kernel, and barriers, which stay as they are. Free
// ops are no nodes: every kernel that reads one computes it again, and edges run through them. Free
// are splat constants, iotas, reshapes, broadcasts, widening casts, slices, and elementwise ops
// that read only such and no tensor.
class FusionGraph {
public:
  explicit FusionGraph(mlir::Block &block);

  int numNodes() const {
    return static_cast<int>(nodes_.size());
  }
  mlir::Operation *node(int i) const {
    return nodes_[i].op;
  }
  // Whether the node is never fused: provider calls, constants and reshapes that stand alone, the
  // terminator.
  bool isBarrier(int i) const {
    return nodes_[i].barrier;
  }
  bool isFree(mlir::Operation *op) const {
    return free_.count(op);
  }
  llvm::ArrayRef<int> producers(int i) const {
    return nodes_[i].producers;
  }
  llvm::ArrayRef<int> consumers(int i) const {
    return nodes_[i].consumers;
  }

  // The nodes that read a value, through free ops; none where there are more than
  // limits::kMaxReaders.
  void readersOf(mlir::Value value, llvm::SmallVectorImpl<int> &readers) const;

  int groupOf(int node) const;
  llvm::ArrayRef<int> members(int group) const {
    return groups_[group].members;
  }

  // For a kernel of these nodes: its ops in block order, the free ops that they read included, and
  // those of its results that others read.
  void collect(llvm::ArrayRef<int> members, llvm::SmallVectorImpl<mlir::Operation *> &ops,
               llvm::SmallVectorImpl<mlir::Value> &outputs) const;

  // Whether the result of a node is in memory whatever reads it: a library call or the caller reads
  // it, or very many do.
  bool isAlwaysOutput(int i) const {
    return nodes_[i].alwaysOutput;
  }
  // Whether a node of another group reads the node.
  bool isReadByOtherGroup(int i) const;
  // The node of an op, or -1.
  int nodeOf(mlir::Operation *op) const {
    auto it = nodeOf_.find(op);
    return it == nodeOf_.end() ? -1 : it->second;
  }

  // Makes nodes of one group free: each kernel that reads one computes it again. No groups may
  // merge afterwards.
  void setFree(llvm::ArrayRef<int> nodes);
  // Takes the last setFree back.
  void unsetFree(llvm::ArrayRef<int> nodes, int group);

  enum class Order { Fine, Circle, TooFar };
  // Whether two groups can become one: not if a third one lies on a path between them (Circle), nor
  // if the search for such a path takes too long (TooFar). Does not change the graph.
  Order canMerge(int a, int b);
  // Merges the groups of the last canMerge, which said Fine. Returns the group of both.
  int merge(int a, int b);

private:
  struct Node {
    mlir::Operation *op = nullptr;
    bool barrier = false;
    bool alwaysOutput = false; // read by a barrier, or by very many
    llvm::SmallVector<int, 4> producers, consumers;
  };
  struct Group {
    llvm::SmallVector<int, 4> members;
    int position = 0;
    int mark = 0; // of the search that saw it last
  };

  void findHeads(mlir::Block &block);
  void findFreeOps(mlir::Block &block);
  bool canBeFree(mlir::Operation *op, int64_t &size) const;
  // The nodes that an operand reads, through free ops.
  void roots(mlir::Value value, llvm::SmallVectorImpl<int> &result) const;
  bool isReadOutside(mlir::Value value,
                     const llvm::DenseMap<mlir::Operation *, bool> &inside) const;
  bool search(int from, int limitPosition, int target, int skip, bool forward, int mark,
              llvm::SmallVectorImpl<int> &seen, int64_t &budget);

  std::vector<Node> nodes_;
  llvm::DenseMap<mlir::Operation *, int> nodeOf_;
  llvm::DenseMap<mlir::Operation *, int64_t>
      free_; // with the number of free ops that it stands for
  // What attention alone reads, maybe through others of these, and that leaves rows of features as
  // they are: the rows are read from where they lie, at no cost, and those of keys that serve
  // several heads of queries are not copied for each.
  llvm::DenseSet<mlir::Operation *> heads_;
  llvm::DenseMap<mlir::Operation *, int> index_; // position in the block
  mutable std::vector<int> parent_;              // union-find: node -> group
  std::vector<Group> groups_;
  int marks_ = 0;
  llvm::SmallVector<int> before_, after_; // of the last canMerge
};

} // namespace weft::compiler

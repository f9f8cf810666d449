// What the schedules of attention and of its derivative share: a block of queries against a block
// of keys, in scratch that stays in the near caches.
//
// Lanes are queries everywhere. Scores stand key by key, [keys][queries], so that the largest score
// of a query, its sum and all that it is multiplied by are one vector for all its keys, and the two
// products of the forward op read keys and values as they lie, an element at a time, each broadcast
// to the lanes. Only queries are turned, once a block.
//
// Which lanes are computed together differs between machines. What a sum adds up, and in which
// order, does not: the features one by one, the keys of a block one by one, blocks in order.
#pragma once

#include <optional>

#include "compiler/codegen/Limits.h"
#include "compiler/codegen/Schedule.h"

namespace weft::compiler {

// What attention's op and its derivative's have in common.
struct AttentionOperands {
  mlir::Value query, key, value, mask; // of the op; mask may be null
  bool causal;
  double scale;
};

class AttentionTiles {
protected:
  AttentionTiles(KernelBuilder &kernel, const AttentionOperands &op, int64_t vectorBytes);

  using State = KernelFunction::State;
  // A matrix in scratch, row-major; `read` of what lies in memory.
  struct Tile {
    mlir::Value memory;
    int64_t columns = 0;
  };
  Tile tile(int64_t rows, int64_t columns);
  mlir::Value loadFrom(const Tile &tile, const Index &row, const Index &column);
  void storeTo(const Tile &tile, mlir::Value value, const Index &row, const Index &column);
  // tensor[batch..., row, column], of the type that is computed in. Scalar or vector.
  mlir::Value read(mlir::Value tensor, const Index &row, const Index &column,
                   mlir::Value mask = nullptr);
  // tensor[batch..., row], for the lanes of queries.
  mlir::Value readRow(mlir::Value tensor, const Index &row, mlir::Value mask);
  // Where a result of the op is written.
  struct Output {
    int64_t number = -1; // among the kernel's outputs; -1: nowhere, as nobody reads it
    // Dim i in memory is dim order[i] of the result.
    llvm::SmallVector<int64_t, 4> order;
    llvm::SmallVector<int64_t, 4> shape; // in memory
  };
  llvm::SmallVector<Output, 2> outputsOf(mlir::Value result);
  // Of a result that is written once.
  Output outputOf(mlir::Value result);
  // Where an element of the result lies, given its position in the op's result.
  Index placeIn(ElementEmitter &e, const Output &output, llvm::ArrayRef<Index> position);
  void write(const Output &output, llvm::ArrayRef<Index> position, mlir::Value value,
             mlir::Value mask);

  // sum over depth of left(row, depth) * right(depth, column), for all rows and columns, in
  // registers; finish gets each vector of sums. A row of the result that does not exist is never
  // finished.
  struct Product {
    mlir::Value rows; // null: mostRows
    int64_t mostRows;
    mlir::Value depth; // null: mostDepth
    int64_t mostDepth;
    int64_t columns;
    llvm::function_ref<mlir::Value(const Index &row, const Index &depth)> left;
    llvm::function_ref<mlir::Value(const Index &depth, const Index &column, mlir::Value mask)>
        right;
    llvm::function_ref<void(const Index &row, const Index &column, mlir::Value sum,
                            mlir::Value mask)>
        finish;
  };
  void product(const Product &p);

  // For each of count queries from `first` on: to[feature][query] = element(query, features), lanes
  // of `element` being features.
  void
  turn(const Tile &to, const Index &first, int64_t count, int64_t features,
       llvm::function_ref<mlir::Value(const Index &query, const Index &features, mlir::Value mask)>
           element);
  // And back: store(query, lanes of features, element(feature, lanes of queries)).
  void turnBack(const Index &first, int64_t count, int64_t features,
                llvm::function_ref<mlir::Value(const Index &feature, const Index &column)> element,
                llvm::function_ref<void(const Index &query, const Index &features,
                                        mlir::Value value, mlir::Value mask)>
                    store);

  // Elements of the block of keys that starts at `first`. Those of 16 bits are widened once, into
  // scratch: each is read once for every few rows or vectors of a product.
  void startKeys(const Index &first, mlir::Value count);
  mlir::Value keyAt(const Index &key, const Index &feature);
  mlir::Value valueAt(const Index &key, const Index &feature);

  // Queries [first, first + count) and keys of the block: `masked` gives the scores of a key, -inf
  // where it is hidden.
  void startMask(const Index &firstQuery, int64_t count, const Index &firstKey, mlir::Value keys);
  mlir::Value masked(mlir::Value score, const Index &key, const Index &column);

  // turned[feature][query] = scale * query, for count queries from `first` on.
  void turnQueries(const Tile &turned, const Index &first, int64_t count);
  // scores[key][query] of `keys` keys from firstKey on; what is hidden is -inf.
  void scoreKeys(const Tile &scores, const Tile &turned, const Index &firstQuery, int64_t count,
                 const Index &firstKey, mlir::Value keys);
  // x, but 0 where it is -inf: of a query that has seen nothing, lest -inf - -inf gives NaN.
  mlir::Value finiteOrZero(mlir::Value x);

  // emit(first query, how many) for the block of queries that begins at `first`, of a length that
  // varies: code for last blocks of up to kLanes queries, and for all others. Which of the queries
  // there are is asked for in both.
  void blockOfLength(mlir::Value first, llvm::function_ref<void(const Index &, int64_t)> emit);
  // Of lengths that vary: the query, or the last one where it lies behind that; and whether it, or
  // each of a vector of them, is one.
  Index existing(const Index &query);
  mlir::Value exists(mlir::Value query);

  // How many keys the block of queries sees. Those behind weigh 0: they are skipped where `finite`
  // (null: yes) says that what 0 is multiplied by is finite.
  mlir::Value visibleKeys(const Index &firstQuery, int64_t count);
  // Whether all elements of rows [from, to) are: a vector to accumulate into, and what it says.
  mlir::Value noteInfinite(mlir::Value tensor, mlir::Value from, mlir::Value to, int64_t rows,
                           int64_t columns, mlir::Value noted);
  mlir::Value isFinite(mlir::Value noted);
  // emit(its first key, how many it has) for blocks [from, to) that have some of the first `keys`;
  // null: all.
  State keyBlocks(mlir::Value from, mlir::Value to, mlir::Value keys, State state,
                  llvm::function_ref<void(const Index &first, mlir::Value count, State &)> emit);
  // emit(first query, how many) for block `number`.
  void queryBlock(const Index &number,
                  llvm::function_ref<void(const Index &first, int64_t count)> emit);
  int64_t queryBlocks() const {
    return llvm::divideCeil(queries_, kQueryBlock);
  }

  mlir::Value splat(double value);
  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value exponential(mlir::Value x, bool atMostZero);
  int64_t vectorsOf(int64_t count) const {
    return llvm::divideCeil(count, lanes_);
  }
  // A vector of columns: the lanes from `first` on, or vector number `vector` of a row.
  Index columnsFrom(const Index &first) {
    return f_.e.space.add(f_.e.space.lane(lanes_), first);
  }
  Index columnOf(int64_t vector) {
    return columnsFrom(Index::of(vector * lanes_));
  }

  KernelBuilder &kernel_;
  KernelFunction f_;
  mlir::Operation *op_;
  mlir::Value query_, key_, value_, mask_; // tensors of the linalg function
  bool causal_, maskIsBool_ = false;
  double scale_;
  llvm::SmallVector<int64_t> batches_;
  // How many queries and keys there are, and keys of a block. Constants, but where lengths vary.
  struct Lengths {
    mlir::Value queries, keys, keyBlock;
  };
  Lengths lengthsOf(KernelFunction &f);

  // At the largest size, where lengths vary.
  int64_t batchCount_ = 1, queries_, keys_, features_, width_, keyBlock_;
  mlir::Value queriesHere_, keysHere_, keyBlockHere_; // Lengths of f_
  bool varies_ = false;                               // how many queries there are
  bool countsMatrices_ = false;                       // how many matrices there are varies as well
  KeyLength keyLength_ = KeyLength::kStatic;
  mlir::Type compute_;
  int64_t lanes_, rows_;
  llvm::SmallVector<Index> batch_; // of the code being emitted

private:
  void setLengths();

  Index firstQuery_; // of the block
  Index firstKey_;
  std::optional<Tile> turnedMask_, wideKeys_, wideValues_;
};

// vectorBytes: of the machine's widest vectors, which decides no bit.
mlir::LogicalResult scheduleAttention(KernelBuilder &kernel, ir::AttentionOp op,
                                      int64_t vectorBytes);
mlir::LogicalResult scheduleAttentionGradient(KernelBuilder &kernel, ir::AttentionGradientOp op,
                                              int64_t vectorBytes);

} // namespace weft::compiler

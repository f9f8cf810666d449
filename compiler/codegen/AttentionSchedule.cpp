// Attention without the matrix of scores: a block of queries goes through blocks of keys, and keeps
// for each query the largest score so far, the sum of the weights and the weighted values, which
// are scaled down where a larger score comes (M. Milakov and N. Gimelshein, "Online normalizer
// calculation for softmax", 2018; T. Dao et al., "FlashAttention", 2022).
//
// A block of queries is a piece. What it keeps, its turned queries and one block of scores are all
// the memory there is beside operands and results.
#include "compiler/codegen/AttentionTiles.h"

#include <limits>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace weft::compiler {

using namespace mlir;

namespace {

class AttentionSchedule : AttentionTiles {
public:
  AttentionSchedule(KernelBuilder &kernel, ir::AttentionOp op, int64_t vectorBytes);
  LogicalResult run();

private:
  void block(const Index &first, int64_t count);
  LogicalResult runLengths();
  // largest, total: of each vector of queries.
  void keys(const Index &firstQuery, int64_t count, const Index &firstKey, Value here,
            State &state);
  Value keysToVisit(const Index &firstQuery, int64_t count);

  SmallVector<Output, 2> results_; // the result, turned as well
  Output logSumExp_;
  Tile turned_, scores_, sums_, shrink_;
};

} // namespace

AttentionSchedule::AttentionSchedule(KernelBuilder &kernel, ir::AttentionOp op, int64_t vectorBytes)
    : AttentionTiles(kernel,
                     {op.getQuery(), op.getKey(), op.getValue(), op.getMask(), op.getCausal(),
                      op.getScale().convertToDouble()},
                     vectorBytes),
      results_(outputsOf(op.getResult())), logSumExp_(outputOf(op.getLogSumExp())) {
  int64_t columns = roundUp(std::min(queries_, kQueryBlock), lanes_);
  turned_ = tile(features_, columns);
  scores_ = tile(keyBlock_, columns);
  sums_ = tile(width_, columns);
  shrink_ = tile(1, columns);
}

// A hidden key weighs 0, and 0 times a value that is not finite is NaN, in every backend. Where
// there is such a value, no key is skipped.
Value AttentionSchedule::keysToVisit(const Index &firstQuery, int64_t count) {
  Value seen = visibleKeys(firstQuery, count);
  if (!causal_)
    return seen;
  Value noted = noteInfinite(value_, seen, keysHere_, keys_, width_, splat(0));
  return f_.e.make<arith::SelectOp>(isFinite(noted), seen, keysHere_);
}

void AttentionSchedule::keys(const Index &firstQuery, int64_t count, const Index &firstKey,
                             Value here, State &state) {
  ElementEmitter &e = f_.e;
  int64_t vectors = vectorsOf(count), columns = vectors * lanes_;
  scoreKeys(scores_, turned_, firstQuery, count, firstKey, here);
  State before(state.begin(), state.begin() + vectors);
  State largest = f_.loop(0, here, keyBlock_, before, [&](Index key, State &inside) {
    for (int64_t v = 0; v < vectors; ++v)
      inside[v] = e.make<arith::MaximumFOp>(inside[v], loadFrom(scores_, key, columnOf(v)));
  });
  SmallVector<Value> subtracted;
  for (int64_t v = 0; v < vectors; ++v) {
    subtracted.push_back(finiteOrZero(largest[v]));
    Value shrink = exponential(e.make<arith::SubFOp>(before[v], subtracted[v]), true);
    storeTo(shrink_, shrink, Index::of(0), columnOf(v));
  }
  State totals(vectors, splat(0));
  totals = f_.loop(0, here, keyBlock_, totals, [&](Index key, State &inside) {
    for (int64_t v = 0; v < vectors; ++v) {
      Value score = loadFrom(scores_, key, columnOf(v));
      Value weight = exponential(e.make<arith::SubFOp>(score, subtracted[v]), true);
      storeTo(scores_, weight, key, columnOf(v));
      inside[v] = e.make<arith::AddFOp>(inside[v], weight);
    }
  });
  product({.rows = nullptr,
           .mostRows = width_,
           .depth = here,
           .mostDepth = keyBlock_,
           .columns = columns,
           .left = [&](const Index &feature, const Index &key) { return valueAt(key, feature); },
           .right = [&](const Index &key, const Index &column,
                        Value) { return loadFrom(scores_, key, column); },
           .finish =
               [&](const Index &feature, const Index &column, Value sum, Value) {
                 Value there = loadFrom(sums_, feature, column),
                       shrink = loadFrom(shrink_, Index::of(0), column);
                 storeTo(sums_, multiplyAdd(there, shrink, sum), feature, column);
               }});
  for (int64_t v = 0; v < vectors; ++v) {
    Value shrink = loadFrom(shrink_, Index::of(0), columnOf(v));
    state[vectors + v] = multiplyAdd(state[vectors + v], shrink, totals[v]);
    state[v] = largest[v];
  }
}

void AttentionSchedule::block(const Index &first, int64_t count) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t vectors = vectorsOf(count);
  turnQueries(turned_, first, count);
  f_.loop(width_, [&](Index feature) {
    for (int64_t v = 0; v < vectors; ++v)
      storeTo(sums_, splat(0), feature, columnOf(v));
  });
  State state(vectors, splat(-std::numeric_limits<double>::infinity()));
  state.append(vectors, splat(0));
  state = keyBlocks(nullptr, nullptr, keysToVisit(first, count), state,
                    [&](const Index &firstKey, Value here, State &inside) {
                      keys(first, count, firstKey, here, inside);
                    });
  Tile inverse = shrink_; // which no block of keys needs any more
  for (int64_t v = 0; v < vectors; ++v) {
    Value total = state[vectors + v];
    Value none = e.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, total, splat(0));
    storeTo(inverse,
            e.make<arith::DivFOp>(splat(1), e.make<arith::SelectOp>(none, splat(1), total)),
            Index::of(0), columnOf(v));
    if (logSumExp_.number < 0)
      continue;
    int64_t lanes = std::min(lanes_, count - v * lanes_);
    Value log = math::LogOp::create(f_.builder, e.loc, total);
    SmallVector<Index> position(batch_);
    position.push_back(space.add(first, space.add(space.lane(lanes), v * lanes_)));
    write(logSumExp_, position, e.make<arith::AddFOp>(finiteOrZero(state[v]), log),
          varies_ ? exists(e.vectorIndex(position.back())) : e.tailMask(lanes));
  }
  if (results_.empty())
    return;
  turnBack(
      first, count, width_,
      [&](const Index &feature, const Index &column) {
        return e.make<arith::MulFOp>(loadFrom(sums_, feature, column),
                                     loadFrom(inverse, Index::of(0), column));
      },
      [&](const Index &query, const Index &features, Value value, Value mask) {
        SmallVector<Index> position(batch_);
        position.append({query, features});
        f_.when(varies_ ? exists(e.scalarIndex(query)) : Value(), [&] {
          for (const Output &result : results_)
            write(result, position, value, mask);
        });
      });
}

// Pieces are queries, one matrix after the other, or matrices. A range has the blocks that begin in
// it.
LogicalResult AttentionSchedule::runLengths() {
  ElementEmitter &e = f_.e;
  kernel_.info.count = batchCount_ * (countsMatrices_ ? 1 : queries_);
  auto blocksIn = [&](Value queries) {
    return f_.e.divideUp(queries, kQueryBlock);
  };
  Value inMatrix = blocksIn(queriesHere_);
  auto blocksBefore = [&](Value piece) -> Value {
    if (countsMatrices_)
      return e.mul(piece, inMatrix);
    Value matrices = e.div(piece, queriesHere_), rest = e.rem(piece, queriesHere_);
    return e.add(e.mul(matrices, inMatrix), blocksIn(rest));
  };
  f_.loop(blocksBefore(f_.begin), blocksBefore(f_.end), batchCount_ * queryBlocks(),
          [&](Index number) {
            Value block = e.scalarIndex(number), matrix = e.div(block, inMatrix);
            batch_ = e.space.delinearize(e.space.scalar(matrix, batchCount_), batches_);
            blockOfLength(e.mul(e.rem(block, inMatrix), kQueryBlock),
                          [&](const Index &first, int64_t count) { this->block(first, count); });
          });
  return f_.finish();
}

LogicalResult AttentionSchedule::run() {
  if (varies_)
    return runLengths();
  int64_t blocks = queryBlocks();
  kernel_.info.count = batchCount_ * blocks;
  if (kernel_.info.count == 0)
    return f_.finish();
  f_.loop(f_.begin, f_.end, kernel_.info.count, [&](Index piece) {
    auto [batch, number] = f_.e.space.divide(piece, blocks);
    batch_ = f_.e.space.delinearize(batch, batches_);
    queryBlock(number, [&](const Index &first, int64_t count) { block(first, count); });
  });
  return f_.finish();
}

LogicalResult scheduleAttention(KernelBuilder &kernel, ir::AttentionOp op, int64_t vectorBytes) {
  return AttentionSchedule(kernel, op, vectorBytes).run();
}

} // namespace weft::compiler

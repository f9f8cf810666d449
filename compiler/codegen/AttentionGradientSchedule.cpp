// The derivative of attention without the matrix of scores: the weights of a block of queries and a
// block of keys are computed again from log_sum_exp (T. Dao et al., "FlashAttention", 2022), and
// five products are made of each such block.
//
// A matrix of the leading dims is a piece: its blocks of queries follow each other, so that each
// adds to the gradients of keys and values without a second writer. Where matrices are few, a piece
// has a part of the keys; what its keys give to the queries is a partial result.
#include "compiler/codegen/AttentionTiles.h"

#include <limits>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace weft::compiler {

using namespace mlir;

namespace {

class AttentionGradientSchedule : AttentionTiles {
public:
  AttentionGradientSchedule(KernelBuilder &kernel, ir::AttentionGradientOp op, int64_t vectorBytes);
  LogicalResult run();

private:
  // Sums that all blocks of queries add to: in the output, or in scratch where that is narrower
  // than what sums are computed in.
  struct Sums {
    Output output;
    int64_t columns = 0;
    bool inScratch = false;
    Tile scratch;
  };
  Sums sumsOf(Value result, int64_t columns);
  // Those of the piece's keys.
  void startSums(const Sums &sums);
  void addTo(const Sums &sums, const Index &key, const Index &column, Value sum, Value mask);
  void finishSums(const Sums &sums);
  SmallVector<Index> at(const Index &row, const Index &column);
  int64_t wantedParts(); // of the keys, where there are as many blocks
  // Into how many parts the keys are cut, and how many blocks each has.
  struct Parts {
    Value count, blocks;
  };
  Parts partsOf(ElementEmitter &e, const Lengths &lengths);

  void piece(const Index &matrix, const Index &part);
  void matrix();
  LogicalResult addParts();
  void rowsOf(const Index &first, int64_t count);
  void block(const Index &first, int64_t count);
  void keys(const Index &firstQuery, int64_t count, Value queries, const Index &firstKey,
            Value here);
  // The lanes of queries from `first` on that there are.
  Value isQuery(const Index &first, int64_t lanes);

  Value result_, logSumExp_, gradient_, sumGradient_; // tensors of the linalg function
  Output ofQuery_;
  Sums ofKey_, ofValue_;
  Tile turnedQuery_, turnedGradient_, weights_, errors_, querySums_, logs_, shared_;
  Value finite_; // null: nothing is skipped
  int64_t mostParts_; // of the keys; of fewer keys there are as many or fewer
  Parts parts_;
  int64_t partials_ = 0; // offset
  Index piece_;
  Value firstBlock_, endBlock_, firstOwn_, endOwn_;
};

} // namespace

AttentionGradientSchedule::AttentionGradientSchedule(KernelBuilder &kernel,
                                                     ir::AttentionGradientOp op,
                                                     int64_t vectorBytes)
    : AttentionTiles(kernel,
                     {op.getQuery(), op.getKey(), op.getValue(), op.getMask(), op.getCausal(),
                      op.getScale().convertToDouble()},
                     vectorBytes),
      result_(kernel.lowered.lookup(op.getResult())),
      logSumExp_(kernel.lowered.lookup(op.getLogSumExp())),
      gradient_(kernel.lowered.lookup(op.getGradient())) {
  if (op.getSumGradient())
    sumGradient_ = kernel.lowered.lookup(op.getSumGradient());
  ofQuery_ = outputOf(op.getQueryGradient());
  ofKey_ = sumsOf(op.getKeyGradient(), features_);
  ofValue_ = sumsOf(op.getValueGradient(), width_);
  int64_t columns = roundUp(std::min(queries_, kQueryBlock), lanes_);
  turnedQuery_ = tile(features_, columns);
  turnedGradient_ = tile(width_, columns);
  weights_ = tile(keyBlock_, columns);
  errors_ = tile(keyBlock_, columns);
  querySums_ = tile(features_, columns);
  logs_ = tile(1, columns);
  parts_ = partsOf(f_.e, {queriesHere_, keysHere_, keyBlockHere_});
  mostParts_ = getConstantIntValue(parts_.count)
                   .value_or(std::min<int64_t>(llvm::divideCeil(keys_, keyBlock_), wantedParts()));
  if (mostParts_ > 1 && ofQuery_.number >= 0)
    partials_ = kernel.claimPartials(batchCount_ * mostParts_ * queries_ * features_ *
                                     memoryBytes(compute_));
  shared_ = tile(1, columns);
}

// A kernel that counts matrices has enough of them (WholeKernels.cpp).
int64_t AttentionGradientSchedule::wantedParts() {
  return kernel_.sizes && (!varies_ || countsMatrices_)
             ? 1
             : llvm::divideCeil(kLeastMatrices, std::max<int64_t>(1, batchCount_));
}

AttentionGradientSchedule::Parts AttentionGradientSchedule::partsOf(ElementEmitter &e,
                                                                    const Lengths &lengths) {
  Value blocks = e.max(e.divideUp(lengths.keys, lengths.keyBlock), 1),
        wanted = e.min(blocks, wantedParts()), inEach = e.divideUp(blocks, wanted);
  return {e.divideUp(blocks, inEach), inEach};
}

//===-- Sums over queries ---------------------------------------------------------------------===//

AttentionGradientSchedule::Sums AttentionGradientSchedule::sumsOf(Value result, int64_t columns) {
  Sums sums;
  sums.output = outputOf(result);
  sums.columns = columns;
  if (sums.output.number < 0)
    return sums;
  Type element = getElementTypeOrSelf(result.getType());
  if (element != compute_) {
    sums.inScratch = true;
    sums.scratch = tile(keys_, columns);
  }
  return sums;
}

SmallVector<Index> AttentionGradientSchedule::at(const Index &row, const Index &column) {
  SmallVector<Index> position(batch_);
  position.append({row, column});
  return position;
}
Value AttentionGradientSchedule::isQuery(const Index &first, int64_t lanes) {
  Value exist = f_.e.tailMask(lanes);
  if (!varies_)
    return exist;
  Value here = exists(f_.e.vectorIndex(f_.e.space.add(first, f_.e.space.lane(lanes))));
  return exist ? f_.e.make<arith::AndIOp>(exist, here) : here;
}

// emit(key, first column, lanes) for all vectors of a matrix of keys.
template <typename Emit>
static void overMatrix(KernelFunction &f, Value from, Value to, int64_t keys, int64_t columns,
                       int64_t lanes, Emit emit) {
  f.loop(from, to, std::max<int64_t>(keys, 1), [&](Index key) {
    f.blocks(columns, lanes, [&](const Index &column, int64_t some) { emit(key, column, some); });
  });
}

void AttentionGradientSchedule::startSums(const Sums &sums) {
  if (sums.output.number < 0)
    return;
  overMatrix(f_, firstOwn_, endOwn_, keys_, sums.columns, lanes_,
             [&](const Index &key, const Index &first, int64_t lanes) {
               Index column = f_.e.space.add(first, f_.e.space.lane(lanes));
               if (sums.inScratch)
                 f_.e.store(sums.scratch.memory, splat(0),
                            f_.e.space.add(f_.e.space.scale(key, sums.columns), column),
                            f_.e.tailMask(lanes));
               else
                 write(sums.output, at(key, column), splat(0), f_.e.tailMask(lanes));
             });
}

void AttentionGradientSchedule::addTo(const Sums &sums, const Index &key, const Index &column,
                                      Value sum, Value mask) {
  ElementEmitter &e = f_.e;
  Value memory = sums.inScratch ? sums.scratch.memory : f_.output(sums.output.number);
  Index place = sums.inScratch ? e.space.add(e.space.scale(key, sums.columns), column)
                               : placeIn(e, sums.output, at(key, column));
  Value there = e.broadcast(e.load(memory, compute_, place, mask));
  e.store(memory, e.make<arith::AddFOp>(there, sum), place, mask);
}

void AttentionGradientSchedule::finishSums(const Sums &sums) {
  if (!sums.inScratch)
    return;
  overMatrix(f_, firstOwn_, endOwn_, keys_, sums.columns, lanes_,
             [&](const Index &key, const Index &first, int64_t lanes) {
               ElementEmitter &e = f_.e;
               Index column = e.space.add(first, e.space.lane(lanes));
               Value sum =
                   e.load(sums.scratch.memory, compute_,
                          e.space.add(e.space.scale(key, sums.columns), column), e.tailMask(lanes));
               write(sums.output, at(key, column), e.broadcast(sum), e.tailMask(lanes));
             });
}

//===-- Blocks --------------------------------------------------------------------------------===//

// queries: how many of `count` there are, where lengths vary; else null.
void AttentionGradientSchedule::keys(const Index &firstQuery, int64_t count, Value queries,
                                     const Index &firstKey, Value here) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t vectors = vectorsOf(count), columns = vectors * lanes_;
  scoreKeys(weights_, turnedQuery_, firstQuery, count, firstKey, here);
  bool needsErrors = ofQuery_.number >= 0 || ofKey_.output.number >= 0;
  if (needsErrors)
    product({.rows = here,
             .mostRows = keyBlock_,
             .depth = nullptr,
             .mostDepth = width_,
             .columns = columns,
             .left = [&](const Index &key, const Index &feature) { return valueAt(key, feature); },
             .right = [&](const Index &feature, const Index &column,
                          Value) { return loadFrom(turnedGradient_, feature, column); },
             .finish = [&](const Index &key, const Index &column, Value sum,
                           Value) { storeTo(errors_, sum, key, column); }});
  f_.loop(0, here, keyBlock_, [&](Index key) {
    for (int64_t v = 0; v < vectors; ++v) {
      Value log = loadFrom(logs_, Index::of(0), columnOf(v)),
            score = loadFrom(weights_, key, columnOf(v));
      Value weight = exponential(e.make<arith::SubFOp>(score, log), false);
      storeTo(weights_, weight, key, columnOf(v));
      if (!needsErrors)
        continue;
      Value error = e.make<arith::SubFOp>(loadFrom(errors_, key, columnOf(v)),
                                          loadFrom(shared_, Index::of(0), columnOf(v)));
      error = e.make<arith::MulFOp>(e.make<arith::MulFOp>(weight, error), splat(scale_));
      storeTo(errors_, error, key, columnOf(v));
    }
  });
  // sums[key] += over queries of tile[key, query] * tensor[query].
  auto addOverQueries = [&](const Sums &sums, const Tile &tile, Value tensor) {
    if (sums.output.number < 0)
      return;
    product(
        {.rows = here,
         .mostRows = keyBlock_,
         .depth = queries,
         .mostDepth = count,
         .columns = sums.columns,
         .left = [&](const Index &key, const Index &query) { return loadFrom(tile, key, query); },
         .right =
             [&](const Index &query, const Index &column, Value mask) {
               return read(tensor, space.add(firstQuery, query), column, mask);
             },
         .finish = [&](const Index &key, const Index &column, Value sum,
                       Value mask) { addTo(sums, space.add(firstKey, key), column, sum, mask); }});
  };
  addOverQueries(ofValue_, weights_, gradient_);
  addOverQueries(ofKey_, errors_, query_);
  if (ofQuery_.number < 0)
    return;
  product({.rows = nullptr,
           .mostRows = features_,
           .depth = here,
           .mostDepth = keyBlock_,
           .columns = columns,
           .left = [&](const Index &feature, const Index &key) { return keyAt(key, feature); },
           .right = [&](const Index &key, const Index &column,
                        Value) { return loadFrom(errors_, key, column); },
           .finish =
               [&](const Index &feature, const Index &column, Value sum, Value) {
                 Value there = loadFrom(querySums_, feature, column);
                 storeTo(querySums_, e.make<arith::AddFOp>(there, sum), feature, column);
               }});
}

// log_sum_exp, and sum(gradient * result) - sum_gradient, for each query.
void AttentionGradientSchedule::rowsOf(const Index &first, int64_t count) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t vectors = vectorsOf(count);
  State sums(vectors, splat(0));
  // The features' products, turned, one after another.
  turn(turnedGradient_, first, count, width_,
       [&](const Index &query, const Index &features, Value mask) {
         Index there = existing(query);
         return e.make<arith::MulFOp>(e.broadcast(read(gradient_, there, features, mask)),
                                      e.broadcast(read(result_, there, features, mask)));
       });
  sums = f_.loop(width_, sums, [&](Index feature, State &inside) {
    for (int64_t v = 0; v < vectors; ++v)
      inside[v] = e.make<arith::AddFOp>(inside[v], loadFrom(turnedGradient_, feature, columnOf(v)));
  });
  for (int64_t v = 0; v < vectors; ++v) {
    int64_t lanes = std::min(lanes_, count - v * lanes_);
    Value mask = isQuery(space.add(first, v * lanes_), lanes);
    Index row = space.add(first, space.add(space.lane(lanes), v * lanes_));
    if (sumGradient_)
      sums[v] = e.make<arith::SubFOp>(sums[v], readRow(sumGradient_, row, mask));
    storeTo(shared_, sums[v], Index::of(0), columnOf(v));
    storeTo(logs_, finiteOrZero(readRow(logSumExp_, row, mask)), Index::of(0), columnOf(v));
  }
  turn(turnedGradient_, first, count, width_,
       [&](const Index &query, const Index &features, Value mask) {
         return read(gradient_, existing(query), features, mask);
       });
}

void AttentionGradientSchedule::block(const Index &first, int64_t count) {
  ElementEmitter &e = f_.e;
  Value visible = visibleKeys(first, count), queries;
  if (finite_)
    visible = e.make<arith::SelectOp>(finite_, visible, keysHere_);
  if (varies_)
    queries = e.min(e.sub(queriesHere_, first), count);
  turnQueries(turnedQuery_, first, count);
  rowsOf(first, count);
  f_.loop(features_, [&](Index feature) {
    for (int64_t v = 0; v < vectorsOf(count); ++v)
      storeTo(querySums_, splat(0), feature, columnOf(v));
  });
  keyBlocks(firstBlock_, endBlock_, visible, {}, [&](const Index &firstKey, Value here, State &) {
    keys(first, count, queries, firstKey, here);
  });
  if (ofQuery_.number < 0)
    return;
  turnBack(
      first, count, features_,
      [&](const Index &feature, const Index &column) {
        return loadFrom(querySums_, feature, column);
      },
      [&](const Index &query, const Index &features, Value value, Value mask) {
        f_.when(varies_ ? exists(e.scalarIndex(query)) : Value(), [&] {
          if (mostParts_ == 1)
            return write(ofQuery_, at(query, features), value, mask);
          int64_t pieces = batchCount_ * mostParts_;
          Index place =
              e.space.linearize({piece_, query, features}, {pieces, queries_, features_});
          e.store(f_.partials(partials_, pieces * queries_ * features_, compute_), value, place,
                  mask);
        });
      });
}

// The gradient of queries, from what parts of the keys gave, in order.
LogicalResult AttentionGradientSchedule::addParts() {
  kernel_.info.finish = kernel_.info.symbol + "_finish";
  KernelFunction f(kernel_, kernel_.info.finish);
  ElementEmitter &e = f.e;
  e.width = lanes_;
  Lengths lengths = lengthsOf(f);
  Value parts = partsOf(e, lengths).count;
  int64_t pieces = batchCount_ * mostParts_;
  Value partials = f.partials(partials_, pieces * queries_ * features_, compute_);
  f.loop(batchCount_, [&](Index matrix) {
    SmallVector<Index> batch = e.space.delinearize(matrix, batches_);
    f.loop(0, lengths.queries, queries_, [&](Index query) {
      f.blocks(features_, lanes_, [&](const Index &first, int64_t lanes) {
        Index column = e.space.add(first, e.space.lane(lanes));
        Value mask = e.tailMask(lanes);
        auto partAt = [&](const Index &part) {
          Index piece = e.space.add(e.space.scale(matrix, mostParts_), part);
          return e.broadcast(e.load(partials, compute_,
                                    e.space.linearize({piece, query, column},
                                                      {pieces, queries_, features_}),
                                    mask));
        };
        Value sum =
            f.loop(1, parts, mostParts_, {partAt(Index::of(0))}, [&](Index part, State &inside) {
              inside[0] = e.make<arith::AddFOp>(inside[0], partAt(part));
            })[0];
        Value memory = f.output(ofQuery_.number);
        Type element = cast<MemRefType>(memory.getType()).getElementType();
        if (element != compute_)
          sum = e.make<arith::TruncFOp>(e.vectorOf(element), sum);
        SmallVector<Index> position(batch);
        position.append({query, column});
        e.store(memory, sum, placeIn(e, ofQuery_, position), mask);
      });
    });
  });
  return f.finish();
}

void AttentionGradientSchedule::matrix() {
  ElementEmitter &e = f_.e;
  startSums(ofKey_);
  startSums(ofValue_);
  // A hidden key has a weight of 0, and 0 times what is not finite is NaN, in every backend. Where
  // there is such an element, no key is skipped.
  finite_ = nullptr;
  if (causal_) {
    Value noted = splat(0), none = e.constantIndex(0);
    auto note = [&](Value tensor, Value rows, int64_t most, int64_t columns) {
      noted = noteInfinite(tensor, none, rows, most, columns, noted);
    };
    note(query_, queriesHere_, queries_, features_);
    note(key_, keysHere_, keys_, features_);
    note(value_, keysHere_, keys_, width_);
    note(gradient_, queriesHere_, queries_, width_);
    note(result_, queriesHere_, queries_, width_);
    auto noteRows = [&](Value tensor, bool takesMinusInfinity) {
      auto one = [&](Index number, State &sum) {
        Index rows = e.space.add(e.space.scale(number, lanes_), e.space.lane(lanes_));
        Value x = readRow(tensor, rows, exists(e.vectorIndex(rows)));
        if (takesMinusInfinity)
          x = finiteOrZero(x);
        sum[0] = multiplyAdd(splat(0), x, sum[0]);
      };
      noted = f_.loop(0, f_.e.divideUp(queriesHere_, lanes_), vectorsOf(queries_), {noted}, one)[0];
    };
    noteRows(logSumExp_, true);
    if (sumGradient_)
      noteRows(sumGradient_, false);
    finite_ = isFinite(noted);
  }
  f_.loop(0, f_.e.divideUp(queriesHere_, kQueryBlock), queryBlocks(), [&](Index number) {
    auto emit = [&](const Index &first, int64_t count) {
      block(first, count);
    };
    if (varies_)
      blockOfLength(e.mul(number, kQueryBlock), emit);
    else
      queryBlock(number, emit);
  });
  finishSums(ofKey_);
  finishSums(ofValue_);
}

void AttentionGradientSchedule::piece(const Index &matrix, const Index &part) {
  ElementEmitter &e = f_.e;
  piece_ = e.space.add(e.space.scale(matrix, mostParts_), part);
  batch_ = e.space.delinearize(matrix, batches_);
  firstBlock_ = e.mul(part, parts_.blocks);
  endBlock_ = e.add(firstBlock_, parts_.blocks);
  firstOwn_ = e.mul(firstBlock_, keyBlockHere_);
  endOwn_ = e.min(e.mul(endBlock_, keyBlockHere_), keysHere_);
  this->matrix();
}

LogicalResult AttentionGradientSchedule::run() {
  ElementEmitter &e = f_.e;
  int64_t pieces = batchCount_ * mostParts_;
  // Of lengths that vary the launch counts queries, or matrices (kLengthsAttr): a range has the
  // pieces that begin in it.
  kernel_.info.count = batchCount_ * (!varies_ ? mostParts_ : countsMatrices_ ? 1 : queries_);
  if (kernel_.info.count == 0)
    return f_.finish();
  auto piecesBefore = [&](Value counted) {
    Value pieces = e.mul(counted, parts_.count);
    return countsMatrices_ ? pieces : f_.e.divideUp(pieces, queriesHere_);
  };
  Value begin = varies_ ? piecesBefore(f_.begin) : f_.begin,
        end = varies_ ? piecesBefore(f_.end) : f_.end;
  f_.loop(begin, end, pieces, [&](Index number) {
    if (!varies_) {
      auto [matrix, part] = e.space.divide(number, mostParts_);
      return piece(matrix, part);
    }
    Value value = e.scalarIndex(number);
    piece(e.space.scalar(e.div(value, parts_.count), batchCount_),
          e.space.scalar(e.rem(value, parts_.count), mostParts_));
  });
  if (failed(f_.finish()))
    return failure();
  return mostParts_ > 1 && ofQuery_.number >= 0 ? addParts() : success();
}

LogicalResult scheduleAttentionGradient(KernelBuilder &kernel, ir::AttentionGradientOp op,
                                        int64_t vectorBytes) {
  return AttentionGradientSchedule(kernel, op, vectorBytes).run();
}

} // namespace weft::compiler

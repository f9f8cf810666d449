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

namespace weft::compiler {

namespace arith = mlir::arith;
using mlir::Value;

namespace {

class AttentionGradientSchedule : AttentionTiles {
public:
  AttentionGradientSchedule(KernelBuilder &kernel, ir::AttentionGradientOp op, int64_t vectorBytes);
  mlir::LogicalResult run();

private:
  // Sums that all blocks of queries add to: in the output, or in scratch where that is narrower
  // than what sums are computed in.
  struct Sums {
    int64_t output = -1;
    int64_t columns = 0;
    bool inScratch = false;
    Tile scratch;
  };
  Sums sumsOf(Value result, int64_t columns);
  // Those of the piece's keys.
  void startSums(const Sums &sums);
  void addTo(const Sums &sums, const Index &key, const Index &column, Value sum, Value mask);
  void finishSums(const Sums &sums);
  llvm::SmallVector<Index> at(const Index &row, const Index &column);
  llvm::SmallVector<int64_t> shapeOf(int64_t rows, int64_t columns);

  void matrix();
  mlir::LogicalResult addParts();
  void rowsOf(const Index &first, int64_t count);
  void block(const Index &first, int64_t count, Value keys);
  void keys(const Index &firstQuery, int64_t count, const Index &firstKey, Value here);

  Value result_, logSumExp_, gradient_, sumGradient_; // tensors of the linalg function
  int64_t ofQuery_;
  Sums ofKey_, ofValue_;
  Tile turnedQuery_, turnedGradient_, weights_, errors_, querySums_, logs_, shared_;
  Value finite_; // null: nothing is skipped
  // Of the keys: parts, blocks in each; those of the piece.
  int64_t parts_ = 1, blocksPerPart_;
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
  int64_t blocks = std::max<int64_t>(1, llvm::divideCeil(keys_, keyBlock_)),
          wanted = llvm::divideCeil(kLeastMatrices, std::max<int64_t>(1, batchCount_));
  if (kernel.sizes)
    wanted = 1; // the matrices behind the leading dim are enough (Sizes.cpp)
  blocksPerPart_ = llvm::divideCeil(blocks, std::min(blocks, wanted));
  parts_ = llvm::divideCeil(blocks, blocksPerPart_);
  if (parts_ > 1 && ofQuery_ >= 0)
    partials_ =
        kernel.claimPartials(batchCount_ * parts_ * queries_ * features_ * memoryBytes(compute_));
  shared_ = tile(1, columns);
}

//===-- Sums over queries ---------------------------------------------------------------------===//

AttentionGradientSchedule::Sums AttentionGradientSchedule::sumsOf(Value result, int64_t columns) {
  Sums sums;
  sums.output = outputOf(result);
  sums.columns = columns;
  if (sums.output < 0)
    return sums;
  mlir::Type element = mlir::getElementTypeOrSelf(result.getType());
  if (element != compute_) {
    sums.inScratch = true;
    sums.scratch = tile(keys_, columns);
  }
  return sums;
}

llvm::SmallVector<Index> AttentionGradientSchedule::at(const Index &row, const Index &column) {
  llvm::SmallVector<Index> position(batch_);
  position.append({row, column});
  return position;
}
llvm::SmallVector<int64_t> AttentionGradientSchedule::shapeOf(int64_t rows, int64_t columns) {
  llvm::SmallVector<int64_t> shape(batches_);
  shape.append({rows, columns});
  return shape;
}

// emit(key, first column, lanes) for all vectors of a matrix of keys.
template <typename Emit>
static void overMatrix(KernelFunction &f, Value from, Value to, int64_t keys, int64_t columns,
                       int64_t lanes, Emit emit) {
  f.loop(from, to, std::max<int64_t>(keys, 1), {}, [&](Index key, KernelFunction::State &) {
    f.blocks(columns, lanes, {}, [&](const Index &column, int64_t some, KernelFunction::State &) {
      emit(key, column, some);
    });
  });
}

void AttentionGradientSchedule::startSums(const Sums &sums) {
  if (sums.output < 0)
    return;
  overMatrix(f_, firstOwn_, endOwn_, keys_, sums.columns, lanes_,
             [&](const Index &key, const Index &first, int64_t lanes) {
               Index column = f_.e.space.add(first, f_.e.space.lane(lanes));
               if (sums.inScratch)
                 f_.e.store(sums.scratch.memory, splat(0),
                            f_.e.space.add(f_.e.space.scale(key, sums.columns), column),
                            f_.e.tailMask(lanes));
               else
                 write(f_.output(sums.output), at(key, column), shapeOf(keys_, sums.columns),
                       splat(0), f_.e.tailMask(lanes));
             });
}

void AttentionGradientSchedule::addTo(const Sums &sums, const Index &key, const Index &column,
                                      Value sum, Value mask) {
  ElementEmitter &e = f_.e;
  Value memory = sums.inScratch ? sums.scratch.memory : f_.output(sums.output);
  Index place = sums.inScratch ? e.space.add(e.space.scale(key, sums.columns), column)
                               : e.space.linearize(at(key, column), shapeOf(keys_, sums.columns));
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
               write(f_.output(sums.output), at(key, column), shapeOf(keys_, sums.columns),
                     e.broadcast(sum), e.tailMask(lanes));
             });
}

//===-- Blocks --------------------------------------------------------------------------------===//

void AttentionGradientSchedule::keys(const Index &firstQuery, int64_t count, const Index &firstKey,
                                     Value here) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t vectors = vectorsOf(count), columns = vectors * lanes_;
  scoreKeys(weights_, turnedQuery_, firstQuery, count, firstKey, here);
  bool needsErrors = ofQuery_ >= 0 || ofKey_.output >= 0;
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
  f_.loop(constant(0), here, keyBlock_, {}, [&](Index key, State &) {
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
    if (sums.output < 0)
      return;
    product(
        {.rows = here,
         .mostRows = keyBlock_,
         .depth = nullptr,
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
  if (ofQuery_ < 0)
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
         return e.make<arith::MulFOp>(e.broadcast(read(gradient_, query, features, mask)),
                                      e.broadcast(read(result_, query, features, mask)));
       });
  sums = f_.loop(width_, sums, [&](Index feature, State &inside) {
    for (int64_t v = 0; v < vectors; ++v)
      inside[v] = e.make<arith::AddFOp>(inside[v], loadFrom(turnedGradient_, feature, columnOf(v)));
  });
  for (int64_t v = 0; v < vectors; ++v) {
    int64_t lanes = std::min(lanes_, count - v * lanes_);
    Value mask = e.tailMask(lanes);
    Index row = space.add(first, space.add(space.lane(lanes), v * lanes_));
    if (sumGradient_)
      sums[v] = e.make<arith::SubFOp>(sums[v], readRow(sumGradient_, row, mask));
    storeTo(shared_, sums[v], Index::of(0), columnOf(v));
    storeTo(logs_, finiteOrZero(readRow(logSumExp_, row, mask)), Index::of(0), columnOf(v));
  }
  turn(turnedGradient_, first, count, width_,
       [&](const Index &query, const Index &features, Value mask) {
         return read(gradient_, query, features, mask);
       });
}

void AttentionGradientSchedule::block(const Index &first, int64_t count, Value visible) {
  ElementEmitter &e = f_.e;
  turnQueries(turnedQuery_, first, count);
  rowsOf(first, count);
  f_.loop(features_, {}, [&](Index feature, State &) {
    for (int64_t v = 0; v < vectorsOf(count); ++v)
      storeTo(querySums_, splat(0), feature, columnOf(v));
  });
  keyBlocks(firstBlock_, endBlock_, visible, {}, [&](const Index &firstKey, Value here, State &) {
    keys(first, count, firstKey, here);
  });
  if (ofQuery_ < 0)
    return;
  turnBack(
      first, count, features_,
      [&](const Index &feature, int64_t v) { return loadFrom(querySums_, feature, columnOf(v)); },
      [&](const Index &query, const Index &features, Value value, Value mask) {
        if (parts_ == 1)
          return write(f_.output(ofQuery_), at(query, features), shapeOf(queries_, features_),
                       value, mask);
        int64_t pieces = batchCount_ * parts_;
        Index place = e.space.linearize({piece_, query, features}, {pieces, queries_, features_});
        e.store(f_.partials(partials_, pieces * queries_ * features_, compute_), value, place,
                mask);
      });
}

// The gradient of queries, from what parts of the keys gave, in order.
mlir::LogicalResult AttentionGradientSchedule::addParts() {
  kernel_.info.finish = kernel_.info.symbol + "_finish";
  KernelFunction f(kernel_, kernel_.info.finish);
  ElementEmitter &e = f.e;
  int64_t size = queries_ * features_;
  Value partials = f.partials(partials_, batchCount_ * parts_ * size, compute_);
  f.loop(batchCount_, {}, [&](Index batch, State &) {
    f.run(size, 1, Index::of(0), {}, [&](llvm::ArrayRef<KernelFunction::Unit> units, State &) {
      for (const KernelFunction::Unit &unit : units) {
        Value sum;
        for (int64_t part = 0; part < parts_; ++part) {
          Index place = e.space.add(e.space.scale(batch, parts_ * size), part * size);
          Value next =
              e.broadcast(e.load(partials, compute_, e.space.add(place, unit.position), unit.mask));
          sum = sum ? e.make<arith::AddFOp>(sum, next) : next;
        }
        mlir::Type element =
            mlir::cast<mlir::MemRefType>(f.output(ofQuery_).getType()).getElementType();
        if (element != compute_)
          sum = e.make<arith::TruncFOp>(e.vectorOf(element), sum);
        e.store(f.output(ofQuery_), sum, e.space.add(e.space.scale(batch, size), unit.position),
                unit.mask);
      }
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
    Value noted = splat(0), none = constant(0);
    auto note = [&](Value tensor, int64_t rows, int64_t columns) {
      noted = noteInfinite(tensor, none, constant(rows), rows, columns, noted);
    };
    note(query_, queries_, features_);
    note(key_, keys_, features_);
    note(value_, keys_, width_);
    note(gradient_, queries_, width_);
    note(result_, queries_, width_);
    auto noteRows = [&](Value tensor, bool takesMinusInfinity) {
      auto one = [&](const Index &first, int64_t lanes, State &sum) {
        Value x = readRow(tensor, e.space.add(first, e.space.lane(lanes)), e.tailMask(lanes));
        if (takesMinusInfinity)
          x = finiteOrZero(x);
        sum[0] = multiplyAdd(splat(0), x, sum[0]);
      };
      noted = f_.blocks(queries_, lanes_, {noted}, one)[0];
    };
    noteRows(logSumExp_, true);
    if (sumGradient_)
      noteRows(sumGradient_, false);
    finite_ = isFinite(noted);
  }
  f_.loop(queryBlocks(), {}, [&](Index number, State &) {
    queryBlock(number, [&](const Index &first, int64_t count) {
      Value visible = visibleKeys(first, count);
      if (finite_)
        visible = e.make<arith::SelectOp>(finite_, visible, constant(keys_));
      block(first, count, visible);
    });
  });
  finishSums(ofKey_);
  finishSums(ofValue_);
}

mlir::LogicalResult AttentionGradientSchedule::run() {
  kernel_.info.count = batchCount_ * parts_;
  if (kernel_.info.count == 0)
    return f_.finish();
  f_.loop(f_.begin, f_.end, kernel_.info.count, {}, [&](Index piece, State &) {
    ElementEmitter &e = f_.e;
    auto [batch, part] = e.space.divide(piece, parts_);
    piece_ = piece;
    batch_ = e.space.delinearize(batch, batches_);
    firstBlock_ = e.scalarIndex(e.space.scale(part, blocksPerPart_));
    endBlock_ = e.make<arith::AddIOp>(firstBlock_, constant(blocksPerPart_));
    firstOwn_ = e.make<arith::MulIOp>(firstBlock_, constant(keyBlock_));
    endOwn_ = e.make<arith::MinUIOp>(e.make<arith::MulIOp>(endBlock_, constant(keyBlock_)),
                                     constant(keys_));
    matrix();
  });
  if (mlir::failed(f_.finish()))
    return mlir::failure();
  return parts_ > 1 && ofQuery_ >= 0 ? addParts() : mlir::success();
}

mlir::LogicalResult scheduleAttentionGradient(KernelBuilder &kernel, ir::AttentionGradientOp op,
                                              int64_t vectorBytes) {
  return AttentionGradientSchedule(kernel, op, vectorBytes).run();
}

} // namespace weft::compiler

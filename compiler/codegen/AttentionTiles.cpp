#include "compiler/codegen/AttentionTiles.h"

#include <limits>

#include "compiler/codegen/MatmulProduct.h"
#include "dialects/weft/ir/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

using namespace mlir;
using ir::typeOf;

// Blocks of equal length, so that the last one is no sliver.
void AttentionTiles::setLengths() {
  for (Operation *op : kernel_.ops)
    if (auto lengths = op->getAttrOfType<IntegerAttr>(kLengthsAttr)) {
      varies_ = true;
      keyLength_ = static_cast<KeyLength>(lengths.getInt());
      countsMatrices_ = op->hasAttr(kMatricesAttr);
    }
  int64_t blocks = std::max<int64_t>(1, llvm::divideCeil(keys_, kKeyBlock)),
          longest = keyLength_ == KeyLength::kStatic
                        ? std::max<int64_t>(1, llvm::divideCeil(keys_, blocks))
                        : std::min(keys_, kKeyBlock);
  keyBlock_ = roundUp(longest, kKeyUnit);
  auto [queries, keys, keyBlock] = lengthsOf(f_);
  queriesHere_ = queries, keysHere_ = keys, keyBlockHere_ = keyBlock;
}

AttentionTiles::Lengths AttentionTiles::lengthsOf(KernelFunction &f) {
  ElementEmitter &e = f.e;
  Lengths here{e.constantIndex(queries_), e.constantIndex(keys_), e.constantIndex(keyBlock_)};
  if (!varies_)
    return here;
  auto ints = f.function.getArguments().take_back(kernel_.numInts());
  here.queries = countsMatrices_ ? ints[1] : Value(e.div(ints[0], batchCount_));
  e.lengths[LengthDim::kOwn] = here.queries;
  if (keyLength_ == KeyLength::kStatic)
    return here;
  here.keys = keyLength_ == KeyLength::kOwn ? ints.back() : here.queries;
  e.lengths[LengthDim::kOfKeys] = here.keys;
  Value inEach = e.divideUp(here.keys, e.divideUp(here.keys, kKeyBlock));
  here.keyBlock = e.mul(e.divideUp(inEach, kKeyUnit), kKeyUnit);
  return here;
}

AttentionTiles::AttentionTiles(KernelBuilder &kernel, const AttentionOperands &op,
                               int64_t vectorBytes)
    : kernel_(kernel), f_(kernel, kernel.info.symbol), causal_(op.causal), scale_(op.scale) {
  query_ = kernel.lowered.lookup(op.query);
  key_ = kernel.lowered.lookup(op.key);
  value_ = kernel.lowered.lookup(op.value);
  if (op.mask) {
    mask_ = kernel.lowered.lookup(op.mask);
    maskIsBool_ = typeOf(mask_).getElementType().isInteger(1);
  }
  ArrayRef<int64_t> shape = ir::shapeOf(query_);
  batches_.assign(shape.begin(), shape.end() - 2);
  batchCount_ = ShapedType::getNumElements(batches_);
  queries_ = shape.end()[-2];
  features_ = shape.back();
  keys_ = ir::shapeOf(value_).end()[-2];
  width_ = ir::shapeOf(value_).back();
  setLengths();
  Type element = typeOf(query_).getElementType();
  compute_ = element.isF64() ? element : f_.builder.getF32Type();
  lanes_ = std::min(kLanes, vectorBytes / memoryBytes(compute_));
  rows_ = kTileRows.of(vectorBytes);
  f_.e.width = lanes_;
  if (element != compute_) {
    wideKeys_ = tile(keyBlock_, roundUp(features_, lanes_));
    wideValues_ = tile(keyBlock_, roundUp(width_, lanes_));
  }
  if (mask_ && typeOf(mask_).getRank() >= 2 && ir::shapeOf(mask_).back() != 1 &&
      ir::shapeOf(mask_).end()[-2] != 1)
    // Vectors end with the last key, so that the first may begin before the block.
    turnedMask_ = tile(keyBlock_ + 2 * lanes_, roundUp(std::min(queries_, kQueryBlock), lanes_));
}

// The result itself, or a transpose of it.
SmallVector<AttentionTiles::Output, 2> AttentionTiles::outputsOf(Value result) {
  ArrayRef<int64_t> shape = ir::shapeOf(result);
  SmallVector<Output, 2> all;
  for (auto [number, output] : llvm::enumerate(kernel_.outputs)) {
    auto transpose = output.getDefiningOp<ir::TransposeOp>();
    if (output != result && (!transpose || transpose.getInput() != result))
      continue;
    Output found{static_cast<int64_t>(number), {}, {}};
    for (size_t dim = 0; dim < shape.size(); ++dim)
      found.order.push_back(output == result ? static_cast<int64_t>(dim)
                                             : transpose.getPermutation()[dim]);
    for (int64_t dim : found.order)
      found.shape.push_back(shape[dim]);
    all.push_back(std::move(found));
  }
  return all;
}

AttentionTiles::Output AttentionTiles::outputOf(Value result) {
  SmallVector<Output, 2> all = outputsOf(result);
  return all.empty() ? Output() : all.front();
}

Index AttentionTiles::placeIn(ElementEmitter &e, const Output &output, ArrayRef<Index> position) {
  SmallVector<Index> there;
  for (int64_t dim : output.order)
    there.push_back(position[dim]);
  return e.linearize(there, output.shape,
                     kernel_.lengthDim(kernel_.numInputs() + output.number));
}

//===-- Memory --------------------------------------------------------------------------------===//

AttentionTiles::Tile AttentionTiles::tile(int64_t rows, int64_t columns) {
  int64_t count = std::max<int64_t>(1, rows * columns);
  return {f_.scratch(kernel_.claimScratch(count * memoryBytes(compute_)), count, compute_),
          columns};
}
Value AttentionTiles::loadFrom(const Tile &tile, const Index &row, const Index &column) {
  IndexSpace &space = f_.e.space;
  return f_.e.load(tile.memory, compute_, space.add(space.scale(row, tile.columns), column),
                   nullptr);
}
void AttentionTiles::storeTo(const Tile &tile, Value value, const Index &row, const Index &column) {
  IndexSpace &space = f_.e.space;
  f_.e.store(tile.memory, value, space.add(space.scale(row, tile.columns), column), nullptr);
}

static Value widened(ElementEmitter &e, Value value, Type to) {
  if (getElementTypeOrSelf(value.getType()) == to)
    return value;
  bool isVector = isa<VectorType>(value.getType());
  return e.make<arith::ExtFOp>(isVector ? Type(e.vectorOf(to)) : to, value);
}

Value AttentionTiles::read(Value tensor, const Index &row, const Index &column, Value mask) {
  SmallVector<Index> position(batch_);
  position.append({row, column});
  return widened(f_.e, f_.e.at(tensor, position, mask), compute_);
}
Value AttentionTiles::readRow(Value tensor, const Index &row, Value mask) {
  SmallVector<Index> position(batch_);
  position.push_back(row);
  return f_.e.broadcast(widened(f_.e, f_.e.at(tensor, position, mask), compute_));
}
void AttentionTiles::write(const Output &output, ArrayRef<Index> position, Value value,
                           Value mask) {
  Value memory = f_.output(output.number);
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  if (element != compute_)
    value = f_.e.make<arith::TruncFOp>(f_.e.vectorOf(element), value);
  f_.e.store(memory, value, placeIn(f_.e, output, position), mask);
}

void AttentionTiles::startKeys(const Index &first, Value count) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  firstKey_ = first;
  auto widen = [&](const std::optional<Tile> &to, Value tensor, int64_t columns) {
    if (!to)
      return;
    f_.loop(0, count, keyBlock_, [&](Index key) {
      f_.blocks(columns, lanes_, [&](const Index &column, int64_t lanes) {
        Value line = read(tensor, space.add(first, key), space.add(column, space.lane(lanes)),
                          e.tailMask(lanes));
        storeTo(*to, e.broadcast(line), key, space.add(column, space.lane(lanes_)));
      });
    });
  };
  widen(wideKeys_, key_, features_);
  widen(wideValues_, value_, width_);
}
Value AttentionTiles::keyAt(const Index &key, const Index &feature) {
  return wideKeys_ ? loadFrom(*wideKeys_, key, feature)
                   : read(key_, f_.e.space.add(firstKey_, key), feature);
}
Value AttentionTiles::valueAt(const Index &key, const Index &feature) {
  return wideValues_ ? loadFrom(*wideValues_, key, feature)
                     : read(value_, f_.e.space.add(firstKey_, key), feature);
}

//===-- Values --------------------------------------------------------------------------------===//

Value AttentionTiles::splat(double value) {
  return f_.e.broadcast(f_.e.constant(cast<TypedAttr>(f_.builder.getFloatAttr(compute_, value))));
}
Value AttentionTiles::multiplyAdd(Value a, Value b, Value c) {
  return f_.e.make<math::FmaOp>(f_.e.broadcast(a), b, c);
}
Value AttentionTiles::exponential(Value x, bool atMostZero) {
  auto op = math::ExpOp::create(f_.builder, f_.e.loc, x);
  if (atMostZero)
    op->setAttr(ir::kNonPositiveAttr, f_.builder.getUnitAttr());
  return op;
}

//===-- Products ------------------------------------------------------------------------------===//

void AttentionTiles::product(const Product &p) {
  if (p.columns == 0 || p.mostRows == 0)
    return;
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t all = vectorsOf(p.columns), panels = llvm::divideCeil(all, kTileVectors),
          vectors = llvm::divideCeil(all, std::max<int64_t>(panels, 1)),
          whole = p.columns / (vectors * lanes_), rest = p.columns - whole * vectors * lanes_;
  Value rows = p.rows ? p.rows : e.constantIndex(p.mostRows),
        depth = p.depth ? p.depth : e.constantIndex(p.mostDepth);
  auto panel = [&](const Index &firstRow, bool isWhole, const Index &firstColumn, int64_t count,
                   int64_t last) {
    SmallVector<Index> row;
    for (int64_t r = 0; r < rows_; ++r) {
      row.push_back(space.add(firstRow, r));
      // Rows behind the last one are computed as the last one is.
      if (!isWhole && r > 0)
        row.back() = space.scalar(e.min(row.back(), e.sub(rows, 1)), p.mostRows);
    }
    auto lanesOf = [&](int64_t v) {
      return v + 1 < count ? lanes_ : last;
    };
    auto columnAt = [&](int64_t v) {
      return space.add(firstColumn, space.add(space.lane(lanesOf(v)), v * lanes_));
    };
    State sums(rows_ * count, splat(0));
    auto step = [&](Index at, State &inside) {
      SmallVector<Value> right;
      for (int64_t v = 0; v < count; ++v)
        right.push_back(e.broadcast(p.right(at, columnAt(v), e.tailMask(lanesOf(v)))));
      for (int64_t r = 0; r < rows_; ++r) {
        Value a = p.left(row[r], at);
        for (int64_t v = 0; v < count; ++v)
          inside[r * count + v] = multiplyAdd(a, right[v], inside[r * count + v]);
      }
    };
    sums = f_.loop(0, depth, std::max<int64_t>(p.mostDepth, 1), sums, step);
    for (int64_t r = 0; r < rows_; ++r) {
      auto finish = [&] {
        for (int64_t v = 0; v < count; ++v)
          p.finish(row[r], columnAt(v), sums[r * count + v], e.tailMask(lanesOf(v)));
      };
      if (isWhole || r == 0)
        finish();
      else
        f_.when(e.compare(arith::CmpIPredicate::ult, space.add(firstRow, r), rows), finish);
    }
  };
  auto group = [&](const Index &firstRow, bool isWhole) {
    f_.loop(whole, [&](Index number) {
      panel(firstRow, isWhole, space.scale(number, vectors * lanes_), vectors, lanes_);
    });
    if (rest > 0)
      panel(firstRow, isWhole, Index::of(whole * vectors * lanes_), vectorsOf(rest),
            rest % lanes_ ? rest % lanes_ : lanes_);
  };
  int64_t mostWhole = p.mostRows / rows_;
  Value wholeRows = e.div(rows, rows_);
  if (mostWhole > 0)
    f_.loop(0, wholeRows, mostWhole,
            [&](Index number) { group(space.scale(number, rows_), true); });
  if (!p.rows && p.mostRows % rows_ == 0)
    return;
  Value first = e.mul(wholeRows, rows_);
  f_.when(e.compare(arith::CmpIPredicate::ult, first, rows),
          [&] { group(space.scalar(first, p.mostRows), false); });
}

//===-- Turning -------------------------------------------------------------------------------===//

void AttentionTiles::turn(const Tile &to, const Index &first, int64_t count, int64_t features,
                          function_ref<Value(const Index &, const Index &, Value)> element) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  f_.blocks(features, lanes_, [&](const Index &feature, int64_t deep) {
    f_.blocks(count, lanes_, [&](const Index &query, int64_t some) {
      Value mask = e.tailMask(deep);
      SmallVector<Value> lines(lanes_, splat(0));
      for (int64_t i = 0; i < some; ++i)
        lines[i] = e.broadcast(element(space.add(space.add(first, query), i),
                                       space.add(feature, space.lane(deep)), mask));
      transposeLanes(e, lines);
      for (int64_t j = 0; j < deep; ++j)
        storeTo(to, lines[j], space.add(feature, j), columnsFrom(query));
    });
  });
}

void AttentionTiles::turnBack(
    const Index &first, int64_t count, int64_t features,
    function_ref<Value(const Index &, const Index &)> element,
    function_ref<void(const Index &, const Index &, Value, Value)> store) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  f_.blocks(features, lanes_, [&](const Index &feature, int64_t deep) {
    f_.blocks(count, lanes_, [&](const Index &query, int64_t some) {
      SmallVector<Value> lines(lanes_, splat(0));
      for (int64_t j = 0; j < deep; ++j)
        lines[j] = element(space.add(feature, j), columnsFrom(query));
      transposeLanes(e, lines);
      for (int64_t i = 0; i < some; ++i)
        store(space.add(space.add(first, query), i), space.add(feature, space.lane(deep)), lines[i],
              e.tailMask(deep));
    });
  });
}

//===-- Masks ---------------------------------------------------------------------------------===//

void AttentionTiles::startMask(const Index &firstQuery, int64_t count, const Index &firstKey,
                               Value keys) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  firstQuery_ = firstQuery;
  if (!turnedMask_)
    return;
  // Rows of the tile are keys, of which the block's first one is row `lanes`.
  int64_t deep = std::min(lanes_, keys_);
  ArrayRef<int64_t> shape = ir::shapeOf(mask_);
  Value blocks = e.divideUp(keys, lanes_);
  f_.loop(0, blocks, vectorsOf(keyBlock_), [&](Index number) {
    Value wanted = e.scalarIndex(space.add(firstKey, space.scale(number, lanes_)));
    Index start = space.scalar(e.min(wanted, keys_ - deep), std::max<int64_t>(1, keys_ - deep + 1));
    Value lanes = e.tailMask(deep);
    // Not negative: a vector begins less than its length before the block.
    Value local = e.sub(space.add(start, lanes_), firstKey);
    Index row = space.scalar(local, keyBlock_ + lanes_ + 1);
    f_.blocks(count, lanes_, [&](const Index &query, int64_t some) {
      SmallVector<Value> lines(lanes_, splat(0));
      for (int64_t i = 0; i < some; ++i) {
        SmallVector<Index> position;
        int64_t leading = shape.size() - 2, missing = batch_.size() - leading;
        for (int64_t b = 0; b < leading; ++b)
          position.push_back(shape[b] == 1 ? Index::of(0) : batch_[missing + b]);
        position.push_back(existing(space.add(space.add(firstQuery, query), i)));
        position.push_back(space.add(start, space.lane(deep)));
        Value line = e.broadcast(e.at(mask_, position, lanes));
        lines[i] = maskIsBool_ ? e.make<arith::SelectOp>(line, splat(1), splat(0))
                               : widened(e, line, compute_);
      }
      transposeLanes(e, lines);
      for (int64_t j = 0; j < deep; ++j)
        storeTo(*turnedMask_, lines[j], space.add(row, j), columnsFrom(query));
    });
  });
}

// key: in its block; column: lanes of queries, in theirs.
Value AttentionTiles::masked(Value score, const Index &key, const Index &column) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  Value hidden = splat(-std::numeric_limits<double>::infinity());
  if (mask_) {
    Value value;
    if (turnedMask_) {
      value = loadFrom(*turnedMask_, space.add(key, lanes_), column);
      if (maskIsBool_)
        value = e.make<arith::CmpFOp>(arith::CmpFPredicate::ONE, value, splat(0));
    } else {
      ArrayRef<int64_t> shape = ir::shapeOf(mask_);
      SmallVector<Index> all(batch_), position;
      Index query = space.add(firstQuery_, column);
      all.append({query, space.add(firstKey_, key)});
      int64_t missing = all.size() - shape.size();
      for (auto [i, size] : llvm::enumerate(shape))
        position.push_back(size == 1 ? Index::of(0) : all[missing + i]);
      bool perQuery = shape.size() >= 2 && shape.end()[-2] != 1;
      Value areQueries;
      if (perQuery && (varies_ || queries_ % lanes_ != 0))
        areQueries = exists(e.vectorIndex(query));
      value = e.broadcast(e.at(mask_, position, areQueries));
      if (!maskIsBool_)
        value = widened(e, value, compute_);
    }
    score = maskIsBool_ ? e.make<arith::SelectOp>(value, score, hidden)
                        : e.make<arith::AddFOp>(score, value);
  }
  if (!causal_)
    return score;
  // Key j is seen by query i where j - shift <= i.
  Type i32 = f_.builder.getI32Type();
  Index query = space.add(firstQuery_, column), from = query;
  llvm::erase_if(from.terms, [&](auto term) { return !space.symbol(term.first).uniform; });
  Index behind = space.add(from, space.scale(space.add(firstKey_, key), -1));
  Value shift = e.sub(queriesHere_, keysHere_);
  Value least = e.make<arith::IndexCastOp>(i32, e.sub(shift, behind));
  Value isSeen = e.compare(arith::CmpIPredicate::sge, e.laneNumbers(), e.broadcast(least));
  return e.make<arith::SelectOp>(isSeen, score, hidden);
}

//===-- Blocks --------------------------------------------------------------------------------===//

Index AttentionTiles::existing(const Index &query) {
  if (!varies_)
    return query;
  ElementEmitter &e = f_.e;
  Value last = e.sub(queriesHere_, 1);
  return e.space.scalar(e.min(query, last), queries_);
}

Value AttentionTiles::exists(Value query) {
  bool isVector = isa<VectorType>(query.getType());
  return f_.e.compare(arith::CmpIPredicate::ult, query,
                      isVector ? f_.e.broadcast(queriesHere_) : queriesHere_);
}

Value AttentionTiles::visibleKeys(const Index &firstQuery, int64_t count) {
  if (!causal_)
    return keysHere_;
  ElementEmitter &e = f_.e;
  Value last = e.add(e.space.add(firstQuery, count), e.sub(keysHere_, queriesHere_));
  last = e.maxSigned(last, 0);
  return e.minSigned(last, keysHere_);
}

Value AttentionTiles::noteInfinite(Value tensor, Value from, Value to, int64_t rows,
                                   int64_t columns, Value noted) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  // 0 times an element is 0 or NaN.
  return f_.loop(from, to, std::max<int64_t>(rows, 1), {noted}, [&](Index row, State &sum) {
    sum = f_.blocks(columns, lanes_, sum, [&](const Index &column, int64_t lanes, State &inside) {
      Value x =
          e.broadcast(read(tensor, row, space.add(column, space.lane(lanes)), e.tailMask(lanes)));
      inside[0] = multiplyAdd(splat(0), x, inside[0]);
    });
  })[0];
}

Value AttentionTiles::isFinite(Value noted) {
  ElementEmitter &e = f_.e;
  Value sum = e.make<vector::ReductionOp>(vector::CombiningKind::ADD, noted);
  return e.make<arith::CmpFOp>(arith::CmpFPredicate::ORD, sum, sum);
}

AttentionTiles::State
AttentionTiles::keyBlocks(Value from, Value to, Value keys, State state,
                          function_ref<void(const Index &, Value, State &)> emit) {
  ElementEmitter &e = f_.e;
  Value blocks = f_.e.divideUp(keys, keyBlockHere_);
  if (to)
    blocks = e.min(blocks, to);
  return f_.loop(from ? from : f_.e.constantIndex(0), blocks,
                 std::max<int64_t>(1, llvm::divideCeil(keys_, keyBlock_)), std::move(state),
                 [&](Index number, State &inside) {
                   Index first = e.space.scale(number, keyBlock_);
                   if (varies_)
                     first = e.space.scalar(e.mul(number, keyBlockHere_), keys_);
                   Value left = e.sub(keys, first);
                   emit(first, e.min(left, keyBlockHere_), inside);
                 });
}

void AttentionTiles::queryBlock(const Index &number,
                                function_ref<void(const Index &, int64_t)> emit) {
  f_.block(number, queries_, kQueryBlock, emit);
}

void AttentionTiles::blockOfLength(Value first, function_ref<void(const Index &, int64_t)> emit) {
  ElementEmitter &e = f_.e;
  Index from = e.space.scalar(first, queries_);
  // No more than tiles have columns.
  int64_t most = roundUp(std::min(kQueryBlock, queries_), lanes_);
  if (most <= kLanes)
    return emit(from, most);
  Value hasMore = e.compare(arith::CmpIPredicate::ugt, e.sub(queriesHere_, first), kLanes);
  f_.when(hasMore, [&] { emit(from, most); }, [&] { emit(from, kLanes); });
}

void AttentionTiles::turnQueries(const Tile &turned, const Index &first, int64_t count) {
  ElementEmitter &e = f_.e;
  turn(turned, first, count, features_, [&](const Index &query, const Index &features, Value mask) {
    return e.make<arith::MulFOp>(e.broadcast(read(query_, existing(query), features, mask)),
                                 splat(scale_));
  });
}

void AttentionTiles::scoreKeys(const Tile &scores, const Tile &turned, const Index &firstQuery,
                               int64_t count, const Index &firstKey, Value keys) {
  startKeys(firstKey, keys);
  startMask(firstQuery, count, firstKey, keys);
  product({.rows = keys,
           .mostRows = keyBlock_,
           .depth = nullptr,
           .mostDepth = features_,
           .columns = vectorsOf(count) * lanes_,
           .left = [&](const Index &key, const Index &feature) { return keyAt(key, feature); },
           .right = [&](const Index &feature, const Index &column,
                        Value) { return loadFrom(turned, feature, column); },
           .finish = [&](const Index &key, const Index &column, Value sum,
                         Value) { storeTo(scores, masked(sum, key, column), key, column); }});
}

Value AttentionTiles::finiteOrZero(Value x) {
  ElementEmitter &e = f_.e;
  Value none = e.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, x,
                                     splat(-std::numeric_limits<double>::infinity()));
  return e.make<arith::SelectOp>(none, splat(0), x);
}

} // namespace weft::compiler

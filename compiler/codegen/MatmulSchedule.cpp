// Products of matrices that no library takes: float64, and small ones.
//
// A tile of the result stays in registers while the depth goes by: some rows, each times a few
// vectors of columns (Tiling). The right side's columns lie in panels as wide as a tile. A block of
// panels is copied to scratch, depth by depth, so that the tile's loads are in a row whatever its
// strides are (K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication",
// 2008); the depth is cut so that the block stays in the L2 cache. Products that are small enough
// read the right side where it lies.
//
// A right side that is computed from one of fewer bits (compiler/fusion/NarrowMatrix.h) is copied
// as it lies, turned by words of 32 bits, and converted where a tile loads it.
//
// The sum of a part of the depth starts at 0 and adds its products in order, by fused
// multiply-adds; where the depth is cut, the parts are added in order, in the result. So its bits
// depend neither on tiles, which differ between machines, nor on threads, nor on transposes, and a
// deep product loses no more than a part's products and the parts do.
#include "compiler/codegen/MatmulSchedule.h"

#include "compiler/codegen/Limits.h"
#include "compiler/codegen/MatmulProduct.h"
#include "compiler/fusion/NarrowMatrix.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// Bytes of a word, which are elements of a narrow right side.
constexpr int64_t kWordBytes = 4;

// Elements of 8 bits as kernels store them (StorageTypes.h), and back.
Value asType(ElementEmitter &e, Value elements, Type element) {
  Type to = cast<VectorType>(elements.getType()).clone(element);
  if (to == elements.getType())
    return elements;
  return e.make<UnrealizedConversionCastOp>(to, elements);
}

struct Tiling {
  int64_t lanes;         // of a vector
  int64_t rows, vectors; // of a tile
  int64_t rowBlocks, panels, columnBlocks;
  int64_t panelsPerBlock; // at most
  int64_t chunks, depth;  // the depth is cut into; each but the last has
  bool packsRight;
};

class MatmulSchedule : MatmulProduct {
public:
  MatmulSchedule(KernelBuilder &kernel, ir::MatmulOp op, int64_t vectorBytes);
  LogicalResult run();

private:
  void choose(int64_t vectorBytes);
  // All rows of [from, to) blocks, of one block of columns.
  void block(const Index &batch, const Index &columns, Value from, Value to);
  // Some rows of all columns of a block.
  void rowsOf(int64_t rows, const Index &first);
  void tile(int64_t rows, int64_t vectors, int64_t lastLanes, const Index &first,
            const Index &panel);
  Value withEarlierParts(Value sum, const Index &place, const Index &lost, Value mask);
  void packRight();
  // The same by words of the narrow side.
  void packWords();
  void findNarrow(ir::MatmulOp op);
  // The right side's elements of some columns, `part` of the depth within the words.
  Value fromWords(Value words, int64_t part, const Index &depth, const Index &column, Value mask);
  // v[j] lane i = read(i) lane j for `count` rows, over the depth of the chunk: store(depth,
  // vector).
  void packAcross(int64_t count,
                  function_ref<Value(int64_t row, const Index &depth, Value mask)> read,
                  function_ref<void(const Index &depth, Value value)> store);
  void panelsOf(function_ref<void(const Index &panel, int64_t vectors, int64_t lastLanes)> emit);
  KernelFunction::State overDepth(KernelFunction::State state,
                                  function_ref<void(Index, KernelFunction::State &)> emit);
  Index bounded(Value value, int64_t extent) {
    return f_.e.space.scalar(value, std::max<int64_t>(extent, 1));
  }
  Value leftAt(const Index &row, const Index &depth, Value mask = nullptr) {
    return f_.e.at(left_, positionIn(left_, transposeLeft_, row, depth), mask);
  }
  Value rightAt(const Index &depth, const Index &column, Value mask) {
    return f_.e.at(right_, positionIn(right_, transposeRight_, depth, column), mask);
  }
  // Asks for the line of an element, which may lie outside of the side.
  void prefetch(Value side, ArrayRef<Index> position, bool nearest = true);

  bool transposeLeft_, transposeRight_;
  // Pieces are rows, of a product of rows whose number varies: the end of the range says how many
  // there are.
  bool piecesAreRows_;
  Tiling t_;
  bool converts_ = false; // computes the right side from one of fewer bits
  Value narrow_;      // what the right side is computed from, element by element; null for others
  int64_t units_ = 1; // depth of a step: a word's, or 1 where it is not copied as it lies
  Value scratch_, lost_; // what parts lose is small beside a left side of such a depth
  // Of the code being emitted.
  Index firstPanel_, firstDepth_;
  Value depthHere_, panelsEnd_, isLastBlock_, isFirstChunk_, isLastChunk_;
};

} // namespace

MatmulSchedule::MatmulSchedule(KernelBuilder &kernel, ir::MatmulOp op, int64_t vectorBytes)
    : MatmulProduct(kernel, op), transposeLeft_(op.getTransposeLhs()),
      transposeRight_(op.getTransposeRhs()) {
  piecesAreRows_ = kernel.sizes && batches_.empty();
  findNarrow(op);
  choose(vectorBytes);
}

// Words are turned where what stands beside them (a scale of each column) needs no gather across
// columns, as that of groups of the depth does.
void MatmulSchedule::findNarrow(ir::MatmulOp op) {
  std::optional<NarrowMatrix> matrix = narrowMatrixOf(op);
  converts_ = matrix.has_value();
  if (!matrix)
    return;
  Value narrow;
  for (Operation *each : *matrix)
    for (Value operand : each->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument || ir::typeOf(operand).getNumElements() <= std::max(n_, k_))
        continue;
      if (ir::shapeOf(operand) != ir::shapeOf(op.getRhs()) || (narrow && narrow != operand))
        return;
      narrow = operand;
    }
  Type element = narrow ? ir::typeOf(narrow).getElementType() : Type();
  if (element && !element.isInteger(1) && memoryBytes(element) == 1)
    narrow_ = kernel_.lowered.lookup(narrow);
}

void MatmulSchedule::choose(int64_t vectorBytes) {
  int64_t bytes = memoryBytes(element_);
  t_.lanes = std::min(kLanes, vectorBytes / std::max<int64_t>(bytes, 4));
  MatmulParts parts = matmulParts(k_);
  t_.chunks = parts.count;
  t_.depth = parts.depth;
  if (narrow_ && transposeRight_) {
    int64_t last = k_ - (t_.chunks - 1) * t_.depth;
    if (std::min(t_.depth, last) >= kWordBytes * t_.lanes && t_.depth % kWordBytes == 0 &&
        last % kWordBytes == 0)
      units_ = kWordBytes;
  }
  // Blocks of equal height, so that the last one is no sliver.
  int64_t mostRows = kTileRows.of(vectorBytes), sums = kTileSums.of(vectorBytes);
  if (converts_ && units_ == 1 && !transposeRight_)
    mostRows = kNarrowTileRows.of(vectorBytes);
  t_.rowBlocks = llvm::divideCeil(std::max<int64_t>(m_, 1), mostRows);
  t_.rows = piecesAreRows_ ? std::clamp<int64_t>(m_, 1, mostRows)
                           : llvm::divideCeil(std::max<int64_t>(m_, 1), t_.rowBlocks);
  // Of a product whose rows are counted at run time tiles are what ranges begin at.
  auto choose = [&](StringRef name, int64_t preferred, int64_t most) {
    SmallVector<int64_t> legal;
    for (int64_t some : {1, 2, 3, 4, 6, 8})
      if (some <= most)
        legal.push_back(some);
    return piecesAreRows_ ? preferred : kernel_.choices.number(name, preferred, legal);
  };
  t_.rows = choose("tile_rows", t_.rows, m_);
  t_.rowBlocks = llvm::divideCeil(m_, t_.rows);
  int64_t vectors = llvm::divideCeil(std::max<int64_t>(n_, 1), t_.lanes);
  int64_t most = std::max(kTileVectors, sums / t_.rows);
  // Beside a vector's sums there are its words and what is made of them.
  if (units_ > 1)
    most = std::max<int64_t>(1, (kVectorRegisters.of(vectorBytes) - 4) / (t_.rows + 2));
  t_.panels = llvm::divideCeil(vectors, most);
  t_.vectors = choose("tile_vectors", llvm::divideCeil(vectors, t_.panels), vectors);
  t_.panels = llvm::divideCeil(vectors, t_.vectors);
  int64_t panelBytes = std::max<int64_t>(1, t_.depth * t_.vectors * t_.lanes * bytes);
  t_.panelsPerBlock = std::clamp<int64_t>(kBlockBytes / panelBytes, 1, t_.panels);
  int64_t cuts = llvm::divideCeil(kLeastPieces, std::max<int64_t>(1, batchCount_ * t_.rowBlocks));
  if (!piecesAreRows_)
    t_.panelsPerBlock =
        std::min(t_.panelsPerBlock, static_cast<int64_t>(llvm::divideCeil(t_.panels, cuts)));
  // What is copied for few rows is read once or some times, from the nearest cache.
  if (units_ > 1)
    t_.panelsPerBlock = 1;
  t_.columnBlocks = llvm::divideCeil(t_.panels, t_.panelsPerBlock);
  t_.panelsPerBlock = llvm::divideCeil(t_.panels, t_.columnBlocks);
  bool packs = transposeRight_ || (m_ > kPlainRows && t_.depth * n_ * bytes > kPlainBytes);
  t_.packsRight =
      packs ? transposeRight_ || piecesAreRows_ || kernel_.choices.number("pack", 1, {0, 1})
            : !piecesAreRows_ && kernel_.choices.number("pack", 0, {0, 1});
  if (units_ > 1)
    t_.packsRight = true;
  kernel_.info.count = piecesAreRows_ ? m_ : batchCount_ * t_.columnBlocks * t_.rowBlocks;
  if (n_ == 0)
    kernel_.info.count = 0;
  if (piecesAreRows_)
    kernel_.rangeUnit = t_.rows;
}

void MatmulSchedule::prefetch(Value side, ArrayRef<Index> position, bool nearest) {
  Index at = f_.e.space.linearize(position, ir::shapeOf(side));
  for (auto [i, argument] : llvm::enumerate(kernel_.arguments()))
    if (kernel_.lowered.lookup(argument) == side)
      return f_.e.prefetchLine(f_.function.getArgument(i), at, /*write=*/false, nearest);
}

KernelFunction::State
MatmulSchedule::overDepth(KernelFunction::State state,
                          function_ref<void(Index, KernelFunction::State &)> emit) {
  if (t_.chunks == 1)
    return f_.loop(k_ / units_, std::move(state), emit);
  return f_.loop(0, f_.e.div(depthHere_, units_), t_.depth / units_, std::move(state), emit);
}

// The panels of a block of columns: those that are whole in a loop, then the last one where it is
// not.
void MatmulSchedule::panelsOf(function_ref<void(const Index &, int64_t, int64_t)> emit) {
  int64_t width = t_.vectors * t_.lanes, whole = n_ / width;
  if (t_.columnBlocks == 1)
    f_.loop(whole, [&](Index panel) { emit(panel, t_.vectors, t_.lanes); });
  else
    f_.loop(firstPanel_, panelsEnd_, t_.panels,
            [&](Index panel) { emit(panel, t_.vectors, t_.lanes); });
  if (n_ % width == 0)
    return;
  int64_t vectors = llvm::divideCeil(n_ % width, t_.lanes);
  f_.when(isLastBlock_,
          [&] { emit(Index::of(whole), vectors, n_ % t_.lanes ? n_ % t_.lanes : t_.lanes); });
}

void MatmulSchedule::packAcross(int64_t count,
                                function_ref<Value(int64_t, const Index &, Value)> read,
                                function_ref<void(const Index &, Value)> store) {
  ElementEmitter &e = f_.e;
  int64_t lanes = t_.lanes;
  auto square = [&](const Index &depth, int64_t deep) {
    Value none = e.broadcast(e.constant(cast<TypedAttr>(e.b.getZeroAttr(element_))));
    Value mask = e.tailMask(deep);
    SmallVector<Value> v(lanes, none);
    for (int64_t i = 0; i < count; ++i)
      v[i] = e.broadcast(read(i, e.space.add(depth, e.space.lane(deep)), mask));
    transposeLanes(e, v);
    for (int64_t j = 0; j < deep; ++j)
      store(e.space.add(depth, j), v[j]);
  };
  // Chunks but the last are whole squares deep.
  int64_t rest = k_ % lanes;
  auto each = [&](Index number) {
    square(e.space.scale(number, lanes), lanes);
  };
  if (t_.chunks == 1) {
    f_.loop(k_ / lanes, each);
    if (rest)
      square(Index::of(k_ - rest), rest);
    return;
  }
  f_.loop(0, e.div(depthHere_, lanes), t_.depth / lanes, each);
  if (rest)
    f_.when(isLastChunk_, [&] { square(Index::of(k_ - rest - (t_.chunks - 1) * t_.depth), rest); });
}

// A square is as many columns as words, which lie along the depth. The last one ends where the
// depth does, and may copy again what the one before it has.
void MatmulSchedule::packWords() {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t lanes = t_.lanes, deep = lanes * units_, width = t_.vectors * lanes;
  Type words = VectorType::get({lanes}, e.b.getI32Type());
  Value depthHere = t_.chunks == 1 ? e.constantIndex(k_) : depthHere_;
  auto square = [&](const Index &panel, int64_t vector, int64_t columns, const Index &depth) {
    Index first = space.add(space.scale(panel, width), vector * lanes),
          from = space.add(firstDepth_, depth);
    SmallVector<Value> v;
    for (int64_t i = 0; i < lanes; ++i) {
      if (i >= columns) {
        v.push_back(e.broadcast(e.constant(e.b.getI32IntegerAttr(0)), lanes));
        continue;
      }
      Index column = space.add(first, i);
      e.width = deep;
      Value elements =
          e.at(narrow_, positionIn(narrow_, true, space.add(from, space.lane(deep)), column));
      e.width = lanes;
      // Lines of the next part, which lie where no machine's prefetcher foresees them.
      if (t_.chunks > 1)
        prefetch(narrow_, positionIn(narrow_, true, space.add(from, t_.depth), column),
                 /*nearest=*/false);
      v.push_back(e.make<vector::BitCastOp>(words, asType(e, elements, e.b.getI8Type())));
    }
    transposeLanes(e, v);
    Value word = e.div(depth, units_);
    for (int64_t j = 0; j < lanes; ++j) {
      Index row = space.add(space.scalar(word, t_.depth / units_), j);
      e.store(scratch_, v[j],
              space.add(space.scale(row, width), space.add(space.lane(lanes), vector * lanes)),
              nullptr);
    }
  };
  panelsOf([&](const Index &panel, int64_t vectors, int64_t last) {
    f_.loop(0, e.divideUp(depthHere, deep), llvm::divideCeil(t_.depth, deep), [&](Index number) {
      Value from = e.min(space.scale(number, deep), e.sub(depthHere, deep));
      for (int64_t vector = 0; vector < vectors; ++vector)
        square(panel, vector, vector + 1 < vectors ? lanes : last,
               space.scalar(from, std::max<int64_t>(t_.depth - deep, 0) + 1));
    });
  });
}

Value MatmulSchedule::fromWords(Value words, int64_t part, const Index &depth, const Index &column,
                                Value mask) {
  ElementEmitter &e = f_.e;
  Type element = ir::typeOf(narrow_).getElementType();
  if (part > 0)
    words = e.make<arith::ShRUIOp>(
        words, e.broadcast(e.constant(e.b.getI32IntegerAttr(static_cast<int32_t>(part * 8)))));
  Value elements = e.make<arith::TruncIOp>(e.vectorOf(e.b.getI8Type()), words);
  e.setKnown(narrow_, [&](ArrayRef<Index>, Value) { return asType(e, elements, element); });
  Value value = e.broadcast(rightAt(depth, column, mask));
  e.dropKnown(narrow_);
  return value;
}

void MatmulSchedule::packRight() {
  if (units_ > 1)
    return packWords();
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t width = t_.vectors * t_.lanes;
  auto placeOf = [&](const Index &panel, const Index &depth, const Index &vector) {
    Index local = space.add(panel, space.scale(firstPanel_, -1));
    return space.add(space.add(space.scale(local, t_.depth * width), space.scale(depth, width)),
                     space.add(space.scale(vector, t_.lanes), space.lane(t_.lanes)));
  };
  auto columnOf = [&](const Index &panel, const Index &vector) {
    return space.add(space.scale(panel, width), space.scale(vector, t_.lanes));
  };
  if (!transposeRight_) {
    // Row by row, as it lies.
    overDepth({}, [&](Index depth, KernelFunction::State &) {
      panelsOf([&](const Index &panel, int64_t vectors, int64_t last) {
        for (int64_t v = 0; v < vectors; ++v) {
          int64_t lanes = v + 1 < vectors ? t_.lanes : last;
          Index vector = Index::of(v);
          Value value =
              rightAt(space.add(firstDepth_, depth),
                      space.add(columnOf(panel, vector), space.lane(lanes)), e.tailMask(lanes));
          e.store(scratch_, e.broadcast(value), placeOf(panel, depth, vector), nullptr);
        }
      });
    });
    return;
  }
  panelsOf([&](const Index &panel, int64_t vectors, int64_t last) {
    auto one = [&](const Index &vector, int64_t lanes) {
      packAcross(
          lanes,
          [&](int64_t column, const Index &depth, Value mask) {
            return rightAt(space.add(firstDepth_, depth),
                           space.add(columnOf(panel, vector), column), mask);
          },
          [&](const Index &depth, Value value) {
            e.store(scratch_, value, placeOf(panel, depth, vector), nullptr);
          });
    };
    int64_t whole = last == t_.lanes ? vectors : vectors - 1;
    f_.loop(whole, [&](Index vector) { one(vector, t_.lanes); });
    if (whole < vectors)
      one(Index::of(whole), last);
  });
}

void MatmulSchedule::tile(int64_t rows, int64_t vectors, int64_t last, const Index &first,
                          const Index &panel) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t width = t_.vectors * t_.lanes;
  auto lanesOf = [&](int64_t v) {
    return v + 1 < vectors ? t_.lanes : last;
  };
  auto columnAt = [&](int64_t v) {
    return space.add(space.scale(panel, width), space.add(space.lane(lanesOf(v)), v * t_.lanes));
  };
  auto placeOf = [&](int64_t row, int64_t v) {
    SmallVector<Index> position(batch_);
    position.push_back(space.add(first, row));
    position.push_back(columnAt(v));
    return space.linearize(position, result_);
  };
  KernelFunction::State sums(rows * vectors, e.broadcast(f_.identity(generic_, false)));
  Index local = space.add(panel, space.scale(firstPanel_, -1));
  // The loop goes by words where the right side is copied so.
  sums = overDepth(sums, [&](Index step, KernelFunction::State &inside) {
    SmallVector<Value> words;
    for (int64_t v = 0; v < vectors && units_ > 1; ++v)
      words.push_back(
          e.load(scratch_, e.b.getI32Type(),
                 space.add(space.scale(step, width), space.add(space.lane(t_.lanes), v * t_.lanes)),
                 nullptr));
    for (int64_t part = 0; part < units_; ++part) {
      Index depth = space.add(space.scale(step, units_), part);
      Index at = space.add(firstDepth_, depth);
      // Lines that lie apart from those of the step before, so that no machine's prefetcher
      // foresees them.
      Index later = space.add(at, kMatmulAhead);
      if (transposeLeft_)
        prefetch(left_, positionIn(left_, true, first, later));
      for (int64_t v = 0; v < vectors && !t_.packsRight; ++v)
        prefetch(
            narrow_ ? narrow_ : right_,
            positionIn(right_, false, later, space.add(space.scale(panel, width), v * t_.lanes)));
      SmallVector<Value> right;
      for (int64_t v = 0; v < vectors; ++v) {
        if (units_ > 1) {
          right.push_back(fromWords(words[v], part, at, columnAt(v), e.tailMask(lanesOf(v))));
        } else if (t_.packsRight) {
          Index place =
              space.add(space.add(space.scale(local, t_.depth * width), space.scale(depth, width)),
                        space.add(space.lane(t_.lanes), v * t_.lanes));
          right.push_back(e.load(scratch_, element_, place, nullptr));
        } else {
          right.push_back(e.broadcast(rightAt(at, columnAt(v), e.tailMask(lanesOf(v)))));
        }
      }
      for (int64_t row = 0; row < rows; ++row) {
        Value a = leftAt(space.add(first, row), at);
        for (int64_t v = 0; v < vectors; ++v)
          inside[row * vectors + v] = multiplyAdd(a, right[v], inside[row * vectors + v]);
      }
    }
  });
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t v = 0; v < vectors; ++v) {
      Value sum = sums[row * vectors + v], mask = e.tailMask(lanesOf(v));
      if (t_.chunks > 1) {
        Index lost = space.add(
            space.scale(space.add(first, row), t_.panelsPerBlock * width),
            space.add(space.scale(local, width), space.add(space.lane(t_.lanes), v * t_.lanes)));
        sum = withEarlierParts(sum, placeOf(row, v), lost, mask);
      }
      e.store(f_.output(0), sum, placeOf(row, v), mask);
    }
}

// The sum of the chunk and those before it, which are in the result at `place`; what their addition
// loses is at `lost`.
Value MatmulSchedule::withEarlierParts(Value sum, const Index &place, const Index &lost,
                                       Value mask) {
  ElementEmitter &e = f_.e;
  Value zero = f_.identity(generic_, true);
  auto before = [&](Value memory, const Index &at, Value lanes) {
    Value there = e.broadcast(e.load(memory, element_, at, lanes));
    return e.make<arith::SelectOp>(isFirstChunk_, zero, there);
  };
  Value total = before(f_.output(0), place, mask);
  if (!lost_)
    return f_.sum(total, sum);
  Value rest = before(lost_, lost, nullptr);
  total = f_.addKeeping(total, sum, rest);
  e.store(lost_, rest, lost, nullptr);
  return e.make<arith::SelectOp>(isLastChunk_, f_.settle(total, rest), total);
}

void MatmulSchedule::rowsOf(int64_t rows, const Index &first) {
  panelsOf([&](const Index &panel, int64_t vectors, int64_t last) {
    tile(rows, vectors, last, first, panel);
  });
}

void MatmulSchedule::block(const Index &batch, const Index &columns, Value from, Value to) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  batch_ = space.delinearize(batch, batches_);
  int64_t wholePanels = n_ / (t_.vectors * t_.lanes);
  firstPanel_ = Index::of(0);
  isLastBlock_ = nullptr;
  if (t_.columnBlocks > 1) {
    // As many as others have, or one less: shares of threads are numbers of blocks.
    auto begin = [&](const Index &number) {
      return e.div(space.scale(number, t_.panels), t_.columnBlocks);
    };
    firstPanel_ = bounded(begin(columns), t_.panels);
    panelsEnd_ = e.min(begin(space.add(columns, 1)), wholePanels);
    isLastBlock_ = e.compare(arith::CmpIPredicate::eq, columns, t_.columnBlocks - 1);
  }
  f_.loop(t_.chunks, [&](Index chunk) {
    firstDepth_ = space.scale(chunk, t_.depth);
    if (t_.chunks > 1) {
      depthHere_ = e.min(t_.depth, e.sub(k_, firstDepth_));
      isFirstChunk_ = e.compare(arith::CmpIPredicate::eq, chunk, 0);
      isLastChunk_ = e.compare(arith::CmpIPredicate::eq, chunk, t_.chunks - 1);
    }
    if (t_.packsRight)
      packRight();
    int64_t rest = m_ % t_.rows, whole = m_ / t_.rows;
    Value wholeEnd = piecesAreRows_ ? e.div(to, t_.rows) : rest ? e.min(to, whole) : to;
    Value blocksFrom = piecesAreRows_ ? e.div(from, t_.rows) : from;
    f_.loop(blocksFrom, wholeEnd, t_.rowBlocks,
            [&](Index number) { rowsOf(t_.rows, space.scale(number, t_.rows)); });
    if (!piecesAreRows_) {
      if (rest)
        f_.when(e.compare(arith::CmpIPredicate::ugt, to, whole),
                [&] { rowsOf(rest, Index::of(whole * t_.rows)); });
      return;
    }
    // Rows behind the last whole block: some of 4, 2 and 1 together.
    Value next = e.mul(wholeEnd, t_.rows);
    for (int64_t rows = llvm::bit_floor(static_cast<uint64_t>(std::max<int64_t>(t_.rows - 1, 0)));
         rows > 0; rows /= 2) {
      Value left = e.sub(to, next), one = e.constantIndex(rows);
      Value fits = e.compare(arith::CmpIPredicate::uge, left, one);
      f_.when(fits, [&] { rowsOf(rows, bounded(next, m_)); });
      next = e.make<arith::SelectOp>(fits, e.add(next, one), next);
    }
  });
}

LogicalResult MatmulSchedule::run() {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  int64_t bytes = memoryBytes(element_);
  if (kernel_.info.count == 0)
    return f_.finish();
  e.width = t_.lanes;
  if (t_.packsRight) {
    int64_t count =
        std::max<int64_t>(t_.depth, 1) / units_ * t_.panelsPerBlock * t_.vectors * t_.lanes;
    Type packed = units_ > 1 ? e.b.getI32Type() : element_;
    scratch_ = f_.scratch(kernel_.claimScratch(count * memoryBytes(packed)), count, packed);
  }
  if (t_.chunks > kPlainParts && isa<FloatType>(element_)) {
    int64_t count = m_ * t_.panelsPerBlock * t_.vectors * t_.lanes;
    lost_ = f_.scratch(kernel_.claimScratch(count * bytes), count, element_);
  }
  if (piecesAreRows_) {
    f_.loop(t_.columnBlocks,
            [&](Index columns) { block(Index::of(0), columns, f_.begin, f_.end); });
    return f_.finish();
  }
  // A range has parts of blocks: rows of the first and of the last, all rows of those between.
  Value height = e.constantIndex(t_.rowBlocks);
  Value first = e.div(f_.begin, height);
  Value end = e.divideUp(f_.end, height);
  f_.loop(first, end, kernel_.info.count / t_.rowBlocks, [&](Index number) {
    Value start = e.mul(number, height);
    Value from = e.sub(e.max(f_.begin, start), start);
    Value to = e.min(e.sub(f_.end, start), height);
    auto [batch, columns] = space.divide(number, t_.columnBlocks);
    block(batch, columns, from, to);
  });
  return f_.finish();
}

LogicalResult scheduleMatmul(KernelBuilder &kernel, ir::MatmulOp op, int64_t vectorBytes) {
  return MatmulSchedule(kernel, op, vectorBytes).run();
}

} // namespace weft::compiler

// Products of few rows with a matrix whose depth lies together: a weight as nn::Linear keeps it,
// [columns, depth]. Or, with the sides exchanged, of a left side with few columns.
//
// Their time is that of reading the matrix once, so nothing of it is copied. A square, as many
// columns as a vector has lanes and as deep, is transposed in registers; each of its vectors, times
// an element of every row, is added to the row's sums. These are the operations of
// MatmulSchedule.cpp, in its order, and so are the bits.
#include "compiler/codegen/MatmulSchedule.h"

#include "compiler/codegen/Limits.h"
#include "compiler/codegen/MatmulProduct.h"
#include "compiler/fusion/NarrowMatrix.h"

namespace weft::compiler {

using namespace mlir;

namespace {

class FewRowsSchedule : MatmulProduct {
public:
  FewRowsSchedule(KernelBuilder &kernel, ir::MatmulOp op, int64_t lanes, bool exchanged);
  LogicalResult run();

private:
  // All sums of `count` columns from `first` on.
  void columns(const Index &first, int64_t count);
  // The sums of the `size` products from `from` on, one a row.
  KernelFunction::State part(const Index &first, int64_t count, const Index &from, int64_t size);
  void square(const Index &first, int64_t count, const Index &from, int64_t deep,
              KernelFunction::State &sums);
  Value at(Value side, bool depthIsLast, const Index &line, const Index &depth, Value mask);
  Value zero() {
    return f_.e.broadcast(f_.identity(generic_, false));
  }

  int64_t lanes_;
  bool exchanged_; // the matrix is the left side, its lines are the result's rows
  Value matrix_, others_;
  bool othersDepthIsLast_;
  int64_t rows_, columns_; // columns: lines of the matrix
};

} // namespace

FewRowsSchedule::FewRowsSchedule(KernelBuilder &kernel, ir::MatmulOp op, int64_t lanes,
                                 bool exchanged)
    : MatmulProduct(kernel, op), lanes_(lanes), exchanged_(exchanged),
      matrix_(exchanged ? left_ : right_), others_(exchanged ? right_ : left_),
      othersDepthIsLast_(exchanged ? op.getTransposeRhs() : !op.getTransposeLhs()),
      rows_(exchanged ? n_ : m_), columns_(exchanged ? m_ : n_) {}

Value FewRowsSchedule::at(Value side, bool depthIsLast, const Index &line, const Index &depth,
                          Value mask) {
  return f_.e.at(side, positionIn(side, depthIsLast, depth, line), mask);
}

void FewRowsSchedule::square(const Index &first, int64_t count, const Index &from, int64_t deep,
                             KernelFunction::State &sums) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  Value mask = e.tailMask(deep);
  Index along = space.add(from, space.lane(deep));
  SmallVector<Value> v(lanes_);
  for (int64_t i = 0; i < lanes_; ++i)
    v[i] = i < count ? e.broadcast(at(matrix_, true, space.add(first, i), along, mask)) : zero();
  transposeLanes(e, v);
  for (int64_t j = 0; j < deep; ++j)
    for (int64_t row = 0; row < rows_; ++row) {
      Value other = at(others_, othersDepthIsLast_, Index::of(row), space.add(from, j), nullptr);
      sums[row] = multiplyAdd(other, v[j], sums[row]);
    }
}

KernelFunction::State FewRowsSchedule::part(const Index &first, int64_t count, const Index &from,
                                            int64_t size) {
  return f_.blocks(size, lanes_, KernelFunction::State(rows_, zero()),
                   [&](const Index &depth, int64_t deep, KernelFunction::State &sums) {
                     square(first, count, f_.e.space.add(from, depth), deep, sums);
                   });
}

void FewRowsSchedule::columns(const Index &first, int64_t count) {
  ElementEmitter &e = f_.e;
  IndexSpace &space = e.space;
  MatmulParts parts = matmulParts(k_);
  KernelFunction::State sums;
  int64_t last = (parts.count - 1) * parts.depth;
  if (parts.count == 1) {
    sums = part(first, count, Index::of(0), k_);
  } else {
    auto add = [&](const Index &from, int64_t size, KernelFunction::State &totals) {
      KernelFunction::State more = part(first, count, from, size);
      for (auto [total, sum] : llvm::zip(totals, more))
        total = f_.sum(total, sum);
    };
    sums.assign(rows_, zero());
    sums = f_.loop(parts.count - 1, sums, [&](Index number, KernelFunction::State &inside) {
      add(space.scale(number, parts.depth), parts.depth, inside);
    });
    add(Index::of(last), k_ - last, sums);
  }
  Index lanes = space.add(first, space.lane(count));
  for (int64_t row = 0; row < rows_; ++row) {
    SmallVector<Index> position(batch_);
    position.push_back(exchanged_ ? lanes : Index::of(row));
    position.push_back(exchanged_ ? Index::of(row) : lanes);
    e.store(f_.output(0), sums[row], space.linearize(position, result_), e.tailMask(count));
  }
}

LogicalResult FewRowsSchedule::run() {
  f_.e.width = lanes_;
  int64_t blocks = llvm::divideCeil(columns_, lanes_);
  kernel_.info.count = batchCount_ * blocks;
  f_.loop(f_.begin, f_.end, kernel_.info.count, [&](Index piece) {
    auto [batch, block] = f_.e.space.divide(piece, blocks);
    batch_ = f_.e.space.delinearize(batch, batches_);
    f_.block(block, columns_, lanes_,
             [&](const Index &first, int64_t count) { columns(first, count); });
  });
  return f_.finish();
}

std::optional<LogicalResult> scheduleFewRows(KernelBuilder &kernel, ir::MatmulOp op,
                                             int64_t vectorBytes) {
  auto type = ir::typeOf(op.getResult());
  int64_t m = type.getShape().end()[-2], n = type.getShape().back(),
          k = kernel.generic(op).getStaticLoopRanges().back(),
          lanes = std::min(kLanes,
                           vectorBytes / std::max<int64_t>(memoryBytes(type.getElementType()), 4)),
          most = kFewRows.of(vectorBytes);
  if (narrowMatrixOf(op) || kernel.sizes || type.getNumElements() == 0 || k < lanes ||
      matmulParts(k).count > kPlainParts)
    return std::nullopt;
  bool fewRows = m <= most && n >= lanes && op.getTransposeRhs(),
       fewColumns = n <= most && m >= lanes && !op.getTransposeLhs();
  if (!fewRows && !fewColumns)
    return std::nullopt;
  return FewRowsSchedule(kernel, op, lanes, /*exchanged=*/!fewRows).run();
}

} // namespace weft::compiler

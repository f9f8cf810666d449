// Index statements of creation, movement, reduction, contraction, indexing and random ops.
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/statements/StatementRules.h"

namespace weft::ir {

using namespace mlir;

using Statement = std::optional<IndexStatement>;

// The dims of the op's one result, and their positions.
static std::pair<IndexStatement, Positions> ofResult(Operation *op,
                                                     Purpose purpose = Purpose::Parallel) {
  IndexStatement statement;
  Positions all = statement.addAll(op->getResult(0).getType(), purpose);
  statement.results.push_back(all);
  return {std::move(statement), std::move(all)};
}

Statement elementwiseStatement(Operation *op) {
  auto [statement, all] = ofResult(op);
  statement.operands.assign(op->getNumOperands(), all);
  return statement;
}

//===-- Creation ------------------------------------------------------------------------------===//

// Equal elements are at no position in particular.
Statement ConstantOp::statement() {
  bool isSplat = isa<SplatElementsAttr>(getValue());
  return ofResult(*this, isSplat ? Purpose::Parallel : Purpose::Carried).first;
}
Statement IotaOp::statement() {
  auto [statement, all] = ofResult(*this);
  statement.dims[getDim()].purpose = Purpose::Carried;
  return statement;
}

//===-- Movement ------------------------------------------------------------------------------===//

// Both sides' sizes are cut where either side has a border between dims, so that each dim of the
// statement is a digit of one dim on each side. Where borders do not nest (6 x 4 to 4 x 6), the
// dims between the borders that do become one, which each side takes apart.
Statement ReshapeOp::statement() {
  IndexStatement statement;
  auto sizesOf = [](RankedTensorType type) {
    Dims sizes;
    for (int64_t i = 0; i < type.getRank(); ++i)
      sizes.push_back(sizeOf(type, i));
    return sizes;
  };
  Dims from = sizesOf(getInput().getType()), to = sizesOf(getType());
  Positions input, result;
  auto add = [&](Dim size) {
    return statement.add(letterOf(statement.dims.size()), size);
  };
  // Dims without elements have no positions to speak of.
  if (llvm::is_contained(from, Dim(0))) {
    for (Dim size : from)
      input.push_back(add(size));
    for (Dim size : to)
      result.push_back(add(size));
    for (IndexDim &dim : statement.dims)
      dim.purpose = Purpose::Carried;
    statement.operands.push_back(input);
    statement.results.push_back(result);
    return statement;
  }
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // Dims of size 1 stand alone, at position 0.
    if (i < from.size() && from[i].isOne()) {
      input.emplace_back();
      ++i;
      continue;
    }
    if (j < to.size() && to[j].isOne()) {
      result.emplace_back();
      ++j;
      continue;
    }
    if (i == from.size() || j == to.size())
      return std::nullopt;
    if (from[i] == to[j]) {
      int32_t dim = add(from[i++]);
      input.push_back(dim);
      result.push_back(dim);
      ++j;
      continue;
    }
    // The shortest runs of dims on both sides that have as many elements.
    size_t i0 = i, j0 = j;
    if (!from[i].isStatic() || !to[j].isStatic()) {
      // A name's product with the sizes behind it, such as n x 4 and "n.4".
      auto symbolsOf = [](const Dim &dim) {
        return dim.isStatic() ? SizeProduct{dim.size, {}} : productOf(dim.symbol.getValue());
      };
      SizeProduct a = symbolsOf(from[i]), b = symbolsOf(to[j]);
      if (a.symbols != b.symbols || from[i].isStatic() || to[j].isStatic())
        return std::nullopt;
      // One side is the joined one: its only dim is the other's first dim times what is behind.
      bool splits = b.coefficient < a.coefficient;
      int64_t big = std::max(a.coefficient, b.coefficient),
              small = std::min(a.coefficient, b.coefficient);
      const Dims &many = splits ? to : from;
      size_t &k = splits ? j : i;
      Positions &parts = splits ? result : input, &whole = splits ? input : result;
      int32_t first = add(many[k++]);
      parts.push_back(first);
      Position joint({{first, big / small}});
      int64_t inside = big / small;
      while (inside > 1 && k < many.size() && many[k].isStatic() && inside % many[k].size == 0) {
        if (many[k].isOne()) {
          parts.emplace_back();
          ++k;
          continue;
        }
        inside /= many[k].size;
        int32_t digit = add(many[k++]);
        parts.push_back(digit);
        joint.terms.push_back({digit, inside});
      }
      if (big % small || inside != 1)
        return std::nullopt;
      whole.push_back(joint);
      ++(splits ? i : j);
      continue;
    }
    int64_t left = from[i++].size, right = to[j++].size;
    while (left != right) {
      const Dims &shorter = left < right ? from : to;
      size_t &k = left < right ? i : j;
      if (k == shorter.size() || !shorter[k].isStatic())
        return std::nullopt;
      (left < right ? left : right) *= shorter[k++].size;
    }
    // Borders of both sides, as the number of elements behind them.
    SmallVector<int64_t, 8> borders;
    auto bordersOf = [&](const Dims &dims, size_t begin, size_t end) {
      int64_t behind = left;
      for (size_t k = begin; k < end; ++k)
        borders.push_back(behind /= dims[k].size);
    };
    bordersOf(from, i0, i);
    bordersOf(to, j0, j);
    llvm::sort(borders, std::greater<>());
    borders.erase(llvm::unique(borders), borders.end());
    bool nest = true;
    for (size_t k = 1; k < borders.size(); ++k)
      nest &= borders[k - 1] % borders[k] == 0;
    if (!nest) {
      int32_t all = add(Dim(left));
      auto takeApart = [&](const Dims &dims, size_t begin, size_t end, Positions &positions) {
        int64_t behind = left;
        for (size_t k = begin; k < end; ++k) {
          behind /= dims[k].size;
          Position position(all);
          position.divisor = behind;
          position.modulus = k == begin ? 0 : dims[k].size;
          positions.push_back(position);
        }
      };
      takeApart(from, i0, i, input);
      takeApart(to, j0, j, result);
      continue;
    }
    SmallVector<int32_t, 8> digits;
    int64_t behind = left;
    for (int64_t border : borders) {
      digits.push_back(add(Dim(behind / border)));
      behind = border;
    }
    auto join = [&](const Dims &dims, size_t begin, size_t end, Positions &positions) {
      int64_t behindDim = left;
      size_t digit = 0;
      for (size_t k = begin; k < end; ++k) {
        behindDim /= dims[k].size;
        Position position;
        for (; digit < borders.size() && borders[digit] >= behindDim; ++digit)
          if (!statement.dims[digits[digit]].size.isOne())
            position.terms.push_back({digits[digit], borders[digit] / behindDim});
        positions.push_back(position);
      }
    };
    join(from, i0, i, input);
    join(to, j0, j, result);
  }
  statement.operands.push_back(input);
  statement.results.push_back(result);
  return statement;
}

Statement TransposeOp::statement() {
  auto [statement, all] = ofResult(*this);
  Positions input(all.size());
  for (auto [i, from] : llvm::enumerate(getPermutation()))
    input[from] = all[i];
  statement.operands.push_back(input);
  return statement;
}

Statement BroadcastOp::statement() {
  auto [statement, all] = ofResult(*this);
  statement.operands.push_back(broadcastPositions(getInput().getType(), all, statement.dims));
  return statement;
}

Statement SliceOp::statement() {
  auto [statement, all] = ofResult(*this);
  Positions input;
  for (auto [i, start, step] : llvm::enumerate(getStarts(), getSteps()))
    input.push_back(Position({{static_cast<int32_t>(i), step}}, start));
  statement.operands.push_back(input);
  return statement;
}

Statement InsertSliceOp::statement() {
  auto [statement, all] = ofResult(*this);
  Positions update;
  for (auto [i, start, step] : llvm::enumerate(getStarts(), getSteps())) {
    // A step down is a step up with the signs of the others turned.
    Position position({{static_cast<int32_t>(i), step < 0 ? -1 : 1}}, step < 0 ? start : -start);
    position.divisor = std::abs(step);
    position.exact = position.divisor > 1;
    update.push_back(position);
  }
  statement.operands = {all, update};
  return statement;
}

Statement ConcatOp::statement() {
  auto [statement, all] = ofResult(*this);
  int64_t dim = getDim(), begin = 0;
  for (Value input : getInputs()) {
    statement.operands.push_back(all);
    statement.operands.back()[dim].offset = -begin;
    begin += shapeOf(input)[dim];
  }
  return statement;
}

Statement WindowsOp::statement() {
  auto [statement, all] = ofResult(*this);
  int32_t lead = static_cast<int32_t>(all.size()) - 4;
  Positions input(all.begin(), all.begin() + lead);
  for (int32_t d = 0; d < 2; ++d)
    input.push_back(Position({{lead + 2 + d, getStrides()[d]}, {lead + d, getDilation()[d]}}));
  statement.operands.push_back(input);
  return statement;
}

//===-- Reduction and scan --------------------------------------------------------------------===//

static Statement reduction(Operation *op, ArrayRef<int64_t> dims, Fold fold) {
  IndexStatement statement;
  statement.fold = fold;
  Positions all = statement.addAll(op->getOperand(0).getType()), kept;
  for (auto [i, position] : llvm::enumerate(all)) {
    if (llvm::is_contained(dims, static_cast<int64_t>(i)))
      statement.dims[i].purpose = Purpose::Reduced;
    else
      kept.push_back(position);
  }
  statement.operands.push_back(all);
  statement.results.push_back(kept);
  return statement;
}
Statement ReduceSumOp::statement() {
  return reduction(*this, getDims(), Fold::Sum);
}
Statement ReduceMaxOp::statement() {
  return reduction(*this, getDims(), Fold::Max);
}
Statement ReduceMinOp::statement() {
  return reduction(*this, getDims(), Fold::Min);
}
Statement ReduceProdOp::statement() {
  return reduction(*this, getDims(), Fold::Product);
}
Statement ReduceMeanOp::statement() {
  return reduction(*this, getDims(), Fold::Mean);
}
Statement ArgMaxOp::statement() {
  return reduction(*this, {static_cast<int64_t>(getDim())}, Fold::Other);
}
Statement ArgMinOp::statement() {
  return reduction(*this, {static_cast<int64_t>(getDim())}, Fold::Other);
}

static Statement alongDim(Operation *op, int64_t dim) {
  auto [statement, all] = ofResult(op);
  statement.dims[dim].purpose = Purpose::Carried;
  statement.operands.assign(op->getNumOperands(), all);
  return statement;
}
Statement CumsumOp::statement() {
  return alongDim(*this, getDim());
}
Statement CumprodOp::statement() {
  return alongDim(*this, getDim());
}
Statement RecurrenceOp::statement() {
  return alongDim(*this, getDim());
}
Statement CumArgMaxOp::statement() {
  return alongDim(*this, getDim());
}
Statement CumArgMinOp::statement() {
  return alongDim(*this, getDim());
}
Statement SoftmaxOp::statement() {
  return alongDim(*this, getDim());
}
Statement LogSoftmaxOp::statement() {
  return alongDim(*this, getDim());
}
// The result may have fewer positions of the dim than the input.
Statement ArgSortOp::statement() {
  IndexStatement statement;
  Positions all = statement.addAll(getInput().getType());
  statement.dims[getDim()].purpose = Purpose::Carried;
  statement.operands.push_back(all);
  statement.results.push_back(all);
  return statement;
}

//===-- Contraction ---------------------------------------------------------------------------===//

Statement MatmulOp::statement() {
  IndexStatement statement;
  statement.fold = Fold::Sum;
  Positions all = statement.addAll(getType());
  int32_t batch = static_cast<int32_t>(all.size()) - 2, m = batch, n = batch + 1;
  statement.dims[m].name = "m";
  statement.dims[n].name = "n";
  auto lhs = typeOf(getLhs());
  int64_t depthDim = lhs.getRank() - (getTransposeLhs() ? 2 : 1);
  int32_t k = statement.add("k", sizeOf(lhs, depthDim), Purpose::Reduced);
  auto side = [&](Type type, int32_t row, int32_t column) {
    Positions dims(all.begin(), all.begin() + batch);
    dims.append({row, column});
    return broadcastPositions(type, dims, statement.dims);
  };
  statement.operands = {getTransposeLhs() ? side(lhs, k, m) : side(lhs, m, k),
                        getTransposeRhs() ? side(getRhs().getType(), n, k)
                                          : side(getRhs().getType(), k, n)};
  statement.results.push_back(all);
  return statement;
}

//===-- Indexing ------------------------------------------------------------------------------===//

Statement IndexSelectOp::statement() {
  auto [statement, all] = ofResult(*this);
  int64_t dim = getDim(), width = shapeOf(getIndices()).size();
  Positions indices(all.begin() + dim, all.begin() + dim + width), input(all);
  input.erase(input.begin() + dim, input.begin() + dim + width);
  input.insert(input.begin() + dim,
               Position(statement.add("n", sizeOf(getInput().getType(), dim), Purpose::Chosen)));
  statement.operands = {input, indices};
  return statement;
}
Statement GatherOp::statement() {
  auto [statement, all] = ofResult(*this);
  Positions input(all);
  input[getDim()] = statement.add("n", sizeOf(getInput().getType(), getDim()), Purpose::Chosen);
  statement.operands = {input, all};
  return statement;
}

// What meets in an element of the base: source's elements at any of the indexed positions.
template <typename Op> static Statement intoSlices(Op op) {
  auto [statement, all] = ofResult(op);
  int64_t dim = op.getDim();
  statement.fold = Fold::Other;
  statement.dims[dim].purpose = Purpose::Chosen;
  statement.dims[dim].name = "n";
  Positions indices = statement.addAll(op.getIndices().getType(), Purpose::Reduced), source(all);
  source.erase(source.begin() + dim);
  source.insert(source.begin() + dim, indices.begin(), indices.end());
  statement.operands = {all, indices, source};
  return statement;
}
Statement IndexAddOp::statement() {
  return intoSlices(*this);
}
Statement IndexPutOp::statement() {
  return intoSlices(*this);
}
template <typename Op> static Statement intoElements(Op op) {
  auto [statement, all] = ofResult(op);
  int64_t dim = op.getDim();
  statement.fold = Fold::Other;
  statement.dims[dim].purpose = Purpose::Chosen;
  statement.dims[dim].name = "n";
  Positions source(all);
  source[dim] = statement.add("s", sizeOf(op.getSource().getType(), dim), Purpose::Reduced);
  // Rows beyond the indices' shape stay as they are: there is nothing of theirs to read.
  statement.operands = {all, source, source};
  return statement;
}
Statement ScatterOp::statement() {
  return intoElements(*this);
}
Statement ScatterAddOp::statement() {
  return intoElements(*this);
}
Statement ScatterReduceOp::statement() {
  return intoElements(*this);
}

//===-- Random --------------------------------------------------------------------------------===//

// A draw depends on its number in row-major order, and on the whole state.
static Statement draw(Operation *op) {
  auto [statement, all] = ofResult(op, Purpose::Carried);
  statement.fold = Fold::Other;
  statement.operands.push_back({statement.add("s", Dim(2), Purpose::Reduced)});
  return statement;
}
Statement RandomUniformOp::statement() {
  return draw(*this);
}
Statement RandomNormalOp::statement() {
  return draw(*this);
}
Statement RandomAdvanceOp::statement() {
  return alongDim(*this, 0);
}

} // namespace weft::ir

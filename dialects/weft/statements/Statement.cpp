#include "dialects/weft/statements/Statement.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/statements/StatementRules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::ir {

using namespace mlir;

StringRef letterOf(size_t i) {
  static constexpr StringLiteral letters = "abcdefghijklmnopqrstuvwxyz";
  return letters.substr(i % letters.size(), 1);
}

Dim sizeOf(Type type, int64_t dim) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.isDynamicDim(dim) ? dimsOf(tensor)[dim] : Dim(tensor.getDimSize(dim));
}

Positions IndexStatement::addAll(Type type, Purpose purpose) {
  Positions positions;
  for (int64_t i = 0, rank = cast<RankedTensorType>(type).getRank(); i < rank; ++i)
    positions.push_back(add(letterOf(dims.size()), sizeOf(type, i), purpose));
  return positions;
}

Positions broadcastPositions(Type from, ArrayRef<Position> to, ArrayRef<IndexDim> dims) {
  auto shape = cast<RankedTensorType>(from).getShape();
  Positions positions;
  for (auto [size, position] : llvm::zip(shape, to.take_back(shape.size()))) {
    bool spreads =
        size == 1 && position.terms.size() == 1 && !dims[position.terms[0].dim].size.isOne();
    positions.push_back(spreads ? Position() : position);
  }
  return positions;
}

std::optional<IndexStatement> statementOf(Operation *op) {
  auto weft = dyn_cast<WeftOp>(op);
  if (!weft)
    return std::nullopt;
  if (isOwn(op))
    return weft.statement();
  try {
    std::optional<IndexStatement> statement = weft.statement();
    if (statement && statementError(op, *statement).empty())
      return statement;
  } catch (...) { // verifyStatement says so
  }
  return std::nullopt;
}

// The least and the greatest value of the position. Nothing where int64 does not hold one of them.
static std::optional<std::pair<int64_t, int64_t>> reachOf(const IndexStatement &statement,
                                                          const Position &position) {
  int64_t low = position.offset, high = position.offset;
  for (auto [dim, scale] : position.terms) {
    int64_t most;
    if (__builtin_mul_overflow(scale, statement.dims[dim].size.size - 1, &most) ||
        __builtin_add_overflow(scale < 0 ? low : high, most, scale < 0 ? &low : &high))
      return std::nullopt;
  }
  low = llvm::divideFloorSigned(low, position.divisor);
  high = llvm::divideFloorSigned(high, position.divisor);
  if (position.modulus && llvm::divideFloorSigned(low, position.modulus) !=
                              llvm::divideFloorSigned(high, position.modulus))
    return std::pair<int64_t, int64_t>(0, position.modulus - 1);
  if (position.modulus)
    return std::pair(llvm::mod(low, position.modulus), llvm::mod(high, position.modulus));
  return std::pair(low, high);
}

std::string outsideError(const IndexStatement &statement, const Positions &positions, Type type) {
  // Without points nothing stands anywhere; sizes that are names alone say nothing of numbers.
  if (llvm::any_of(statement.dims, [](const IndexDim &dim) { return dim.size.size <= 0; }))
    return "";
  auto shape = cast<RankedTensorType>(type).getShape();
  for (auto [i, position] : llvm::enumerate(positions)) {
    std::string where = " in dim " + std::to_string(i) + ", of " + std::to_string(shape[i]);
    if (position.exact)
      return "leaves points out" + where;
    auto reach = reachOf(statement, position);
    if (!reach)
      return "reaches beyond int64" + where;
    if (reach->first < 0 || reach->second >= shape[i])
      return "reaches from " + std::to_string(reach->first) + " to " +
             std::to_string(reach->second) + where;
  }
  return "";
}

static void print(raw_ostream &out, const IndexStatement &statement, const Position &position) {
  bool divides = position.divisor != 1, cuts = position.modulus != 0;
  if (divides || cuts)
    out << '(';
  bool first = true;
  for (auto [dim, scale] : position.terms) {
    out << (scale < 0 ? "-" : first ? "" : "+");
    if (std::abs(scale) != 1)
      out << std::abs(scale) << '*';
    out << statement.dims[dim].name;
    first = false;
  }
  if (first || position.offset)
    out << (first || position.offset < 0 ? "" : "+") << position.offset;
  if (divides || cuts)
    out << ')';
  if (divides)
    out << (position.exact ? "/" : "//") << position.divisor;
  if (cuts)
    out << '%' << position.modulus;
}

static StringRef nameOf(Fold fold) {
  switch (fold) {
  case Fold::None:
  case Fold::Other:
    return "";
  case Fold::Sum:
    return " by sum";
  case Fold::Mean:
    return " by mean";
  case Fold::Product:
    return " by product";
  case Fold::Max:
    return " by max";
  case Fold::Min:
    return " by min";
  }
  return "";
}

std::string textOf(const IndexStatement &statement) {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto tensors = [&](ArrayRef<Positions> all) {
    out << '(';
    llvm::interleave(
        all, out,
        [&](const Positions &positions) {
          llvm::interleave(
              positions, out, [&](const Position &position) { print(out, statement, position); },
              " ");
        },
        ", ");
    out << ')';
  };
  tensors(statement.operands);
  out << " -> ";
  tensors(statement.results);
  for (auto [purpose, word] :
       {std::pair(Purpose::Reduced, "reduced"), std::pair(Purpose::Carried, "carried"),
        std::pair(Purpose::Chosen, "chosen by data")}) {
    SmallVector<StringRef> names;
    for (const IndexDim &dim : statement.dims)
      if (dim.purpose == purpose)
        names.push_back(dim.name);
    if (!names.empty())
      out << ", " << llvm::join(names, " ") << ' ' << word
          << (purpose == Purpose::Reduced ? nameOf(statement.fold) : "");
  }
  return text;
}

AffineMap mapOf(const IndexStatement &statement, const Positions &positions, MLIRContext *context) {
  SmallVector<AffineExpr> exprs;
  for (const Position &position : positions) {
    assert(!position.exact && "an affine map has no exact division");
    AffineExpr expr = getAffineConstantExpr(position.offset, context);
    for (auto [dim, scale] : position.terms)
      expr = expr + getAffineDimExpr(dim, context) * scale;
    if (position.divisor != 1)
      expr = expr.floorDiv(position.divisor);
    if (position.modulus)
      expr = expr % position.modulus;
    exprs.push_back(expr);
  }
  int64_t loops = llvm::count_if(
      statement.dims, [](const IndexDim &dim) { return dim.purpose != Purpose::Chosen; });
  return AffineMap::get(loops, 0, exprs, context);
}

std::optional<SmallVector<int32_t, 2>> digitsOf(const IndexStatement &statement,
                                                const Position &position, int64_t size) {
  if (position.offset || position.divisor != 1 || position.modulus)
    return std::nullopt;
  SmallVector<Position::Term, 2> terms;
  llvm::copy_if(position.terms, std::back_inserter(terms), [&](Position::Term term) {
    return !statement.dims[term.dim].size.isOne(); // it stands still
  });
  llvm::sort(terms, [](auto a, auto b) { return a.scale > b.scale; });
  // Innermost first: each digit counts in steps of what those inside of it make.
  int64_t inside = 1;
  SmallVector<int32_t, 2> digits;
  for (auto [dim, scale] : llvm::reverse(terms)) {
    const Dim &extent = statement.dims[dim].size;
    if (scale != inside)
      return std::nullopt;
    digits.push_back(dim);
    // A symbolic dim is the outermost of its tensor's, or the only one.
    if (!extent.isStatic() && digits.size() != terms.size())
      return std::nullopt;
    inside = extent.isStatic() ? inside * extent.size : ShapedType::kDynamic;
  }
  if (inside != size)
    return std::nullopt;
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::optional<Cut> cutAlong(const IndexStatement &statement, int32_t dim, Operation *op) {
  const IndexDim &along = statement.dims[dim];
  if (!along.size.isStatic() || along.size.isOne())
    return std::nullopt;
  bool isParallel = along.purpose == Purpose::Parallel;
  if (!isParallel && (along.purpose != Purpose::Reduced || statement.fold == Fold::None ||
                      statement.fold == Fold::Other))
    return std::nullopt;
  Cut cut;
  cut.name = along.name;
  cut.fold = isParallel ? Fold::None : statement.fold;
  auto find = [&](ArrayRef<Positions> all, TypeRange types, SmallVectorImpl<int64_t> &found) {
    for (auto [positions, type] : llvm::zip_equal(all, types)) {
      int64_t place = -1;
      auto shape = cast<RankedTensorType>(type).getShape();
      for (auto [i, position] : llvm::enumerate(positions)) {
        if (!position.has(dim))
          continue;
        // The outermost digit: equal parts of the tensor's dim are equal parts of this one.
        auto digits = digitsOf(statement, position, shape[i]);
        if (place >= 0 || !digits || digits->front() != dim || hasNamedDims(type))
          return false;
        place = i;
      }
      found.push_back(place);
    }
    return true;
  };
  if (!find(statement.operands, op->getOperandTypes(), cut.operands) ||
      !find(statement.results, op->getResultTypes(), cut.results))
    return std::nullopt;
  // A result without a parallel dim would be made by each part anew; one with a reduced dim is no
  // partial result.
  for (int64_t place : cut.results)
    if ((place >= 0) != isParallel)
      return std::nullopt;
  return cut;
}

static Type partOf(Type type, int64_t dim, int64_t parts) {
  auto tensor = cast<RankedTensorType>(type);
  if (dim < 0)
    return type;
  SmallVector<int64_t> shape(tensor.getShape());
  shape[dim] /= parts;
  return RankedTensorType::get(shape, tensor.getElementType());
}

Operation *buildPart(OpBuilder &builder, Operation *op, const Cut &cut, int64_t parts,
                     ValueRange operands) {
  Operation *part = builder.clone(*op);
  part->setOperands(operands);
  for (auto [result, dim] : llvm::zip_equal(part->getResults(), cut.results))
    result.setType(partOf(result.getType(), dim, parts));
  // The attributes that name a size: a convolution's groups, where a slice ends, and a constant's
  // own shape.
  if (auto groups = part->getAttrOfType<IntegerAttr>("groups"); groups && cut.name == "g")
    part->setAttr("groups", builder.getI64IntegerAttr(groups.getInt() / parts));
  if (auto slice = dyn_cast<SliceOp>(part); slice && cut.operands[0] >= 0) {
    SmallVector<int64_t> limits(slice.getLimits());
    limits[cut.operands[0]] = slice.getInput().getType().getDimSize(cut.operands[0]);
    slice.setLimits(limits);
  }
  if (auto constant = dyn_cast<ConstantOp>(part))
    constant.setValueAttr(cast<DenseElementsAttr>(constant.getValue())
                              .resizeSplat(cast<ShapedType>(constant.getType())));
  return part;
}

double operationsOf(Operation *op) {
  auto weft = cast<WeftOp>(op);
  double points = 1;
  if (auto statement = statementOf(op); statement && weft.kind() != Kind::Random) {
    for (const IndexDim &dim : statement->dims)
      if (dim.purpose != Purpose::Chosen)
        points *= static_cast<double>(dim.size.size);
  } else {
    points = static_cast<double>(typeOf(op->getResult(0)).getNumElements());
  }
  return points * static_cast<double>(weft.cost());
}

} // namespace weft::ir

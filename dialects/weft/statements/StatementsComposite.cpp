// Index statements of composites: norms, attention, losses, convolutions and pooling.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Window.h"
#include "dialects/weft/statements/StatementRules.h"

namespace weft::ir {

using namespace mlir;

using Statement = std::optional<IndexStatement>;

static Dim sizeOf(Value value, int64_t dim) {
  return sizeOf(value.getType(), dim);
}

// The mean and the reciprocal deviation have the leading dims.
Statement LayerNormOp::statement() {
  IndexStatement statement;
  Positions all = statement.addAll(getInput().getType());
  size_t leading = all.size() - getNormalizedRank();
  for (size_t i = leading; i < all.size(); ++i)
    statement.dims[i].purpose = Purpose::Carried;
  Positions rows(all.begin(), all.begin() + leading), inner(all.begin() + leading, all.end());
  statement.operands.assign((*this)->getNumOperands(), inner);
  statement.operands[0] = all;
  statement.results = {all, rows, rows};
  return statement;
}

Statement BatchNormOp::statement() {
  IndexStatement statement;
  Positions all = statement.addAll(getInput().getType(), Purpose::Carried);
  statement.dims[1].purpose = Purpose::Parallel;
  Positions channel = {all[1]};
  statement.operands.assign((*this)->getNumOperands(), channel);
  statement.operands[0] = all;
  statement.results = {all, channel, channel};
  return statement;
}

Statement BatchNormInferenceOp::statement() {
  IndexStatement statement;
  Positions all = statement.addAll(getInput().getType());
  statement.operands.assign((*this)->getNumOperands(), {all[1]});
  statement.operands[0] = all;
  statement.results = {all};
  return statement;
}

// q and s are positions of queries and keys. A causal mask counts both from the end, so that a part
// of the queries would see other keys.
Statement AttentionOp::statement() {
  IndexStatement statement;
  statement.fold = Fold::Other;
  Positions query = statement.addAll(getQuery().getType());
  int64_t lead = static_cast<int64_t>(query.size()) - 2;
  statement.dims[lead].name = "q";
  statement.dims[lead].purpose = getCausal() ? Purpose::Carried : Purpose::Parallel;
  statement.dims[lead + 1].purpose = Purpose::Reduced;
  int32_t s = statement.add("s", sizeOf(getKey(), lead), Purpose::Reduced),
          v = statement.add("v", sizeOf(getValue(), lead + 1));
  Positions key(query), value(query), scores(query), result(query);
  key[lead] = value[lead] = scores[lead + 1] = s;
  value[lead + 1] = result[lead + 1] = v;
  statement.operands = {query, key, value};
  if (getMask())
    statement.operands.push_back(broadcastPositions(getMask().getType(), scores, statement.dims));
  statement.results = {result, Positions(query.begin(), query.end() - 1)};
  return statement;
}

// The gradients of keys add up queries, and those of queries keys.
Statement AttentionGradientOp::statement() {
  IndexStatement statement;
  Positions query = statement.addAll(getQuery().getType());
  int64_t lead = static_cast<int64_t>(query.size()) - 2;
  statement.dims[lead].name = "q";
  statement.dims[lead].purpose = statement.dims[lead + 1].purpose = Purpose::Carried;
  int32_t s = statement.add("s", sizeOf(getKey(), lead), Purpose::Carried),
          v = statement.add("v", sizeOf(getValue(), lead + 1), Purpose::Carried);
  Positions key(query), value(query), scores(query), result(query),
      rows(query.begin(), query.end() - 1);
  key[lead] = value[lead] = scores[lead + 1] = s;
  value[lead + 1] = result[lead + 1] = v;
  statement.operands = {query, key, value, result, rows, result};
  if (getMask())
    statement.operands.push_back(broadcastPositions(getMask().getType(), scores, statement.dims));
  if (getSumGradient())
    statement.operands.push_back(rows);
  statement.results = {query, key, value};
  return statement;
}

// Of matrices: the leading dims are parallel, and rows and columns depend on all of them.
static std::pair<IndexStatement, Positions> ofMatrices(Type type) {
  IndexStatement statement;
  Positions all = statement.addAll(type);
  statement.dims[all.size() - 1].purpose = statement.dims[all.size() - 2].purpose =
      Purpose::Carried;
  return {statement, all};
}
Statement CholeskyOp::statement() {
  auto [statement, all] = ofMatrices(getType());
  statement.operands = {all};
  statement.results = {all};
  return statement;
}
Statement LuOp::statement() {
  auto [statement, all] = ofMatrices(getInput().getType());
  statement.operands = {all};
  statement.results = {all, Positions(all.begin(), all.end() - 1)};
  return statement;
}
// The columns of the right side are systems of their own.
Statement SolveTriangularOp::statement() {
  IndexStatement statement;
  Positions all = statement.addAll(getType()), matrix = all;
  int64_t rows = static_cast<int64_t>(all.size()) - 2;
  statement.dims[rows].purpose = Purpose::Carried;
  matrix[rows + 1] = statement.add("m", sizeOf(getType(), rows), Purpose::Carried);
  statement.operands = {matrix, all};
  statement.results = {all};
  return statement;
}

Statement CrossEntropyOp::statement() {
  IndexStatement statement;
  statement.fold = Fold::Other;
  Positions logits = statement.addAll(getLogits().getType());
  statement.dims.back().purpose = Purpose::Reduced;
  Positions rows(logits.begin(), logits.end() - 1);
  statement.operands = {logits, rows};
  statement.results = {rows, rows};
  return statement;
}

// What is kept is drawn.
Statement DropoutOp::statement() {
  IndexStatement statement;
  statement.fold = Fold::Other;
  Positions all = statement.addAll(getInput().getType(), Purpose::Carried);
  statement.operands = {all, {statement.add("s", Dim(2), Purpose::Reduced)}};
  statement.results = {all, all};
  return statement;
}

//===-- Windows over images -------------------------------------------------------------------===//

// The row or column of an image that a window's tap is at.
static Position tapOf(const Window &window, int32_t output, int32_t tap) {
  return Position({{output, window.stride}, {tap, window.dilation}}, -window.padding);
}

// Of a convolution's three tensors: n images, g groups of c and o channels, images of the size of
// the input and of the output, and taps v, w of the kernel.
namespace {
struct ConvolutionPositions {
  IndexStatement statement;
  Positions image, weight, output;
};
} // namespace
template <typename Op>
static ConvolutionPositions convolution(Op op, Value image, Value weight, Value output) {
  ConvolutionPositions made;
  IndexStatement &statement = made.statement;
  statement.fold = Fold::Sum;
  int64_t groups = op.getGroups(), channels = shapeOf(weight)[1],
          filters = shapeOf(weight)[0] / groups;
  Windows2d windows = convolutionWindows(op, shapeOf(weight));
  int32_t n = statement.add("n", sizeOf(image, 0)), g = statement.add("g", Dim(groups)),
          o = statement.add("o", Dim(filters)), c = statement.add("c", Dim(channels)),
          y = statement.add("y", sizeOf(output, 2)), x = statement.add("x", sizeOf(output, 3)),
          v = statement.add("v", sizeOf(weight, 2)), w = statement.add("w", sizeOf(weight, 3));
  Position filter = groups == 1 ? Position(o) : Position({{g, filters}, {o, 1}}),
           channel = groups == 1 ? Position(c) : Position({{g, channels}, {c, 1}});
  made.image = {n, channel, tapOf(windows.y, y, v), tapOf(windows.x, x, w)};
  made.weight = {filter, c, v, w};
  made.output = {n, filter, y, x};
  return made;
}
// Of the dims by these names, a letter each.
static void setPurpose(IndexStatement &statement, StringRef names, Purpose purpose) {
  for (IndexDim &dim : statement.dims)
    if (names.contains(dim.name))
      dim.purpose = purpose;
}
static void reduce(IndexStatement &statement, StringRef names) {
  setPurpose(statement, names, Purpose::Reduced);
}

Statement Conv2dOp::statement() {
  auto [statement, image, weight, output] =
      convolution(*this, getInput(), getWeight(), getResult());
  reduce(statement, "cvw");
  statement.operands = {image, weight};
  statement.results.push_back(output);
  return statement;
}
Statement Conv2dInputGradientOp::statement() {
  auto [statement, image, weight, output] =
      convolution(*this, getResult(), getWeight(), getGradient());
  reduce(statement, "oyxvw");
  statement.operands = {output, weight};
  statement.results.push_back(image);
  return statement;
}
Statement Conv2dWeightGradientOp::statement() {
  auto [statement, image, weight, output] =
      convolution(*this, getInput(), getResult(), getGradient());
  reduce(statement, "nyx");
  statement.operands = {image, output};
  statement.results.push_back(weight);
  return statement;
}

// Of a pooling: n images, c channels, rows and columns of the output, taps v, w of the kernel.
template <typename Op>
static std::pair<Positions, Positions> pool(IndexStatement &statement, Op op, Value image,
                                            Value output) {
  statement.fold = Fold::Other;
  Windows2d windows = poolWindows(op);
  int32_t n = statement.add("n", sizeOf(image, 0)), c = statement.add("c", sizeOf(image, 1)),
          y = statement.add("y", sizeOf(output, 2)), x = statement.add("x", sizeOf(output, 3)),
          v = statement.add("v", Dim(windows.y.kernel), Purpose::Reduced),
          w = statement.add("w", Dim(windows.x.kernel), Purpose::Reduced);
  return {{n, c, tapOf(windows.y, y, v), tapOf(windows.x, x, w)}, {n, c, y, x}};
}
// The indices say where in the whole image a maximum lies, so that a part of it is no image.
Statement MaxPool2dOp::statement() {
  IndexStatement statement;
  auto [image, output] = pool(statement, *this, getInput(), getResult());
  setPurpose(statement, "yx", Purpose::Carried);
  statement.operands = {image};
  statement.results = {output, output};
  return statement;
}
Statement AvgPool2dOp::statement() {
  IndexStatement statement;
  auto [image, output] = pool(statement, *this, getInput(), getResult());
  statement.operands = {image};
  statement.results = {output};
  return statement;
}
Statement MaxPool2dGradientOp::statement() {
  IndexStatement statement;
  auto [image, output] = pool(statement, *this, getResult(), getGradient());
  reduce(statement, "yx");
  statement.operands = {output, output};
  statement.results = {image};
  return statement;
}
Statement AvgPool2dGradientOp::statement() {
  IndexStatement statement;
  auto [image, output] = pool(statement, *this, getResult(), getGradient());
  reduce(statement, "yx");
  statement.operands = {output};
  statement.results = {image};
  return statement;
}

} // namespace weft::ir

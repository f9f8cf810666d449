// Shape and dtype rules of linear algebra.
#include "dialects/weft/rules/RuleChecks.h"

namespace weft::ir {

using namespace mlir;

using MaybeLocation = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

// The type of square matrices; null, with an error, where they are none.
static RankedTensorType squareMatrices(const RuleChecks &check, Value value, StringRef argument) {
  RankedTensorType type = check.tensor(value, argument);
  if (!type)
    return {};
  Dims dims = dimsOf(type);
  if (dims.size() >= 2 && dims[dims.size() - 1] == dims[dims.size() - 2])
    return type;
  (void)check.error(argument + " is " + spell(type) +
                    "; its last two dimensions must be those of a square matrix");
  return {};
}

LogicalResult CholeskyOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                           Types &types) {
  RankedTensorType input =
      squareMatrices(RuleChecks(loc, getOperationName()), op.getInput(), "input");
  if (!input)
    return failure();
  types.push_back(input);
  return success();
}

LogicalResult LuOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                     Types &types) {
  RankedTensorType input =
      squareMatrices(RuleChecks(loc, getOperationName()), op.getInput(), "input");
  if (!input)
    return failure();
  types.push_back(input);
  Dims rows = dimsOf(input);
  rows.pop_back();
  types.push_back(tensorOf(rows, IntegerType::get(context, 64)));
  return success();
}

LogicalResult SolveTriangularOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                                  Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType matrix = squareMatrices(check, op.getMatrix(), "matrix"),
                   rhs = check.tensor(op.getRhs(), "rhs");
  if (!matrix || !rhs || failed(check.sameElement(matrix, "matrix", rhs, "rhs")))
    return failure();
  Dims rows = dimsOf(matrix), columns = dimsOf(rhs);
  rows.pop_back();
  if (columns.empty() || columns.size() != rows.size() + 1 ||
      ArrayRef<Dim>(columns).drop_back() != ArrayRef<Dim>(rows))
    return check.error("rhs is " + spell(rhs) + " and matrix is " + spell(matrix) +
                       "; all but the last dimension of rhs must be those of the matrix's rows");
  types.push_back(rhs);
  return success();
}

} // namespace weft::ir

// What the compiler reads of an op by its kind, checked where the op is not Weft's own: by the
// verifier for attributes, at the start of a compilation for statements.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/CallRule.h"

namespace weft::ir {

using namespace mlir;

bool isOwn(Operation *op) {
  return isa_and_present<WeftDialect>(op->getDialect());
}

static RankedTensorType tensorOperand(Operation *op, unsigned i) {
  return i < op->getNumOperands() ? dyn_cast<RankedTensorType>(op->getOperand(i).getType())
                                  : RankedTensorType();
}

static LogicalResult verifyReduction(Operation *op) {
  RankedTensorType from = tensorOperand(op, 0);
  auto dims = op->getAttrOfType<DenseI64ArrayAttr>("dims");
  if (!from || !dims)
    return op->emitOpError("is of ReductionKind, so its record needs an operand 0 that is a tensor "
                           "and an attribute `dims` (DenseI64ArrayAttr): the dims that it folds");
  for (auto [i, dim] : llvm::enumerate(dims.asArrayRef()))
    if (dim < 0 || dim >= from.getRank() || (i > 0 && dim <= dims[i - 1]))
      return op->emitOpError("is of ReductionKind, so its `dims` are dims of operand 0, ")
             << spell(from) << ", each once and in order; they are [" << dims.asArrayRef() << "]";
  auto to = op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                                     : RankedTensorType();
  if (!to || to.getRank() != from.getRank() - dims.size())
    return op->emitOpError("is of ReductionKind, so it gives one tensor of the dims that `dims` "
                           "leaves; a dim of size 1 in their place is weft.reshape's");
  return success();
}

// `least` operands: the tensor that is indexed, the indices, and what is written.
static LogicalResult verifyIndexed(Operation *op, StringRef kind, unsigned least) {
  RankedTensorType from = tensorOperand(op, 0);
  auto dim = op->getAttrOfType<IntegerAttr>("dim");
  if (!from || op->getNumOperands() < least || !dim)
    return op->emitOpError("is of ")
           << kind << ", so its record needs " << least
           << " operands, the tensor that is indexed and the indices first, and an attribute `dim` "
              "(I64Attr): the dim of operand 0 that they index";
  if (dim.getInt() < 0 || dim.getInt() >= from.getRank())
    return op->emitOpError("is of ") << kind << ", so its `dim` is one of operand 0, "
                                     << spell(from) << "; it is " << dim.getInt();
  return success();
}

LogicalResult verifyKind(Operation *op) {
  if (isOwn(op))
    return success();
  switch (cast<WeftOp>(op).kind()) {
  case Kind::Reduction:
    return verifyReduction(op);
  case Kind::Gather:
    return verifyIndexed(op, "GatherKind", 2);
  case Kind::Scatter:
    return verifyIndexed(op, "ScatterKind", 3);
  case Kind::Exchange:
    return op->emitOpError("is of ExchangeKind, whose ops are Weft's own: the runtime runs no "
                           "other one between programs; give its record another kind");
  default:
    return success();
  }
}

std::string statementError(Operation *op, const IndexStatement &statement) {
  auto check = [&](StringRef what, ArrayRef<Positions> all, TypeRange types) -> std::string {
    if (all.size() != types.size())
      return ("has positions of " + Twine(all.size()) + " " + what + "s, but the op has " +
              Twine(types.size()))
          .str();
    for (auto [i, positions] : llvm::enumerate(all)) {
      std::string which = (what + " " + Twine(i)).str();
      auto type = dyn_cast<RankedTensorType>(types[i]);
      if (!type || static_cast<int64_t>(positions.size()) != type.getRank())
        return "has " + std::to_string(positions.size()) + " positions for " + which + ", " +
               spell(types[i]) + "; it needs one a dim";
      for (const Position &position : positions) {
        for (Position::Term term : position.terms)
          if (term.dim < 0 || term.dim >= static_cast<int64_t>(statement.dims.size()))
            return "puts " + which + " at dim " + std::to_string(term.dim) + " of its " +
                   std::to_string(statement.dims.size());
        if (position.divisor < 1 || position.modulus < 0)
          return "divides a position of " + which + " by less than 1";
      }
    }
    return "";
  };
  for (std::string error : {check("operand", statement.operands, op->getOperandTypes()),
                            check("result", statement.results, op->getResultTypes())})
    if (!error.empty())
      return error;
  // What a result has as it is has the result's size.
  for (auto [i, positions] : llvm::enumerate(statement.results)) {
    auto type = typeOf(op->getResult(i));
    for (auto [d, position] : llvm::enumerate(positions)) {
      int32_t dim = position.terms.empty() ? -1 : position.terms[0].dim;
      if (dim < 0 || !position.is(dim) || type.isDynamicDim(d))
        continue;
      int64_t size = statement.dims[dim].size.size;
      if (!ShapedType::isDynamic(size) && size != type.getDimSize(d))
        return "has a dim of size " + std::to_string(size) + " for dim " + std::to_string(d) +
               " of result " + std::to_string(i) + ", " + spell(type);
    }
  }
  return "";
}

LogicalResult verifyStatement(Operation *op) {
  if (isOwn(op))
    return success();
  std::optional<IndexStatement> statement;
  LogicalResult called = callRule(op, "statement", [&] {
    statement = cast<WeftOp>(op).statement();
    return success();
  });
  if (failed(called) || !statement)
    return called;
  std::string error = statementError(op, *statement);
  return error.empty() ? success()
                       : op->emitOpError("is at fault in its rule: its statement ") << error;
}

} // namespace weft::ir

// Elementwise ops as linalg.generic, and the helpers of LowerToLinalg.h.
#include "dialects/weft/lowerings/LowerToLinalg.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

namespace weft::ir {

using namespace mlir;

using Values = SmallVector<Value>;

Value parallelGeneric(OpBuilder &b, Location loc, RankedTensorType type, ValueRange inputs,
                      ArrayRef<AffineMap> maps, ScalarBody body) {
  Value init = tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType());
  AffineMap identity = AffineMap::getMultiDimIdentityMap(type.getRank(), b.getContext());
  SmallVector<AffineMap> all(maps);
  if (maps.empty())
    all.assign(inputs.size(), identity);
  all.push_back(identity);
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      b, loc, TypeRange{type}, inputs, ValueRange{init}, all, iterators,
      [&](OpBuilder &inner, Location at, ValueRange args) {
        linalg::YieldOp::create(inner, at, body(inner, at, args.drop_back()));
      });
  return generic.getResult(0);
}

// What a rule of the op gives for an element. Of an op from outside it may be anything; what is
// made of that is not used.
class ElementOf {
public:
  ElementOf(Operation *op, Type element) : op_(op), element_(element) {}

  Value checked(OpBuilder &b, Location loc, Value value) {
    if (isOwn(op_) || (value && value.getType() == element_))
      return value;
    wrong_ = value ? value.getType() : Type();
    return scalarConstant(b, loc, b.getZeroAttr(element_));
  }
  // Failure, with an error at the op, where the element was wrong. function: "scalar function".
  LogicalResult told(StringRef function) const {
    if (!wrong_)
      return success();
    InFlightDiagnostic error = op_->emitOpError("is at fault in its rule: its ")
                               << function << " gives ";
    if (*wrong_)
      error << "a value of " << *wrong_;
    else
      error << "nothing";
    return error << " in place of " << element_, failure();
  }

private:
  Operation *op_;
  Type element_;
  std::optional<Type> wrong_; // null for nothing
};

// Kernels read and write where the statement says. Of an op from outside it may say anything.
static LogicalResult checkInside(Operation *op, const IndexStatement &statement) {
  if (isOwn(op))
    return success();
  auto check = [&](const char *what, ArrayRef<Positions> all, TypeRange types) {
    for (auto [i, positions] : llvm::enumerate(all))
      if (std::string why = outsideError(statement, positions, types[i]); !why.empty())
        return op->emitOpError("is at fault in its rule: by its statement ")
                   << what << " " << i << " " << why,
               failure();
    return success();
  };
  return failure(failed(check("operand", statement.operands, op->getOperandTypes())) ||
                 failed(check("result", statement.results, op->getResultTypes())));
}

// Schedules walk over the dims of operand 0 in their order, so that these are the loops, whichever
// order the statement of an op from outside names them in.
static void orderByOperand(IndexStatement &statement) {
  const Positions &operand = statement.operands[0];
  SmallVector<int32_t> loopOf(statement.dims.size(), -1);
  for (auto [loop, position] : llvm::enumerate(operand))
    if (position.terms.size() == 1 && position.is(position.terms[0].dim))
      loopOf[position.terms[0].dim] = static_cast<int32_t>(loop);
  if (operand.size() != statement.dims.size() || llvm::is_contained(loopOf, -1))
    return; // codegen refuses other loops
  auto dims = statement.dims;
  for (auto [dim, loop] : llvm::enumerate(loopOf))
    statement.dims[loop] = dims[dim];
  for (Positions &positions : llvm::concat<Positions>(statement.operands, statement.results))
    for (Position &position : positions)
      for (Position::Term &term : position.terms)
        term.dim = loopOf[term.dim];
}

Value reductionGeneric(OpBuilder &b, Operation *op, ValueRange inputs, TypedAttr identity,
                       ScalarBody body) {
  Location loc = op->getLoc();
  auto type = typeOf(op->getResult(0));
  std::optional<IndexStatement> found = statementOf(op);
  if (!found) {
    op->emitOpError("has no statement, by which its elements would be folded");
    return Value();
  }
  IndexStatement &statement = *found;
  if (failed(checkInside(op, statement)))
    return Value();
  orderByOperand(statement);
  Value init = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, Attribute(identity)));
  SmallVector<utils::IteratorType> iterators;
  for (const IndexDim &dim : statement.dims)
    iterators.push_back(dim.purpose == Purpose::Reduced ? utils::IteratorType::reduction
                                                        : utils::IteratorType::parallel);
  SmallVector<AffineMap> maps;
  for (const Positions &positions : llvm::concat<Positions>(statement.operands, statement.results))
    maps.push_back(mapOf(statement, positions, b.getContext()));
  // Where nothing is reduced, nobody starts the accumulator.
  bool reduces = llvm::is_contained(iterators, utils::IteratorType::reduction);
  ElementOf folded(op, type.getElementType());
  auto generic = linalg::GenericOp::create(
      b, loc, TypeRange{type}, inputs, ValueRange{init}, maps, iterators,
      [&](OpBuilder &inner, Location at, ValueRange args) {
        SmallVector<Value> values(args);
        if (!reduces)
          values.back() = scalarConstant(inner, at, identity);
        linalg::YieldOp::create(inner, at, folded.checked(inner, at, body(inner, at, values)));
      });
  return failed(folded.told("reduction's body")) ? Value() : generic.getResult(0);
}

FailureOr<Values> lowerMovement(OpBuilder &b, Operation *op, ValueRange operands) {
  std::optional<IndexStatement> statement = statementOf(op);
  if (!statement)
    return op->emitOpError("has no statement, which says where its elements are"), failure();
  if (failed(checkInside(op, *statement)))
    return failure();
  auto isPlain = [&](auto dim) {
    return dim.value().is(static_cast<int32_t>(dim.index())) &&
           statement->dims[dim.index()].purpose != Purpose::Chosen;
  };
  const Positions &result = statement->results[0];
  if (!isOwn(op) && (statement->operands.size() != 1 || statement->dims.size() != result.size() ||
                     !llvm::all_of(llvm::enumerate(result), isPlain)))
    return op->emitOpError("is at fault in its rule: lowerMovement reads one operand, by a "
                           "statement whose dims are the result's, in their order; this one is ")
               << textOf(*statement),
           failure();
  return Values{parallelGeneric(b, op->getLoc(), typeOf(op->getResult(0)), operands,
                                mapOf(*statement, statement->operands[0], b.getContext()),
                                [](OpBuilder &, Location, ValueRange args) { return args[0]; })};
}

Value checkedIndex(OpBuilder &b, Location loc, Value index, int64_t size) {
  Type type = index.getType();
  auto constant = [&](int64_t n) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, n));
  };
  Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, constant(0));
  Value counted = arith::SelectOp::create(
      b, loc, negative, arith::AddIOp::create(b, loc, index, constant(size)), index);
  // Unsigned: what is still negative is out of range, too. A size that i32 cannot hold bounds
  // nothing.
  Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, counted, constant(size));
  cf::AssertOp::create(b, loc, inside, "index out of range");
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), counted);
}

FailureOr<Values> lowerElementwise(OpBuilder &b, Operation *op, ValueRange operands) {
  auto type = typeOf(op->getResult(0));
  auto scalar = cast<ElementwiseOp>(op);
  ElementOf result(op, type.getElementType());
  Value lowered =
      parallelGeneric(b, op->getLoc(), type, operands, {},
                      [&](OpBuilder &inner, Location loc, ValueRange args) -> Value {
                        return result.checked(inner, loc, scalar.emitScalar(inner, loc, args));
                      });
  if (failed(result.told("scalar function")))
    return failure();
  return Values{lowered};
}

FailureOr<Values> CompareOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerElementwise(b, *this, operands);
}
FailureOr<Values> SelectOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerElementwise(b, *this, operands);
}
FailureOr<Values> CastOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerElementwise(b, *this, operands);
}
FailureOr<Values> CheckIndexOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerElementwise(b, *this, operands);
}
FailureOr<Values> TransferOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerElementwise(b, *this, operands);
}

} // namespace weft::ir

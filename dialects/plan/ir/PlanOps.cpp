// Verifiers and assembly of the plan dialect's ops.
#include "dialects/plan/ir/Plan.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/Support/MathExtras.h"

using mlir::failure;
using mlir::LogicalResult;
using mlir::success;

namespace weft::plan {

using namespace mlir;

std::optional<int64_t> byteSize(RankedTensorType type) {
  Type element = type.getElementType();
  int64_t bytes = element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 8;
  for (int64_t dim : type.getShape())
    if (llvm::MulOverflow(bytes, dim, bytes)) {
      // An empty tensor has no bytes, however large its other dims are.
      for (int64_t other : type.getShape())
        if (other == 0)
          return 0;
      return std::nullopt;
    }
  return bytes;
}

Value viewRoot(Value buffer, int64_t &offset) {
  offset = 0;
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    offset += view.getOffset();
    buffer = view.getSource();
  }
  return buffer;
}

namespace {

// From a tensor's first to its last element, with what lies between them. The strides are a list of
// integers; null or empty: all elements lie in a row. nullopt for strides that are none.
std::optional<int64_t> spanOf(RankedTensorType type, Attribute strides) {
  auto list = dyn_cast_or_null<DenseI64ArrayAttr>(strides);
  if (strides && !list)
    return std::nullopt;
  if (!list || list.empty() || type.getNumElements() == 0)
    return byteSize(type);
  if (list.size() != type.getRank())
    return std::nullopt;
  int64_t last = 0, bytes = 0;
  for (auto [dim, stride] : llvm::zip(type.getShape(), list.asArrayRef())) {
    int64_t reach;
    if (stride < 0 || llvm::MulOverflow(dim - 1, stride, reach) ||
        llvm::AddOverflow(last, reach, last))
      return std::nullopt;
  }
  int64_t element = *byteSize(RankedTensorType::get({}, type.getElementType()));
  if (llvm::AddOverflow(last, int64_t(1), last) || llvm::MulOverflow(last, element, bytes))
    return std::nullopt;
  return bytes;
}

template <typename Op> ParseResult parseFunction(OpAsmParser &parser, OperationState &result) {
  auto makeType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                     function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(inputs, results);
  };
  if (function_interface_impl::parseFunctionOp(
          parser, result, /*allowVariadic=*/false, Op::getFunctionTypeAttrName(result.name),
          makeType, Op::getArgAttrsAttrName(result.name), Op::getResAttrsAttrName(result.name)))
    return failure();
  // Accessors cast attributes to the record's types. A text may have others, so that they are
  // checked here.
  return Op::verifyInherentAttrs(result.name, result.attributes, [&] {
    return parser.emitError(parser.getNameLoc()) << "'" << result.name << "' op ";
  });
}

template <typename Op> void printFunction(OpAsmPrinter &printer, Op op) {
  function_interface_impl::printFunctionOp(printer, op, /*isVariadic=*/false,
                                           op.getFunctionTypeAttrName(), op.getArgAttrsAttrName(),
                                           op.getResAttrsAttrName());
}

// The types that the terminator gives against those that the function states.
LogicalResult verifyReturn(FunctionOpInterface function) {
  if (function.getFunctionBody().empty())
    return function->emitOpError("has no body");
  Block &block = function.getFunctionBody().front();
  auto terminator = block.empty() ? nullptr : dyn_cast<ReturnOp>(block.back());
  if (!terminator)
    return function->emitOpError("must end with plan.return");
  if (terminator.getOperandTypes() != TypeRange(function.getResultTypes()))
    return terminator.emitOpError("gives (")
           << terminator.getOperandTypes() << "), but its parent states ("
           << function.getResultTypes() << ")";
  return success();
}

// The attribute plan.type of an argument or a result, against its buffer's size.
LogicalResult verifyTensorType(Operation *op, StringRef what, unsigned i, Attribute attribute,
                               Type type) {
  auto buffer = dyn_cast<BufferType>(type);
  if (!buffer)
    return op->emitOpError() << what << " " << i << " is a " << type
                             << ", but programs take and give buffers";
  auto tensorAttr = dyn_cast_or_null<TypeAttr>(attribute);
  auto tensor = tensorAttr ? dyn_cast<RankedTensorType>(tensorAttr.getValue()) : RankedTensorType();
  if (!tensor || !tensor.hasStaticShape())
    return op->emitOpError() << what << " " << i << " needs the attribute " << kTypeAttr
                             << ", a tensor type of static shape";
  if (byteSize(tensor) != buffer.getBytes())
    return op->emitOpError() << what << " " << i << " is a " << buffer << ", which does not hold a "
                             << tensor;
  return success();
}

} // namespace

//===-- Structure -----------------------------------------------------------------------------===//

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<ProgramOp>(parser, result);
}
void ProgramOp::print(OpAsmPrinter &printer) {
  printFunction(printer, *this);
}

LogicalResult ProgramOp::verifyRegions() {
  if (failed(verifyReturn(*this)))
    return failure();
  for (unsigned i = 0; i < getNumArguments(); ++i)
    if (failed(verifyTensorType(*this, "argument", i, getArgAttr(i, kTypeAttr),
                                getArgumentTypes()[i])))
      return failure();
  for (unsigned i = 0; i < getResultTypes().size(); ++i)
    if (failed(
            verifyTensorType(*this, "result", i, getResultAttr(i, kTypeAttr), getResultTypes()[i])))
      return failure();
  auto terminator = cast<ReturnOp>(getBody().front().back());
  for (auto [i, value] : llvm::enumerate(terminator.getValues())) {
    int64_t offset;
    Value root = viewRoot(value, offset);
    if (offset != 0 || root.getType() != value.getType() ||
        (!isa<BlockArgument>(root) && !root.getDefiningOp<OutputOp>()))
      return terminator.emitOpError()
             << "result " << i << " must be an input or a plan.output: the caller binds it";
  }
  return success();
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<KernelOp>(parser, result);
}
void KernelOp::print(OpAsmPrinter &printer) {
  printFunction(printer, *this);
}

LogicalResult KernelOp::verify() {
  if (getCount() < 0 || getGrain() < 1 || getScratch() < 0 || getPartials() < 0)
    return emitOpError("needs count, scratch and partials of at least 0 and a grain of at least 1");
  ArrayRef<int64_t> pairs = getInPlace();
  if (pairs.size() % 2)
    return emitOpError("in_place lists (output, input) pairs, but has an odd number of entries");
  for (size_t i = 0; i < pairs.size(); i += 2)
    if (pairs[i] < 0 || pairs[i] >= int64_t(getResultTypes().size()) || pairs[i + 1] < 0 ||
        pairs[i + 1] >= int64_t(getArgumentTypes().size()))
      return emitOpError() << "in_place pair (" << pairs[i] << ", " << pairs[i + 1]
                           << ") does not name an output and an input";
  return verifyReturn(*this);
}

//===-- Buffers -------------------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  auto tensor = dyn_cast<RankedTensorType>(getValue().getType());
  if (!tensor || byteSize(tensor) != getType().getBytes())
    return emitOpError() << "a " << getType() << " does not hold a " << getValue().getType();
  return success();
}

LogicalResult ViewOp::verify() {
  int64_t end;
  if (getOffset() < 0 || llvm::AddOverflow(int64_t(getOffset()), getType().getBytes(), end) ||
      end > bytesOf(getSource()))
    return emitOpError() << "bytes " << getOffset() << " to " << getOffset() + getType().getBytes()
                         << " lie outside a buffer of " << bytesOf(getSource()) << " bytes";
  return success();
}

//===-- Instructions --------------------------------------------------------------------------===//

OperandRange LaunchOp::getReads() {
  return getInputs();
}
MutableOperandRange LaunchOp::getWritesMutable() {
  // Outputs and the buffer of partials lie side by side.
  auto [start, length] = getODSOperandIndexAndLength(1);
  return MutableOperandRange(*this, start, length + (getPartials() ? 1 : 0));
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "there is no plan.kernel " << getKernelAttr();
  auto matches = [&](ValueRange buffers, ArrayRef<Type> types) {
    return llvm::equal(buffers, types, [](Value buffer, Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && byteSize(tensor) == bytesOf(buffer);
    });
  };
  if (!matches(getInputs(), kernel.getArgumentTypes()))
    return emitOpError() << "inputs (" << getInputs().getTypes()
                         << ") do not hold the kernel's arguments (" << kernel.getArgumentTypes()
                         << ")";
  if (!matches(getOutputs(), kernel.getResultTypes()))
    return emitOpError() << "outputs (" << getOutputs().getTypes()
                         << ") do not hold the kernel's results (" << kernel.getResultTypes()
                         << ")";
  // Absent until plan-launches has run.
  if (getPartials() && bytesOf(getPartials()) < int64_t(kernel.getPartials()))
    return emitOpError() << "the kernel needs " << kernel.getPartials() << " bytes of partials";
  return success();
}

OperandRange LibraryCallOp::getReads() {
  return getInputs();
}
MutableOperandRange LibraryCallOp::getWritesMutable() {
  // Outputs and scratch lie side by side.
  auto [start, length] = getODSOperandIndexAndLength(1);
  return MutableOperandRange(*this, start, length + (getScratch() ? 1 : 0));
}

LogicalResult LibraryCallOp::verify() {
  size_t tensors = getInputs().size() + getOutputs().size();
  if (getTypes().size() != tensors)
    return emitOpError() << "has " << tensors << " operands, but states " << getTypes().size()
                         << " tensor types";
  auto strides = (*this)->getAttrOfType<ArrayAttr>(kStridesAttr);
  if (strides ? strides.size() != tensors : (*this)->hasAttr(kStridesAttr))
    return emitOpError() << "has " << tensors << " operands, and needs as many lists of strides in "
                         << kStridesAttr;
  for (auto [i, attribute] : llvm::enumerate(getTypes())) {
    Value operand = getOperand(unsigned(i));
    auto tensor = dyn_cast<RankedTensorType>(cast<TypeAttr>(attribute).getValue());
    if (!tensor || !tensor.hasStaticShape() ||
        spanOf(tensor, strides ? strides[i] : Attribute()) != bytesOf(operand))
      return emitOpError() << "a " << operand.getType() << " does not hold a " << attribute;
  }
  return success();
}

OperandRange PiecesOp::getReads() {
  return getInputs();
}
MutableOperandRange PiecesOp::getWritesMutable() {
  // Outputs and locals lie side by side.
  auto [start, length] = getODSOperandIndexAndLength(1);
  return MutableOperandRange(*this, start, length + unsigned(getLocals().size()));
}

Value bufferFor(Operation *instruction, int64_t bytes) {
  auto pieces = dyn_cast<PiecesOp>(instruction->getParentOp());
  OpBuilder builder(pieces ? pieces.getOperation() : instruction);
  auto type = BufferType::get(instruction->getContext(), bytes);
  Value buffer = AllocOp::create(builder, instruction->getLoc(), type);
  if (!pieces)
    return buffer;
  pieces.getLocalsMutable().append(buffer);
  SmallVector<int64_t> steps(pieces.getSteps());
  steps.push_back(0);
  pieces.setSteps(steps);
  return pieces.getBody().front().addArgument(type, instruction->getLoc());
}

LogicalResult PiecesOp::verify() {
  Block &body = getBody().front();
  size_t inputs = getInputs().size(), outputs = getOutputs().size(), all = getNumOperands();
  if (getCount() < 1 || getSteps().size() != all || body.getNumArguments() != all)
    return emitOpError() << "needs a count of at least 1, and a step and an argument of its body "
                            "for each of its "
                         << all << " operands";
  for (size_t i = 0; i < all; ++i) {
    auto piece = dyn_cast<BufferType>(body.getArgument(unsigned(i)).getType());
    int64_t step = getSteps()[i], whole = bytesOf(getOperand(unsigned(i))), end = 0;
    bool written = i >= inputs, local = i >= inputs + outputs;
    if (!piece || step < 0 || llvm::MulOverflow(step, int64_t(getCount()) - 1, end) ||
        llvm::AddOverflow(end, piece.getBytes(), end) || end > whole || (local && step != 0) ||
        (written && end != whole) ||
        (written && !local && getCount() > 1 && step != piece.getBytes()))
      return emitOpError() << "operand " << i << " has " << whole << " bytes, which are not "
                           << getCount() << " pieces of " << body.getArgument(unsigned(i)).getType()
                           << " with a step of " << step;
  }
  for (Operation &op : body)
    if (!isa<LaunchOp, LibraryCallOp>(op))
      return op.emitOpError("cannot be in plan.pieces, which takes launches and library calls");
  return success();
}

OperandRange CopyOp::getReads() {
  return getOperation()->getOperands().take_front(1);
}
MutableOperandRange CopyOp::getWritesMutable() {
  return MutableOperandRange(*this, 1, 1);
}

LogicalResult CopyOp::verify() {
  if (getSource().getType() != getTarget().getType())
    return emitOpError("copies whole buffers, which must have one size");
  return success();
}

OperandRange FillOp::getReads() {
  return getOperation()->getOperands().take_front(0);
}
MutableOperandRange FillOp::getWritesMutable() {
  return MutableOperandRange(*this, 0, 1);
}

LogicalResult FillOp::verify() {
  int64_t width = getWidth();
  if (width != 1 && width != 2 && width != 4 && width != 8)
    return emitOpError() << "width must be 1, 2, 4 or 8, not " << width;
  if (bytesOf(getTarget()) % width)
    return emitOpError() << bytesOf(getTarget()) << " bytes are no multiple of the width " << width;
  return success();
}

} // namespace weft::plan

#define GET_OP_CLASSES
#include "dialects/plan/ir/PlanOps.cpp.inc"

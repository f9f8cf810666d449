// Reference evaluation of a block of ops: of functions, and of ops with a body.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/CallRule.h"

namespace weft::ir {

using namespace mlir;

namespace {

// The values of one run over a block. Each is freed at its last use.
class BlockEvaluation {
public:
  LogicalResult bind(Value argument, HostTensor tensor);
  LogicalResult run(Operation &op);
  // The values that the terminator returns.
  LogicalResult results(Operation &terminator, SmallVectorImpl<HostTensor> &out);

private:
  struct Entry {
    HostTensor tensor;
    int64_t usesLeft = 0;
  };

  FailureOr<HostTensor> zeros(Operation &op, Type type) const;
  void define(Value value, HostTensor tensor);
  void use(Value value);

  // Entries are behind pointers, since operands are read while results are added.
  DenseMap<Value, std::unique_ptr<Entry>> values_;
  llvm::StringMap<int64_t> symbols_;
};

} // namespace

void BlockEvaluation::define(Value value, HostTensor tensor) {
  int64_t uses = std::distance(value.use_begin(), value.use_end());
  if (uses)
    values_[value] = std::make_unique<Entry>(Entry{std::move(tensor), uses});
}

void BlockEvaluation::use(Value value) {
  auto entry = values_.find(value);
  if (entry != values_.end() && --entry->second->usesLeft == 0)
    values_.erase(entry);
}

LogicalResult BlockEvaluation::bind(Value argument, HostTensor tensor) {
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  std::string given = name(tensor.dtype) + spell(Dims(tensor.shape.begin(), tensor.shape.end()));
  auto number = cast<BlockArgument>(argument).getArgNumber();
  auto mismatch = [&](const Twine &why) {
    return mlir::emitError(argument.getLoc())
           << "argument " << number << " is " << spell(argument.getType())
           << " but the given tensor is " << given << (why.isTriviallyEmpty() ? "" : ": ") << why;
  };
  if (!type || !dimsAreNamed(type) || dtypeOf(type.getElementType()) != tensor.dtype ||
      type.getRank() != static_cast<int64_t>(tensor.shape.size()))
    return mismatch("");
  for (auto [dim, size] : llvm::zip(dimsOf(type), tensor.shape)) {
    if (dim.isStatic()) {
      if (dim.size != size)
        return mismatch("");
      continue;
    }
    auto [entry, isNew] = symbols_.try_emplace(dim.symbol.getValue(), size);
    if (!isNew && entry->second != size)
      return mismatch("'" + dim.symbol.getValue() + "' is already " + Twine(entry->second) +
                      " in an argument before it");
  }
  define(argument, std::move(tensor));
  return success();
}

FailureOr<HostTensor> BlockEvaluation::zeros(Operation &op, Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !dimsAreNamed(tensor))
    return op.emitOpError("has a result that reference evaluation cannot hold: ") << spell(type);
  std::vector<int64_t> shape;
  int64_t bytes = byte_size(dtypeOf(tensor.getElementType()));
  for (const Dim &dim : dimsOf(tensor)) {
    shape.push_back(dim.size);
    if (!dim.isStatic()) {
      auto symbol = symbols_.find(dim.symbol.getValue());
      if (symbol == symbols_.end())
        return op.emitOpError("has a result of symbolic size '")
               << dim.symbol.getValue() << "', which no argument has";
      shape.back() = symbol->second;
    }
    if (__builtin_mul_overflow(bytes, shape.back(), &bytes))
      return op.emitOpError("has a result too large for memory: ") << spell(type);
  }
  try {
    return HostTensor(dtypeOf(tensor.getElementType()), std::move(shape));
  } catch (const std::exception &) { // bad_alloc, length_error
    return op.emitOpError("has a result too large for memory: ") << spell(type);
  }
}

LogicalResult BlockEvaluation::run(Operation &op) {
  auto rules = dyn_cast<WeftOp>(op);
  if (!rules)
    return op.emitOpError("is no op of the weft dialect, so reference evaluation cannot run it");
  SmallVector<const HostTensor *> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&values_.find(operand)->second->tensor);
  SmallVector<HostTensor> results;
  for (Type type : op.getResultTypes()) {
    FailureOr<HostTensor> result = zeros(op, type);
    if (failed(result))
      return failure();
    results.push_back(std::move(*result));
  }
  EvalContext context(&op, operands, results);
  if (failed(callRule(&op, "evaluation", [&] { return rules.evaluate(context); })))
    return failure();
  for (Value operand : op.getOperands())
    use(operand);
  for (auto [value, tensor] : llvm::zip(op.getResults(), results))
    define(value, std::move(tensor));
  return success();
}

LogicalResult BlockEvaluation::results(Operation &terminator, SmallVectorImpl<HostTensor> &out) {
  for (Value operand : terminator.getOperands()) {
    Entry &entry = *values_.find(operand)->second;
    // Only the last use may take the tensor away: a value can be returned twice.
    out.push_back(entry.usesLeft == 1 ? std::move(entry.tensor) : entry.tensor);
    use(operand);
  }
  return success();
}

LogicalResult evaluateBlock(Block &block, MutableArrayRef<HostTensor> arguments,
                            SmallVectorImpl<HostTensor> &results) {
  if (arguments.size() != block.getNumArguments())
    return mlir::emitError(block.getParentOp()->getLoc())
           << "takes " << block.getNumArguments() << " arguments but is given " << arguments.size();
  bool saysWhy = false;
  mlir::ScopedDiagnosticHandler watch(
      block.getParentOp()->getContext(), [&](mlir::Diagnostic &diagnostic) {
        saysWhy |= diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
        return failure(); // to the handler around it
      });
  BlockEvaluation evaluation;
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments))
    if (failed(evaluation.bind(argument, std::move(tensor))))
      return failure();
  for (Operation &op : block.without_terminator())
    if (failed(evaluation.run(op))) {
      if (!saysWhy)
        op.emitOpError("is at fault in its rule: its evaluation failed, and says nothing; return "
                       "EvalContext::error with the reason");
      return failure();
    }
  return evaluation.results(*block.getTerminator(), results);
}

static LogicalResult evaluateBody(Region &body, EvalContext &ctx) {
  SmallVector<HostTensor> arguments, results;
  for (int64_t i = 0; i < ctx.numOperands(); ++i)
    arguments.push_back(ctx.operand(i));
  if (failed(evaluateBlock(body.front(), arguments, results)))
    return failure();
  for (auto [i, result] : llvm::enumerate(results))
    ctx.result(i) = std::move(result);
  return success();
}

LogicalResult FusionOp::evaluate(EvalContext &ctx) {
  return evaluateBody(getBody(), ctx);
}
LogicalResult ProviderCallOp::evaluate(EvalContext &ctx) {
  return evaluateBody(getBody(), ctx);
}

} // namespace weft::ir

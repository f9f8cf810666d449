#include "compiler/graph/Differentiate.h"

#include "compiler/graph/Passes.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/CallRule.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "compiler/graph/Passes.h.inc"

static bool isFloat(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

static Value splat(OpBuilder &builder, Value like, double number) {
  return ir::Val(builder, like.getLoc(), like).constant(number).value();
}

namespace {

// One reverse sweep over a block.
class ReverseSweep {
public:
  ReverseSweep(OpBuilder &builder, ArrayRef<Value> inputs) : builder_(builder) {
    active_.insert(inputs.begin(), inputs.end());
  }

  LogicalResult run(Value output, Value cotangent) {
    // The floating-point values that depend on an input: only they take part.
    SmallVector<Operation *> path;
    Operation *last = output.getDefiningOp();
    for (Operation &op : *output.getParentBlock()) {
      if (!last)
        break;
      // Behind a stop no derivative is asked for, which an op may not have.
      if (!isa<ir::DetachOp>(op) && llvm::any_of(op.getOperands(), [&](Value operand) {
            return active_.contains(operand);
          })) {
        path.push_back(&op);
        for (Value result : op.getResults())
          if (isFloat(result.getType()))
            active_.insert(result);
      }
      if (&op == last)
        break;
    }
    cotangents_[output] = cotangent;
    for (Operation *op : llvm::reverse(path))
      if (failed(differentiate(op)))
        return failure();
    return success();
  }

  // Null where nothing arrived.
  Value cotangent(Value value) const {
    return cotangents_.lookup(value);
  }

private:
  LogicalResult differentiate(Operation *op) {
    SmallVector<Value, 4> cotangents;
    for (Value result : op->getResults())
      cotangents.push_back(cotangents_.lookup(result));
    if (llvm::none_of(cotangents, [](Value value) { return static_cast<bool>(value); }))
      return success();
    auto rules = dyn_cast<ir::WeftOp>(op);
    if (!rules)
      return op->emitOpError() << "has no derivative: only ops of weft have one";

    SmallVector<bool, 4> needs;
    for (Value operand : op->getOperands())
      needs.push_back(active_.contains(operand) && isFloat(operand.getType()));
    // The rule sees what its record saves and nothing else, as in backward().
    SmallVector<Value, 4> operands(op->getNumOperands()), results(op->getNumResults());
    for (int64_t i : rules.savedOperands())
      if (i < static_cast<int64_t>(operands.size()))
        operands[i] = op->getOperand(i);
    for (int64_t i : rules.savedResults())
      if (i < static_cast<int64_t>(results.size()))
        results[i] = op->getResult(i);
    ir::GradContext context(builder_, op->getLoc(), op->getName(), op->getPropertiesStorage(),
                            op->getOperandTypes(), op->getResultTypes(), operands, results,
                            cotangents, needs);
    auto differentiate = [&] {
      return rules.differentiate(context);
    };
    if (failed(ir::callRule(op, "derivative", differentiate)) || context.isWrong())
      return failure();
    for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), context.gradients())) {
      if (!gradient)
        continue;
      Value &sum = cotangents_[operand];
      sum = sum ? ir::AddOp::create(builder_, op->getLoc(), sum, gradient) : gradient;
    }
    return success();
  }

  OpBuilder &builder_;
  DenseSet<Value> active_;
  DenseMap<Value, Value> cotangents_;
};

} // namespace

FailureOr<SmallVector<Value>> buildGradients(OpBuilder &builder, Value output, Value cotangent,
                                             ArrayRef<Value> inputs) {
  ReverseSweep sweep(builder, inputs);
  if (failed(sweep.run(output, cotangent)))
    return failure();
  SmallVector<Value> gradients;
  for (Value input : inputs) {
    Value gradient = sweep.cotangent(input);
    gradients.push_back(gradient ? gradient : splat(builder, input, 0));
  }
  return gradients;
}

// The arguments to differentiate by, checked.
static FailureOr<SmallVector<int64_t>> argumentsOf(func::FuncOp function,
                                                   const DifferentiateOptions &options) {
  int64_t count = function.getNumArguments();
  SmallVector<int64_t> arguments(options.arguments);
  if (arguments.empty())
    for (int64_t i = 0; i < count; ++i)
      if (isFloat(function.getArgument(i).getType()))
        arguments.push_back(i);
  for (int64_t i : arguments) {
    if (i < 0 || i >= count)
      return function.emitError() << "cannot differentiate by argument " << i << ": there are "
                                  << count;
    if (!isFloat(function.getArgument(i).getType()))
      return function.emitError() << "cannot differentiate by argument " << i << " of type "
                                  << function.getArgument(i).getType()
                                  << ": only floating-point tensors have derivatives";
  }
  return arguments;
}

FailureOr<func::FuncOp> differentiate(func::FuncOp function, const DifferentiateOptions &options) {
  if (function.isDeclaration() || !llvm::hasSingleElement(function.getBody()))
    return function.emitError() << "cannot be differentiated: its body must be one block";
  FailureOr<SmallVector<int64_t>> arguments = argumentsOf(function, options);
  if (failed(arguments))
    return failure();
  int64_t resultCount = function.getNumResults();
  if (options.result < 0 || options.result >= resultCount)
    return function.emitError() << "cannot differentiate result " << options.result
                                << ": there are " << resultCount;
  Type resultType = function.getResultTypes()[options.result];
  if (!isFloat(resultType))
    return function.emitError() << "cannot differentiate result " << options.result << " of type "
                                << resultType << ": only floating-point tensors have derivatives";

  func::FuncOp derivative = function.clone();
  derivative.setName((function.getName() + "_grad").str());
  derivative->removeAttr(ir::kDifferentiateAttr);
  Block &block = derivative.getBody().front();
  auto exit = cast<func::ReturnOp>(block.getTerminator());
  OpBuilder builder(exit);

  auto resultTensor = cast<RankedTensorType>(resultType);
  Value cotangent;
  if (resultTensor.hasStaticShape() && resultTensor.getNumElements() == 1) {
    cotangent = splat(builder, exit.getOperand(options.result), 1);
  } else {
    unsigned last = derivative.getNumArguments();
    if (failed(derivative.insertArgument(last, resultType, {}, function.getLoc())))
      return failure();
    cotangent = derivative.getArgument(last);
  }
  SmallVector<Value> inputs;
  for (int64_t i : *arguments)
    inputs.push_back(derivative.getArgument(i));
  FailureOr<SmallVector<Value>> gradients =
      buildGradients(builder, exit.getOperand(options.result), cotangent, inputs);
  if (failed(gradients)) {
    derivative.erase();
    return failure();
  }
  exit.getOperandsMutable().append(*gradients);
  SmallVector<Type> results(exit.getOperandTypes());
  derivative.setType(builder.getFunctionType(derivative.getArgumentTypes(), results));
  if (ArrayAttr attributes = derivative.getAllResultAttrs()) {
    SmallVector<Attribute> all(attributes.begin(), attributes.end());
    all.resize(results.size(), builder.getDictionaryAttr({}));
    derivative.setAllResultAttrs(all);
  }

  SymbolTable symbols(function->getParentOp());
  symbols.insert(derivative, std::next(function->getIterator()));
  return derivative;
}

namespace {

class DifferentiatePass : public impl::DifferentiatePassBase<DifferentiatePass> {
public:
  using DifferentiatePassBase::DifferentiatePassBase;

  void runOnOperation() override {
    SmallVector<std::pair<func::FuncOp, DifferentiateOptions>> work;
    if (!function.empty()) {
      auto found = getOperation().lookupSymbol<func::FuncOp>(function);
      if (!found) {
        getOperation().emitError() << "weft-differentiate: there is no function @" << function;
        return signalPassFailure();
      }
      work.emplace_back(
          found,
          DifferentiateOptions{SmallVector<int64_t>(arguments.begin(), arguments.end()), result});
    } else {
      for (auto found : getOperation().getOps<func::FuncOp>())
        if (Attribute attribute = found->getAttr(ir::kDifferentiateAttr)) {
          FailureOr<DifferentiateOptions> options = read(found, attribute);
          if (failed(options))
            return signalPassFailure();
          work.emplace_back(found, *options);
        }
    }
    for (auto &[target, options] : work) {
      if (failed(differentiate(target, options)))
        return signalPassFailure();
      target->removeAttr(ir::kDifferentiateAttr);
    }
  }

private:
  // {arguments = array<i64: 0, 2>, result = 1 : i64}, both optional; a unit attribute asks for the
  // defaults.
  static FailureOr<DifferentiateOptions> read(func::FuncOp target, Attribute attribute) {
    DifferentiateOptions options;
    if (isa<UnitAttr>(attribute))
      return options;
    auto fields = dyn_cast<DictionaryAttr>(attribute);
    if (!fields)
      return target.emitError() << "weft.differentiate must be a unit attribute or {arguments = "
                                   "array<i64>, result = i64}";
    for (NamedAttribute field : fields) {
      auto list = dyn_cast<DenseI64ArrayAttr>(field.getValue());
      auto number = dyn_cast<IntegerAttr>(field.getValue());
      if (field.getName() == "arguments" && list)
        options.arguments.assign(list.asArrayRef().begin(), list.asArrayRef().end());
      else if (field.getName() == "result" && number)
        options.result = number.getInt();
      else
        return target.emitError()
               << "weft.differentiate takes arguments = array<i64> and result = i64, not "
               << field.getName();
    }
    return options;
  }
};

} // namespace
} // namespace weft::compiler

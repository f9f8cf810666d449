// weft-to-plan: a slice becomes a program; each value gets a buffer of its own.
#include <unordered_map>

#include "compiler/pipeline/Registrations.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/KernelStructure.h"
#include "compiler/plan/Passes.h"
#include "compiler/plan/Problem.h"
#include "compiler/plan/SharedKernels.h"
#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/MayFail.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::compiler {

using namespace mlir;

namespace {

class Lowering {
public:
  Lowering(func::FuncOp main, int64_t operandAlignment)
      : main_(main), operandAlignment_(operandAlignment), builder_(main.getContext()) {}

  LogicalResult run() {
    if (!llvm::hasSingleElement(main_.getBody()))
      return main_.emitOpError("must have one block to become a program");
    shareKernels(main_, operandAlignment_);
    if (failed(makeProgram()))
      return failure();
    for (Operation &op : llvm::make_early_inc_range(main_.getBody().front())) {
      LogicalResult lowered =
          TypeSwitch<Operation *, LogicalResult>(&op)
              .Case<ir::FusionOp, ir::ProviderCallOp, ir::ReshapeOp, ir::SliceOp, ir::ConstantOp,
                    func::ReturnOp>([&](auto concrete) { return lower(concrete); })
              .Default([](Operation *other) {
                std::string passes = registeredNames("pass");
                return other->emitOpError(
                           "cannot be planned: only weft.fusion, weft.provider_call, weft.reshape, "
                           "weft.slice and weft.constant may stand here; run the fuse phase first")
                       << (passes.empty() ? "" : ", or see what registered passes left (there is " +
                                                     passes + ")");
              });
      if (failed(lowered))
        return failure();
    }
    main_.erase();
    return success();
  }

private:
  FailureOr<plan::BufferType> bufferType(Location loc, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return mlir::emitError(loc) << "cannot plan a value of type " << type
                                  << ": its shape is not static";
    std::optional<int64_t> bytes = plan::byteSize(tensor);
    if (!bytes)
      return mlir::emitError(loc) << "a value of type " << type << " has more than 2^63 bytes";
    return plan::BufferType::get(builder_.getContext(), *bytes);
  }

  // The attributes of an argument or a result of the slice, as the program has them.
  DictionaryAttr attributes(Type type, DictionaryAttr from) {
    SmallVector<NamedAttribute> list{builder_.getNamedAttr(plan::kTypeAttr, TypeAttr::get(type))};
    for (auto [source, target] : {std::pair<StringRef, StringRef>{ir::kNameAttr, plan::kNameAttr},
                                  {ir::kDonatableAttr, plan::kDonatableAttr},
                                  {ir::kKeptAttr, plan::kKeptAttr},
                                  {ir::kStableAttr, plan::kStableAttr},
                                  {ir::kParameterAttr, plan::kParameterAttr},
                                  {ir::kPreparedAttr, plan::kPreparedAttr},
                                  {ir::kSourceAttr, plan::kSourceAttr}})
      if (Attribute value = from ? from.get(source) : Attribute())
        list.push_back(builder_.getNamedAttr(target, value));
    return builder_.getDictionaryAttr(list);
  }

  LogicalResult makeProgram() {
    FunctionType type = main_.getFunctionType();
    SmallVector<Type> inputs, outputs;
    SmallVector<Attribute> inputAttributes, outputAttributes;
    for (auto [i, input] : llvm::enumerate(type.getInputs())) {
      auto buffer = bufferType(main_.getLoc(), input);
      if (failed(buffer))
        return failure();
      inputs.push_back(*buffer);
      inputAttributes.push_back(attributes(input, main_.getArgAttrDict(i)));
    }
    for (auto [i, output] : llvm::enumerate(type.getResults())) {
      auto buffer = bufferType(main_.getLoc(), output);
      if (failed(buffer))
        return failure();
      outputs.push_back(*buffer);
      outputAttributes.push_back(attributes(output, main_.getResultAttrDict(i)));
    }
    builder_.setInsertionPoint(main_);
    program_ = plan::ProgramOp::create(
        builder_, main_.getLoc(), main_.getName(), builder_.getFunctionType(inputs, outputs),
        builder_.getArrayAttr(inputAttributes), builder_.getArrayAttr(outputAttributes));
    Block *block = builder_.createBlock(&program_.getBody());
    for (auto [argument, buffer] : llvm::zip(main_.getArguments(), inputs))
      buffers_[argument] = block->addArgument(buffer, argument.getLoc());
    return success();
  }

  FailureOr<Value> allocate(Value value) {
    auto type = bufferType(value.getLoc(), value.getType());
    if (failed(type))
      return failure();
    Value buffer = plan::AllocOp::create(builder_, value.getLoc(), *type);
    return buffers_[value] = buffer;
  }

  LogicalResult operandsAndResults(Operation *op, SmallVectorImpl<Value> &inputs,
                                   SmallVectorImpl<Value> &outputs) {
    for (Value operand : op->getOperands())
      inputs.push_back(buffers_.lookup(operand));
    for (Value result : op->getResults()) {
      auto buffer = allocate(result);
      if (failed(buffer))
        return failure();
      outputs.push_back(*buffer);
    }
    return success();
  }

  // What only writes empty tensors writes nothing.
  static bool writesNothing(ValueRange outputs) {
    return llvm::all_of(outputs, [](Value buffer) { return plan::bytesOf(buffer) == 0; });
  }

  LogicalResult lower(ir::FusionOp fusion) {
    SmallVector<Value> inputs, outputs;
    if (failed(operandsAndResults(fusion, inputs, outputs)))
      return failure();
    if (writesNothing(outputs))
      return success();
    plan::LaunchOp::create(builder_, fusion.getLoc(), kernelOf(fusion).getSymNameAttr(), inputs,
                           outputs, Value(), false);
    return success();
  }

  plan::KernelOp kernelOf(ir::FusionOp fusion) {
    plan::KernelOp &kernel = kernels_[structureOf(fusion)];
    if (kernel)
      return kernel;
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPoint(program_);
    kernel = createKernel(builder_, fusion, kernels_.size() - 1);
    return kernel;
  }

  LogicalResult lower(ir::ProviderCallOp call) {
    SmallVector<Value> inputs, outputs;
    if (failed(operandsAndResults(call, inputs, outputs)))
      return failure();
    if (writesNothing(outputs))
      return success();
    SmallVector<Type> types(call->getOperandTypes());
    llvm::append_range(types, call->getResultTypes());
    auto lowered = plan::LibraryCallOp::create(builder_, call.getLoc(), call.getCallee(), inputs,
                                               outputs, /*scratch=*/Value(),
                                               builder_.getTypeArrayAttr(types), call.getConfig());
    if (ir::mayFail(call))
      lowered->setAttr(plan::kMayFailAttr, builder_.getUnitAttr());
    return success();
  }

  // The same bytes under another shape.
  LogicalResult lower(ir::ReshapeOp reshape) {
    buffers_[reshape.getResult()] = buffers_.lookup(reshape.getInput());
    return success();
  }

  // A part of a value as shareKernels() takes it out of fusions: its bytes are in a row.
  LogicalResult lower(ir::SliceOp slice) {
    auto type = bufferType(slice.getLoc(), slice.getType());
    if (failed(type))
      return failure();
    auto from = ir::typeOf(slice.getInput());
    std::optional<int64_t> bytes = plan::byteSize(from);
    if (from.getRank() != 1 || slice.getSteps()[0] != 1 || !bytes || *bytes == 0)
      return slice.emitOpError("cannot be planned outside of a weft.fusion: its bytes need not be "
                               "in a row; run the fuse phase first");
    int64_t offset = slice.getStarts()[0] * (*bytes / from.getNumElements());
    if (offset % operandAlignment_ != 0)
      return slice.emitOpError("cannot be planned outside of a weft.fusion: it begins at byte ")
             << offset << ", and kernels of this target read from multiples of "
             << operandAlignment_;
    auto view = plan::ViewOp::create(builder_, slice.getLoc(), *type,
                                     buffers_.lookup(slice.getInput()), offset);
    view->setAttr(plan::kPartAttr, builder_.getUnitAttr());
    buffers_[slice.getResult()] = view;
    return success();
  }

  LogicalResult lower(ir::ConstantOp constant) {
    auto type = bufferType(constant.getLoc(), constant.getType());
    if (failed(type))
      return failure();
    buffers_[constant.getResult()] =
        plan::ConstantOp::create(builder_, constant.getLoc(), *type, constant.getValue());
    return success();
  }

  LogicalResult lower(func::ReturnOp op) {
    SmallVector<Value> results;
    for (Value value : op.getOperands()) {
      Value buffer = buffers_.lookup(value);
      // Values that are one buffer, through reshapes or because they are returned twice, get one
      // output.
      Value &returned = returned_.try_emplace(buffer, buffer).first->second;
      if (returned == buffer && !isa<BlockArgument>(buffer))
        returned = makeOutput(buffer);
      results.push_back(returned);
    }
    plan::ReturnOp::create(builder_, op.getLoc(), results);
    for (plan::AllocOp alloc : replaced_)
      alloc.erase();
    return success();
  }

  Value makeOutput(Value buffer) {
    OpBuilder::InsertionGuard guard(builder_);
    auto alloc = buffer.getDefiningOp<plan::AllocOp>();
    if (alloc)
      builder_.setInsertionPoint(alloc);
    Value output = plan::OutputOp::create(builder_, buffer.getLoc(), buffer.getType());
    if (alloc) {
      buffer.replaceAllUsesWith(output);
      replaced_.push_back(alloc);
    } else {
      plan::CopyOp::create(builder_, buffer.getLoc(), buffer, output);
    }
    return output;
  }

  func::FuncOp main_;
  int64_t operandAlignment_;
  OpBuilder builder_;
  plan::ProgramOp program_;
  DenseMap<Value, Value> buffers_;  // of each value of the slice
  DenseMap<Value, Value> returned_; // what stands for a returned buffer
  SmallVector<plan::AllocOp> replaced_;
  std::unordered_map<std::string, plan::KernelOp> kernels_;
};

struct WeftToPlan : PassWrapper<WeftToPlan, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WeftToPlan)
  explicit WeftToPlan(int64_t operandAlignment) : operandAlignment_(operandAlignment) {}
  StringRef getArgument() const override {
    return "weft-to-plan";
  }
  StringRef getDescription() const override {
    return "Turns a slice of fusions and provider calls into a plan.program";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<plan::PlanDialect>();
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main) {
      getOperation().emitError("there is no func.func @main to plan");
      return signalPassFailure();
    }
    if (failed(Lowering(main, operandAlignment_).run()))
      signalPassFailure();
  }

private:
  int64_t operandAlignment_;
};

} // namespace

std::unique_ptr<Pass> createWeftToPlanPass(int64_t operandAlignment) {
  return std::make_unique<WeftToPlan>(operandAlignment);
}

} // namespace weft::compiler

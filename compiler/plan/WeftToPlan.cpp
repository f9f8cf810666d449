// weft-to-plan: a slice becomes a program; each value gets a buffer of its own.
#include <unordered_map>

#include "compiler/plan/Extract.h"
#include "compiler/plan/KernelStructure.h"
#include "compiler/plan/Passes.h"
#include "compiler/plan/Problem.h"
#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/core/alignment.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::compiler {
namespace {

using mlir::failure;
using mlir::LogicalResult;
using mlir::success;

class Lowering {
public:
  explicit Lowering(mlir::func::FuncOp main) : main_(main), builder_(main.getContext()) {}

  LogicalResult run() {
    if (!llvm::hasSingleElement(main_.getBody()))
      return main_.emitOpError("must have one block to become a program");
    if (mlir::failed(makeProgram()))
      return failure();
    for (mlir::Operation &op : llvm::make_early_inc_range(main_.getBody().front())) {
      if (auto fusion = mlir::dyn_cast<ir::FusionOp>(op)) {
        bool gone = false;
        if (mlir::failed(takeOutParts(fusion, gone)))
          return failure();
        if (gone)
          continue;
        if (mlir::failed(takeOutOffsets(fusion)))
          return failure();
      }
      LogicalResult lowered =
          llvm::TypeSwitch<mlir::Operation *, LogicalResult>(&op)
              .Case<ir::FusionOp, ir::ProviderCallOp, ir::ReshapeOp, ir::ConstantOp,
                    mlir::func::ReturnOp>([&](auto concrete) { return lower(concrete); })
              .Default([](mlir::Operation *other) {
                return other->emitOpError(
                    "cannot be planned: only weft.fusion, weft.provider_call, weft.reshape and "
                    "weft.constant may stand here; run the fuse phase first");
              });
      if (mlir::failed(lowered))
        return failure();
    }
    main_.erase();
    return success();
  }

private:
  mlir::FailureOr<plan::BufferType> bufferType(mlir::Location loc, mlir::Type type) {
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return mlir::emitError(loc) << "cannot plan a value of type " << type
                                  << ": its shape is not static";
    std::optional<int64_t> bytes = plan::byteSize(tensor);
    if (!bytes)
      return mlir::emitError(loc) << "a value of type " << type << " has more than 2^63 bytes";
    return plan::BufferType::get(builder_.getContext(), *bytes);
  }

  // The attributes of an argument or a result of the slice, as the program has them.
  mlir::DictionaryAttr attributes(mlir::Type type, mlir::DictionaryAttr from) {
    llvm::SmallVector<mlir::NamedAttribute> list{
        builder_.getNamedAttr(plan::kTypeAttr, mlir::TypeAttr::get(type))};
    for (auto [source, target] :
         {std::pair<llvm::StringRef, llvm::StringRef>{ir::kNameAttr, plan::kNameAttr},
          {ir::kDonatableAttr, plan::kDonatableAttr},
          {ir::kKeptAttr, plan::kKeptAttr},
          {ir::kStableAttr, plan::kStableAttr},
          {ir::kParameterAttr, plan::kParameterAttr},
          {ir::kPreparedAttr, plan::kPreparedAttr},
          {ir::kSourceAttr, plan::kSourceAttr}})
      if (mlir::Attribute value = from ? from.get(source) : mlir::Attribute())
        list.push_back(builder_.getNamedAttr(target, value));
    return builder_.getDictionaryAttr(list);
  }

  LogicalResult makeProgram() {
    mlir::FunctionType type = main_.getFunctionType();
    llvm::SmallVector<mlir::Type> inputs, outputs;
    llvm::SmallVector<mlir::Attribute> inputAttributes, outputAttributes;
    for (auto [i, input] : llvm::enumerate(type.getInputs())) {
      auto buffer = bufferType(main_.getLoc(), input);
      if (mlir::failed(buffer))
        return failure();
      inputs.push_back(*buffer);
      inputAttributes.push_back(attributes(input, main_.getArgAttrDict(i)));
    }
    for (auto [i, output] : llvm::enumerate(type.getResults())) {
      auto buffer = bufferType(main_.getLoc(), output);
      if (mlir::failed(buffer))
        return failure();
      outputs.push_back(*buffer);
      outputAttributes.push_back(attributes(output, main_.getResultAttrDict(i)));
    }
    builder_.setInsertionPoint(main_);
    program_ = plan::ProgramOp::create(
        builder_, main_.getLoc(), main_.getName(), builder_.getFunctionType(inputs, outputs),
        builder_.getArrayAttr(inputAttributes), builder_.getArrayAttr(outputAttributes));
    mlir::Block *block = builder_.createBlock(&program_.getBody());
    for (auto [argument, buffer] : llvm::zip(main_.getArguments(), inputs))
      buffers_[argument] = block->addArgument(buffer, argument.getLoc());
    return success();
  }

  mlir::FailureOr<mlir::Value> allocate(mlir::Value value) {
    auto type = bufferType(value.getLoc(), value.getType());
    if (mlir::failed(type))
      return failure();
    mlir::Value buffer = plan::AllocOp::create(builder_, value.getLoc(), *type);
    return buffers_[value] = buffer;
  }

  LogicalResult operandsAndResults(mlir::Operation *op, llvm::SmallVectorImpl<mlir::Value> &inputs,
                                   llvm::SmallVectorImpl<mlir::Value> &outputs) {
    for (mlir::Value operand : op->getOperands())
      inputs.push_back(buffers_.lookup(operand));
    for (mlir::Value result : op->getResults()) {
      auto buffer = allocate(result);
      if (mlir::failed(buffer))
        return failure();
      outputs.push_back(*buffer);
    }
    return success();
  }

  // What only writes empty tensors writes nothing.
  static bool writesNothing(mlir::ValueRange outputs) {
    return llvm::all_of(outputs, [](mlir::Value buffer) {
      return mlir::cast<plan::BufferType>(buffer.getType()).getBytes() == 0;
    });
  }

  // How far into its input a slice begins whose bytes are in a row, as those of the steps of an
  // unrolled network [T, ...] are. Nothing for other slices, and where kernels would find their
  // operand aligned less than they count on.
  static std::optional<int64_t> offsetOf(ir::SliceOp slice) {
    auto from = mlir::dyn_cast<mlir::RankedTensorType>(slice.getInput().getType());
    auto to = mlir::dyn_cast<mlir::RankedTensorType>(slice.getType());
    if (!from.hasStaticShape() || !to.hasStaticShape() || to.getNumElements() == 0)
      return std::nullopt;
    int64_t axis = 0, rank = from.getRank();
    while (axis < rank && from.getDimSize(axis) == 1)
      ++axis;
    if (axis == rank || llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
      return std::nullopt;
    for (int64_t dim = axis + 1; dim < rank; ++dim)
      if (from.getDimSize(dim) != to.getDimSize(dim))
        return std::nullopt;
    std::optional<int64_t> bytes = plan::byteSize(from);
    if (!bytes)
      return std::nullopt;
    int64_t offset = *bytes / from.getDimSize(axis) * slice.getStarts()[axis];
    return offset % runtime::kBufferAlignment == 0 ? std::optional(offset) : std::nullopt;
  }

  // A part of an operand as a value of the slice, whose buffer is a view: it takes no time.
  mlir::FailureOr<mlir::Value> takeOut(ir::SliceOp slice, ir::FusionOp fusion, unsigned operand) {
    mlir::Value whole = fusion->getOperand(operand);
    auto type = bufferType(slice.getLoc(), slice.getType());
    if (mlir::failed(type))
      return failure();
    auto view = plan::ViewOp::create(builder_, slice.getLoc(), *type, buffers_.lookup(whole),
                                     *offsetOf(slice));
    view->setAttr(plan::kPartAttr, builder_.getUnitAttr());
    mlir::OpBuilder before(fusion);
    mlir::Value part = ir::SliceOp::create(before, slice.getLoc(), whole, slice.getStarts(),
                                           slice.getLimits(), slice.getSteps());
    buffers_[part] = view;
    return part;
  }

  // Takes slices of operands out of a fusion, so that kernels which differ in where they slice only
  // are one, and copies are none. An operand of which the fusion reads one part is replaced by it;
  // of a fusion that gives nothing but parts nothing is left.
  LogicalResult takeOutParts(ir::FusionOp fusion, bool &gone) {
    mlir::Block &body = fusion.getBody().front();
    mlir::Operation *yield = body.getTerminator();
    auto partOf = [](mlir::Operation *op) {
      auto slice = mlir::dyn_cast<ir::SliceOp>(op);
      return slice && mlir::isa<mlir::BlockArgument>(slice.getInput()) && offsetOf(slice)
                 ? slice
                 : ir::SliceOp();
    };
    auto operandOf = [](ir::SliceOp slice) {
      return mlir::cast<mlir::BlockArgument>(slice.getInput()).getArgNumber();
    };
    if (llvm::all_of(body.without_terminator(),
                     [&](mlir::Operation &op) { return bool(partOf(&op)); }) &&
        llvm::none_of(yield->getOperands(),
                      [](mlir::Value value) { return mlir::isa<mlir::BlockArgument>(value); })) {
      for (auto [result, value] : llvm::zip(fusion->getResults(), yield->getOperands())) {
        auto slice = value.getDefiningOp<ir::SliceOp>();
        mlir::FailureOr<mlir::Value> part = takeOut(slice, fusion, operandOf(slice));
        if (mlir::failed(part))
          return failure();
        result.replaceAllUsesWith(*part);
      }
      fusion.erase();
      gone = true;
      return success();
    }
    for (mlir::BlockArgument argument : body.getArguments()) {
      ir::SliceOp first;
      bool same = llvm::all_of(argument.getUsers(), [&](mlir::Operation *user) {
        ir::SliceOp slice = partOf(user);
        if (!first)
          first = slice;
        return slice && slice.getType() == first.getType() &&
               slice.getStarts() == first.getStarts();
      });
      if (!first || !same)
        continue;
      mlir::FailureOr<mlir::Value> part = takeOut(first, fusion, argument.getArgNumber());
      if (mlir::failed(part))
        return failure();
      fusion->setOperand(argument.getArgNumber(), *part);
      llvm::SmallVector<mlir::Operation *> slices(argument.getUsers());
      argument.setType((*part).getType());
      for (mlir::Operation *slice : slices) {
        slice->getResult(0).replaceAllUsesWith(argument);
        slice->erase();
      }
    }
    return success();
  }

  // Makes the place in its stream from which a fusion draws random numbers an operand, {0, offset}
  // that it adds to the state, so that the steps of a sampler and the layers of a network with
  // dropout are launches of one kernel. Several draws of one state keep their distances.
  LogicalResult takeOutOffsets(ir::FusionOp fusion) {
    mlir::Block &body = fusion.getBody().front();
    llvm::MapVector<mlir::BlockArgument, llvm::SmallVector<ir::RandomUniformOp, 4>> draws;
    for (mlir::Operation &op : body)
      if (auto draw = mlir::dyn_cast<ir::RandomUniformOp>(op))
        if (auto state = mlir::dyn_cast<mlir::BlockArgument>(draw.getState()))
          draws[state].push_back(draw);
    for (auto &[state, of] : draws) {
      uint64_t first = of.front().getOffset();
      mlir::OpBuilder before(fusion), inside(&body, body.begin());
      auto type = mlir::cast<mlir::RankedTensorType>(state.getType());
      auto offset = ir::ConstantOp::create(
          before, fusion.getLoc(),
          mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int64_t>{0, int64_t(first)}));
      if (mlir::failed(lower(offset)))
        return failure();
      fusion.getInputsMutable().append(offset.getResult());
      mlir::Value there = ir::AddOp::create(inside, fusion.getLoc(), state,
                                            body.addArgument(type, fusion.getLoc()));
      for (ir::RandomUniformOp draw : of) {
        draw.getStateMutable().assign(there);
        draw.setOffset(draw.getOffset() - first); // wraps, both being unsigned
      }
    }
    return success();
  }

  LogicalResult lower(ir::FusionOp fusion) {
    llvm::SmallVector<mlir::Value> inputs, outputs;
    if (mlir::failed(operandsAndResults(fusion, inputs, outputs)))
      return failure();
    if (writesNothing(outputs))
      return success();
    plan::LaunchOp::create(builder_, fusion.getLoc(), kernelOf(fusion).getSymNameAttr(), inputs,
                           outputs, mlir::Value(), false);
    return success();
  }

  plan::KernelOp kernelOf(ir::FusionOp fusion) {
    plan::KernelOp &kernel = kernels_[structureOf(fusion)];
    if (kernel)
      return kernel;
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPoint(program_);
    kernel = createKernel(builder_, fusion, kernels_.size() - 1);
    return kernel;
  }

  LogicalResult lower(ir::ProviderCallOp call) {
    llvm::SmallVector<mlir::Value> inputs, outputs;
    if (mlir::failed(operandsAndResults(call, inputs, outputs)))
      return failure();
    if (writesNothing(outputs))
      return success();
    llvm::SmallVector<mlir::Type> types(call->getOperandTypes());
    llvm::append_range(types, call->getResultTypes());
    plan::LibraryCallOp::create(builder_, call.getLoc(), call.getCallee(), inputs, outputs,
                                /*scratch=*/mlir::Value(), builder_.getTypeArrayAttr(types),
                                call.getConfig());
    return success();
  }

  // The same bytes under another shape.
  LogicalResult lower(ir::ReshapeOp reshape) {
    buffers_[reshape.getResult()] = buffers_.lookup(reshape.getInput());
    return success();
  }

  LogicalResult lower(ir::ConstantOp constant) {
    auto type = bufferType(constant.getLoc(), constant.getType());
    if (mlir::failed(type))
      return failure();
    buffers_[constant.getResult()] =
        plan::ConstantOp::create(builder_, constant.getLoc(), *type, constant.getValue());
    return success();
  }

  LogicalResult lower(mlir::func::ReturnOp op) {
    llvm::SmallVector<mlir::Value> results;
    for (mlir::Value value : op.getOperands()) {
      mlir::Value buffer = buffers_.lookup(value);
      // Values that are one buffer, through reshapes or because they are returned twice, get one
      // output.
      mlir::Value &returned = returned_.try_emplace(buffer, buffer).first->second;
      if (returned == buffer && !mlir::isa<mlir::BlockArgument>(buffer))
        returned = makeOutput(buffer);
      results.push_back(returned);
    }
    plan::ReturnOp::create(builder_, op.getLoc(), results);
    for (plan::AllocOp alloc : replaced_)
      alloc.erase();
    return success();
  }

  mlir::Value makeOutput(mlir::Value buffer) {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    auto alloc = buffer.getDefiningOp<plan::AllocOp>();
    if (alloc)
      builder_.setInsertionPoint(alloc);
    mlir::Value output = plan::OutputOp::create(builder_, buffer.getLoc(), buffer.getType());
    if (alloc) {
      buffer.replaceAllUsesWith(output);
      replaced_.push_back(alloc);
    } else {
      plan::CopyOp::create(builder_, buffer.getLoc(), buffer, output);
    }
    return output;
  }

  mlir::func::FuncOp main_;
  mlir::OpBuilder builder_;
  plan::ProgramOp program_;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers_;  // of each value of the slice
  llvm::DenseMap<mlir::Value, mlir::Value> returned_; // what stands for a returned buffer
  llvm::SmallVector<plan::AllocOp> replaced_;
  std::unordered_map<std::string, plan::KernelOp> kernels_;
};

struct WeftToPlan : mlir::PassWrapper<WeftToPlan, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WeftToPlan)
  llvm::StringRef getArgument() const override {
    return "weft-to-plan";
  }
  llvm::StringRef getDescription() const override {
    return "Turns a slice of fusions and provider calls into a plan.program";
  }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<plan::PlanDialect>();
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<mlir::func::FuncOp>("main");
    if (!main) {
      getOperation().emitError("there is no func.func @main to plan");
      return signalPassFailure();
    }
    if (mlir::failed(Lowering(main).run()))
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<mlir::Pass> createWeftToPlanPass() {
  return std::make_unique<WeftToPlan>();
}

} // namespace weft::compiler

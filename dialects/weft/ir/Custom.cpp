// The rules of weft.custom. What a kernel is stands in its registration: runtime/custom.
#include "dialects/weft/ir/Custom.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/rules/RuleChecks.h"
#include "runtime/custom/custom_kernels.h"

#define GET_OP_CLASSES
#include "dialects/weft/ir/CustomOps.cpp.inc"

namespace weft::ir {

using namespace mlir;

static_assert(WEFT_CUSTOM_MAX_INPUTS == 32 && WEFT_CUSTOM_MAX_OUTPUTS == 8,
              "the record saves as many");

static StringRef text(const absl::Status &status) {
  return {status.message().data(), status.message().size()};
}
template <typename T> static std::span<const T> span(ArrayRef<T> values) {
  return {values.data(), values.size()};
}

LogicalResult CustomOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                         Adaptor op, SmallVectorImpl<Type> &types) {
  RuleChecks check(loc, getOperationName());
  if (!op.getKernelAttr())
    return check.error("needs the attribute kernel, a name");
  absl::StatusOr<const runtime::CustomKernel *> kernel =
      runtime::find_custom_kernel(op.getKernel().str());
  if (!kernel.ok())
    return check.error(text(kernel.status()));
  std::vector<runtime::CustomTensor> inputs;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    RankedTensorType type = check.tensor(input, "input " + std::to_string(i));
    if (!type)
      return failure();
    if (!type.hasStaticShape() || hasNamedDims(type))
      return check.error("input " + Twine(i) + " is " + spell(type) +
                         "; kernels of users take static shapes");
    inputs.push_back({dtypeOf(type.getElementType()), type.getShape().vec(), nullptr});
  }
  auto outputs = (*kernel)->infer(inputs, {span(op.getInts()), span(op.getScalars())});
  if (!outputs.ok())
    return check.error(text(outputs.status()));
  for (const runtime::CustomTensor &output : *outputs)
    types.push_back(RankedTensorType::get(output.dims, elementType(output.dtype, context)));
  return success();
}

LogicalResult CustomOp::evaluate(EvalContext &ctx) {
  absl::StatusOr<const runtime::CustomKernel *> kernel =
      runtime::find_custom_kernel(getKernel().str());
  if (!kernel.ok())
    return ctx.error(text(kernel.status()));
  auto tensor = [](const HostTensor &host) {
    return runtime::CustomTensor{host.dtype, host.shape,
                                 const_cast<std::byte *>(host.bytes.data())};
  };
  std::vector<runtime::CustomTensor> inputs, outputs;
  for (int64_t i = 0; i < ctx.numOperands(); ++i)
    inputs.push_back(tensor(ctx.operand(i)));
  for (unsigned i = 0; i < getNumResults(); ++i)
    outputs.push_back(tensor(ctx.result(i)));
  if (absl::Status status =
          (*kernel)->run(inputs, outputs, {span(getInts()), span(getScalars())}, 1);
      !status.ok())
    return ctx.error(text(status));
  return success();
}

LogicalResult CustomOp::differentiate(GradContext &ctx) {
  const Properties &properties = ctx.properties<CustomOp>();
  absl::StatusOr<const runtime::CustomKernel *> kernel =
      runtime::find_custom_kernel(properties.kernel.str());
  if (!kernel.ok())
    return mlir::emitError(ctx.loc()) << "weft.custom: " << text(kernel.status());
  if ((*kernel)->derivative().empty())
    return ctx.noRule(getOperationName(),
                      "the kernel '" + (*kernel)->name() + "' names no derivative");
  SmallVector<Value> inputs;
  SmallVector<int64_t> wanted;
  for (int64_t i = 0; i < ctx.numOperands(); ++i) {
    inputs.push_back(ctx.operand(i));
    if (isa<FloatType>(ctx.operandType(i).getElementType()))
      wanted.push_back(i);
  }
  int64_t results = (*kernel)->outputs();
  for (int64_t i = 0; i < results; ++i)
    inputs.push_back(ctx.result(i));
  for (int64_t i = 0; i < results; ++i)
    if (isa<FloatType>(ctx.resultType(i).getElementType()))
      inputs.push_back(ctx.g(i));
  OperationState state(ctx.loc(), getOperationName());
  state.addOperands(inputs);
  Properties &own = state.getOrAddProperties<Properties>();
  own = properties;
  own.kernel = ctx.builder().getStringAttr((*kernel)->derivative());
  Properties copy = own;
  if (failed(inferReturnTypes(ctx.builder().getContext(), ctx.loc(), inputs,
                              ctx.builder().getDictionaryAttr({}), OpaqueProperties(&copy), {},
                              state.types)))
    return failure();
  auto complain = [&](const Twine &what) {
    return mlir::emitError(ctx.loc()) << "weft.custom: the derivative '" << (*kernel)->derivative()
                                      << "' of '" << (*kernel)->name() << "' " << what;
  };
  if (state.types.size() != wanted.size())
    return complain("gives " + Twine(state.types.size()) + " gradients for " +
                    Twine(wanted.size()) + " inputs of a floating dtype");
  for (auto [i, type] : llvm::zip(wanted, state.types))
    if (type != ctx.operandType(i))
      return complain("gives " + spell(type) + " as the gradient of input " + Twine(i) + ", " +
                      spell(ctx.operandType(i)));
  Operation *op = ctx.builder().create(state);
  for (auto [i, gradient] : llvm::zip(wanted, op->getResults()))
    ctx.grad(i, ctx.at(gradient));
  return success();
}

} // namespace weft::ir

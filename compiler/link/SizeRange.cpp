#include "compiler/link/SizeRange.h"

#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

namespace weft::compiler {

using namespace mlir;

absl::StatusOr<std::optional<SizeRange>> sizeRange(ModuleOp module) {
  auto sizes = module->getAttrOfType<DictionaryAttr>(kSizesAttr);
  if (!sizes || sizes.empty())
    return std::optional<SizeRange>();
  NamedAttribute entry = *sizes.begin();
  auto range = ir::rangeOf(entry.getValue());
  if (sizes.size() > 1)
    return absl::InvalidArgumentError("weft.sizes names several sizes; a model has one");
  if (!range || range->first < 1 || range->first > range->second || range->second < 2)
    return absl::InvalidArgumentError("weft.sizes: '" + entry.getName().str() +
                                      "' has no range; write [MIN, MAX] with 1 <= MIN <= MAX, and "
                                      "MAX at least 2");
  return std::optional<SizeRange>({entry.getName().str(), range->first, range->second});
}

namespace {

// The type at the size: with its names, or without.
Type resized(Type type, int64_t size, bool named) {
  if (!ir::hasNamedDims(type))
    return type;
  auto tensor = cast<RankedTensorType>(type);
  ir::Dims dims = ir::dimsOf(tensor);
  for (ir::Dim &dim : dims) {
    if (dim.isStatic())
      continue;
    ir::SizeProduct product = ir::productOf(dim.symbol.getValue());
    int64_t value = product.coefficient;
    for (size_t i = 0; i < product.symbols.size(); ++i)
      value *= size;
    dim = named ? ir::namedDim(dim.symbol, value) : ir::Dim(value);
  }
  return ir::tensorOf(dims, tensor.getElementType());
}

// Of one batch nothing was added up: the sum goes along its other dims, if there are any.
void leaveOutOne(ir::ReduceSumOp sum) {
  SmallVector<int64_t> left;
  for (int64_t dim : sum.getDims()) {
    ir::Dim each = ir::dimsOf(sum.getInput())[dim];
    if (each.isStatic() || ir::productOf(each.symbol.getValue()).coefficient != 1)
      left.push_back(dim);
  }
  OpBuilder builder(sum);
  Value value = sum.getInput();
  if (!left.empty())
    value = ir::ReduceSumOp::create(builder, sum.getLoc(), value, left);
  if (value.getType() != sum.getType())
    value = ir::ReshapeOp::create(builder, sum.getLoc(), sum.getType(), value);
  sum.replaceAllUsesWith(value);
  sum.erase();
}

} // namespace

absl::Status narrow(ModuleOp module, int64_t low, int64_t high) {
  Builder builder(module.getContext());
  auto sizes = module->getAttrOfType<DictionaryAttr>(kSizesAttr);
  bool named = low < high;
  SmallVector<ir::ReduceSumOp> sums;
  if (low > 1 || !named)
    module.walk([&](ir::ReduceSumOp sum) {
      if (sum->removeAttr(kBeyondOneAttr))
        sums.push_back(sum);
    });
  if (high == 1)
    llvm::for_each(sums, leaveOutOne);
  if (named)
    module->setAttr(kSizesAttr,
                    builder.getDictionaryAttr(builder.getNamedAttr(
                        sizes.begin()->getName(), builder.getDenseI64ArrayAttr({low, high}))));
  else
    module->removeAttr(kSizesAttr);
  module.walk([&](Operation *op) {
    for (Value result : op->getResults())
      result.setType(resized(result.getType(), high, named));
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        argument.setType(resized(argument.getType(), high, named));
    auto constant = dyn_cast<ir::ConstantOp>(op);
    if (!constant || !op->hasAttr(kSizeAttr))
      return;
    constant.setValueAttr(DenseElementsAttr::get(cast<ShapedType>(constant.getType()),
                                                 builder.getI64IntegerAttr(high)));
    if (!named)
      op->removeAttr(kSizeAttr);
  });
  // The whole of a size that varies has no limit.
  if (!named)
    module.walk([](ir::SliceOp slice) {
      SmallVector<int64_t> limits(slice.getLimits());
      auto input = ir::typeOf(slice.getInput());
      for (auto [limit, size] : llvm::zip(limits, input.getShape()))
        if (ShapedType::isDynamic(limit))
          limit = size;
      slice.setLimits(limits);
    });
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      function.setFunctionType(
          builder.getFunctionType(function.getBody().front().getArgumentTypes(),
                                  function.getBody().front().getTerminator()->getOperandTypes()));
  ir::DiagnosticCollector diagnostics(module.getContext());
  if (failed(mlir::verify(module)))
    return absl::InvalidArgumentError(
        diagnostics.failure("the program does not fit a size of " + std::to_string(high)));
  return absl::OkStatus();
}

} // namespace weft::compiler

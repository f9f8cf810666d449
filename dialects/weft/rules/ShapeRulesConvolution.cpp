// Shape and dtype rules and verifiers of convolutions, pooling and batch normalization.
#include "dialects/weft/rules/RuleChecks.h"
#include "dialects/weft/rules/Window.h"

namespace weft::ir {

using namespace mlir;

using MaybeLocation = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

// Positions are sums of products of two such numbers: far from 64 bits.
static constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

// A pair of numbers, one for H and one for W.
static LogicalResult checkPair(const RuleChecks &check, DenseI64ArrayAttr pair, StringRef name,
                               int64_t least) {
  if (!pair)
    return check.error("needs the attribute " + name);
  if (pair.size() != 2)
    return check.error(name + " has " + Twine(pair.size()) +
                       " numbers; give two, for height and width");
  for (int64_t n : pair.asArrayRef())
    if (n < least || n > kLargest)
      return check.error(name + " is " + Twine(n) + "; it must lie in [" + Twine(least) + ", " +
                         Twine(kLargest) + "]");
  return success();
}

static LogicalResult checkImage(const RuleChecks &check, RankedTensorType type, StringRef name) {
  if (type.getRank() == 4)
    return success();
  return check.error(name + " is " + spell(type) +
                     "; it must have 4 dimensions, [batch, channels, height, width]");
}

// The sizes of dims 2 and 3, which must be known and fit into windows' arithmetic.
static LogicalResult checkStatic(const RuleChecks &check, RankedTensorType type, StringRef name,
                                 int64_t from) {
  for (int64_t i = from; i < 4; ++i) {
    if (type.isDynamicDim(i))
      return check.error("dimension " + Twine(i) + " of " + name + ", " + spell(type) +
                         ", is symbolic; only the batch may be");
    if (type.getDimSize(i) > kLargest)
      return check.error(name + ", " + spell(type) + ", is larger than windows can lie over");
  }
  return success();
}

// The adaptor with the attributes that an op's text gives: while its types are inferred they stand
// in the dictionary only.
template <typename Op> static typename Op::Adaptor withParsedAttributes(typename Op::Adaptor op) {
  typename Op::Properties properties = op.getProperties();
  if (DictionaryAttr given = op.getAttributes()) {
    for (NamedAttribute attribute : given)
      Op::setInherentAttr(properties, attribute.getName(), attribute.getValue());
    OperationName name(Op::getOperationName(), given.getContext());
    if constexpr (requires { Op::populateDefaultProperties(name, properties); })
      Op::populateDefaultProperties(name, properties);
  }
  return typename Op::Adaptor(op.getOperands(), op.getAttributes(), properties);
}

template <typename Op> static LogicalResult checkConvolution(const RuleChecks &check, Op op) {
  if (failed(checkPair(check, op.getStridesAttr(), "stride", 1)) ||
      failed(checkPair(check, op.getPaddingAttr(), "padding", 0)) ||
      failed(checkPair(check, op.getDilationAttr(), "dilation", 1)))
    return failure();
  if (!op.getGroupsAttr())
    return check.error("needs the attribute groups");
  return success();
}

// The dims of conv2d's result for an input and a weight.
template <typename Op>
static FailureOr<Dims> convolved(const RuleChecks &check, Op op, RankedTensorType input,
                                 StringRef inputName, RankedTensorType weight,
                                 StringRef weightName) {
  if (failed(checkConvolution(check, op)) || failed(checkImage(check, input, inputName)) ||
      failed(check.sameElement(input, inputName, weight, weightName)))
    return failure();
  std::string both =
      (inputName + " is " + spell(input) + " and " + weightName + " is " + spell(weight)).str();
  if (weight.getRank() != 4)
    return check.error(
        both + "; " + weightName +
        " must have 4 dimensions, [out channels, in channels / groups, height, width]");
  if (failed(checkStatic(check, input, inputName, 1)) ||
      failed(checkStatic(check, weight, weightName, 0)))
    return failure();
  int64_t groups = op.getGroups(), channels = input.getDimSize(1), outputs = weight.getDimSize(0);
  if (groups < 1 || channels % groups || outputs % groups)
    return check.error(both + "; groups, " + Twine(groups) + ", must be positive and divide both " +
                       Twine(channels) + " input channels and " + Twine(outputs) +
                       " output channels");
  if (weight.getDimSize(1) != channels / groups)
    return check.error(both + "; with groups " + Twine(groups) + ", dimension 1 of " + weightName +
                       " must be " + Twine(channels / groups) + ", the channels of " + inputName +
                       " divided by groups");
  Windows2d windows = convolutionWindows(op, weight.getShape());
  Dims dims = dimsOf(input);
  dims[1] = outputs;
  for (auto [i, window] : {std::pair(2, windows.y), std::pair(3, windows.x)}) {
    int64_t size = input.getDimSize(i);
    if (window.kernel < 1 || window.outputs(size) < 1)
      return check.error(both + "; the kernel of size " + Twine(window.kernel) + ", which covers " +
                         Twine(window.extent()) + " with dilation " + Twine(window.dilation) +
                         ", does not fit into dimension " + Twine(i) + " of size " + Twine(size) +
                         " with padding " + Twine(window.padding));
    dims[i] = window.outputs(size);
  }
  return dims;
}

LogicalResult Conv2dOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor given,
                                         Types &types) {
  Adaptor op = withParsedAttributes<Conv2dOp>(given);
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input"),
                   weight = check.tensor(op.getWeight(), "weight");
  if (!input || !weight)
    return failure();
  FailureOr<Dims> dims = convolved(check, op, input, "input", weight, "weight");
  if (failed(dims))
    return failure();
  types.push_back(tensorOf(*dims, input.getElementType()));
  return success();
}

template <typename Op>
static LogicalResult verifyGradient(Op op, RankedTensorType input, StringRef inputName,
                                    RankedTensorType weight, StringRef weightName) {
  RuleChecks check(op);
  RankedTensorType gradient = op.getGradient().getType();
  if (failed(check.sameElement(gradient, "gradient", input, inputName)))
    return failure();
  FailureOr<Dims> dims = convolved(check, op, input, inputName, weight, weightName);
  if (failed(dims))
    return failure();
  if (dimsOf(gradient) == *dims)
    return success();
  return check.error(inputName + " is " + spell(input) + " and " + weightName + " is " +
                     spell(weight) + ", so gradient must have the shape " + spell(*dims) +
                     " of their convolution, but is " + spell(gradient));
}

LogicalResult Conv2dInputGradientOp::verify() {
  return verifyGradient(*this, getType(), "the result", getWeight().getType(), "weight");
}
LogicalResult Conv2dWeightGradientOp::verify() {
  return verifyGradient(*this, getInput().getType(), "input", getType(), "the result");
}

//===-- Windows and pooling -------------------------------------------------------------------===//

LogicalResult WindowsOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor given,
                                          Types &types) {
  Adaptor op = withParsedAttributes<WindowsOp>(given);
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input || failed(checkPair(check, op.getKernelAttr(), "kernel", 1)) ||
      failed(checkPair(check, op.getStridesAttr(), "stride", 1)) ||
      failed(checkPair(check, op.getDilationAttr(), "dilation", 1)))
    return failure();
  if (input.getRank() < 2)
    return check.error("input is " + spell(input) + "; it needs at least 2 dimensions");
  Dims dims = dimsOf(input), result(dims.begin(), dims.end() - 2);
  result.append(op.getKernel().begin(), op.getKernel().end());
  for (int i = 0; i < 2; ++i) {
    const Dim &dim = dims[dims.size() - 2 + i];
    Window window{op.getKernel()[i], op.getStrides()[i], 0, op.getDilation()[i]};
    if (!dim.isStatic() || window.outputs(dim.size) < 1)
      return check.error("input is " + spell(input) + ", into which a window of " +
                         Twine(window.extent()) + " does not fit");
    result.push_back(window.outputs(dim.size));
  }
  types.push_back(tensorOf(result, input.getElementType()));
  return success();
}

template <typename Op>
static FailureOr<Dims> pooled(const RuleChecks &check, Op op, RankedTensorType input,
                              StringRef name) {
  if (failed(checkPair(check, op.getKernelAttr(), "kernel_size", 1)) ||
      failed(checkPair(check, op.getStridesAttr(), "stride", 1)) ||
      failed(checkPair(check, op.getPaddingAttr(), "padding", 0)))
    return failure();
  if constexpr (requires { op.getDilationAttr(); })
    if (failed(checkPair(check, op.getDilationAttr(), "dilation", 1)))
      return failure();
  if (failed(checkImage(check, input, name)) || failed(checkStatic(check, input, name, 2)))
    return failure();
  Windows2d windows = poolWindows(op);
  Dims dims = dimsOf(input);
  bool ceil = op.getCeilMode();
  for (auto [i, window] : {std::pair(2, windows.y), std::pair(3, windows.x)}) {
    if (2 * window.padding > window.extent())
      return check.error("padding " + Twine(window.padding) +
                         " is more than half of the window's size, " + Twine(window.extent()));
    int64_t size = input.getDimSize(i);
    if (window.outputs(size, ceil) < 1)
      return check.error(name + " is " + spell(input) + ", into whose dimension " + Twine(i) +
                         " a window of " + Twine(window.extent()) + " does not fit with padding " +
                         Twine(window.padding));
    dims[i] = window.outputs(size, ceil);
  }
  return dims;
}

LogicalResult MaxPool2dOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor given,
                                            Types &types) {
  Adaptor op = withParsedAttributes<MaxPool2dOp>(given);
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  FailureOr<Dims> dims = pooled(check, op, input, "input");
  if (failed(dims))
    return failure();
  if (input.getDimSize(2) * input.getDimSize(3) > kLargest)
    return check.error("input is " + spell(input) +
                       "; its images have more elements than int32 indices can tell");
  types.push_back(tensorOf(*dims, input.getElementType()));
  types.push_back(tensorOf(*dims, IntegerType::get(context, 32)));
  return success();
}

LogicalResult AvgPool2dOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor given,
                                            Types &types) {
  Adaptor op = withParsedAttributes<AvgPool2dOp>(given);
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  FailureOr<Dims> dims = pooled(check, op, input, "input");
  if (failed(dims))
    return failure();
  types.push_back(tensorOf(*dims, input.getElementType()));
  return success();
}

template <typename Op> static LogicalResult verifyPoolGradient(Op op) {
  RuleChecks check(op);
  RankedTensorType gradient = op.getGradient().getType(), result = op.getType();
  if (failed(check.sameElement(gradient, "gradient", result, "the result")))
    return failure();
  FailureOr<Dims> dims = pooled(check, op, result, "the result");
  if (failed(dims))
    return failure();
  if (dimsOf(gradient) != *dims)
    return check.error("the result is " + spell(result) + ", so gradient must have the shape " +
                       spell(*dims) + ", but is " + spell(gradient));
  return success();
}

LogicalResult AvgPool2dGradientOp::verify() {
  return verifyPoolGradient(*this);
}
LogicalResult MaxPool2dGradientOp::verify() {
  if (failed(verifyPoolGradient(*this)))
    return failure();
  if (dimsOf(getIndices().getType()) == dimsOf(getGradient().getType()))
    return success();
  return RuleChecks(*this).error("gradient is " + spell(getGradient().getType()) +
                                 " but indices is " + spell(getIndices().getType()) +
                                 "; both must have the shape of max_pool2d's result");
}

//===-- Normalization -------------------------------------------------------------------------===//

// The type of [batch, channels, ...], to which vectors belong with one number a channel; null
// vectors are left out.
static RankedTensorType images(RuleChecks &check, Value value,
                               ArrayRef<std::pair<Value, const char *>> vectors) {
  RankedTensorType input = check.tensor(value, "input");
  if (!input)
    return {};
  if (input.getRank() < 2) {
    (void)check.error("input is " + spell(input) +
                      "; it needs at least 2 dimensions, [batch, channels, ...]");
    return {};
  }
  Dims channels{dimsOf(input)[1]};
  for (auto [vector, name] : vectors) {
    if (!vector)
      continue;
    RankedTensorType type = check.tensor(vector, name);
    if (!type || failed(check.sameElement(input, "input", type, name)))
      return {};
    if (dimsOf(type) != channels) {
      (void)check.error("input is " + spell(input) + ", so " + name + " must have the shape " +
                        spell(channels) + " of its channels, but is " + spell(type));
      return {};
    }
  }
  return input;
}

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input =
      images(check, op.getInput(), {{op.getWeight(), "weight"}, {op.getBias(), "bias"}});
  if (!input)
    return failure();
  types.push_back(input);
  types.append(2, tensorOf({dimsOf(input)[1]}, input.getElementType()));
  return success();
}

LogicalResult BatchNormInferenceOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                                     Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = images(check, op.getInput(),
                                  {{op.getMean(), "mean"},
                                   {op.getVariance(), "variance"},
                                   {op.getWeight(), "weight"},
                                   {op.getBias(), "bias"}});
  if (!input)
    return failure();
  types.push_back(input);
  return success();
}

} // namespace weft::ir

// Convolutions, pooling and batch normalization of images: [N, C, H, W], as PyTorch has them.
// Composites: a library runs them whole, or their decompositions turn them into windows, matrix
// products and elementwise ops.
#ifndef WEFT_CONVOLUTION_OPS
#define WEFT_CONVOLUTION_OPS

include "dialects/weft/ir/WeftBase.td"

//===-- Windows -------------------------------------------------------------------------------===//

def Weft_WindowsOp : Weft_Op<"windows", MovementKind, NotDifferentiable<"decompositions make it, after derivatives are expanded">, InFile,
                             NotApplicable<"a primitive">, InFile, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let summary = "the windows that slide over the last two dims: result[.., i, j, y, x] = input[.., y * stride + i * dilation, x * stride + j * dilation]";
  let description = [{input: [.., H, W]; result: [.., kernel, (H - dilation * (kernel - 1) - 1) / stride + 1], each of the last two twos.}];
  let arguments = (ins Weft_Tensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilation);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let frontend = Internal;
}

//===-- Convolution ---------------------------------------------------------------------------===//
// The three are each other's derivatives: each is linear in two of input, weight and gradient and
// gives the third.

class Weft_Conv2dLikeOp<string mnemonic, list<Trait> traits>
    : Weft_Op<mnemonic, CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, !listconcat([Pure], traits)> {
  let cost = TwoOperations;
  let tests = BoundTests;
  let savesOperands = [0, 1];
}
def Weft_Conv2dOp : Weft_Conv2dLikeOp<"conv2d", [Infer]> {
  let summary = "the cross-correlation of images with a weight, as PyTorch's conv2d without its bias";
  let description = [{
    input: [N, C, H, W]; weight: [O, C / groups, KH, KW]; result: [N, O, (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, the same of W].
    strides, padding (of zeros) and dilation: one number for H, one for W. Channels fall into `groups` that see nothing of one another.
  }];
  let arguments = (ins Weft_FloatTensor:$input, Weft_FloatTensor:$weight, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$input `,` $weight attr-dict `:` type($input) `,` type($weight)";
}
def Weft_Conv2dInputGradientOp : Weft_Conv2dLikeOp<"conv2d_input_gradient", []> {
  let summary = "the derivative of conv2d by its input, which is PyTorch's conv_transpose2d";
  let description = [{gradient: of conv2d's result's shape; weight as conv2d's; the result has the shape of conv2d's input.}];
  let arguments = (ins Weft_FloatTensor:$gradient, Weft_FloatTensor:$weight, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$gradient `,` $weight attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Weft_Conv2dWeightGradientOp : Weft_Conv2dLikeOp<"conv2d_weight_gradient", []> {
  let frontend = Internal;
  let summary = "the derivative of conv2d by its weight";
  let description = [{input as conv2d's; gradient: of its result's shape; the result has the shape of its weight.}];
  let arguments = (ins Weft_FloatTensor:$input, Weft_FloatTensor:$gradient, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$input `,` $gradient attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===-- Pooling -------------------------------------------------------------------------------===//
// A result has (H + 2 padding - dilation (kernel - 1) - 1) / stride + 1 rows, rounded up with
// ceil_mode; but no window starts in the padding behind the image. padding is at most half a
// window.

def Weft_MaxPool2dOp : Weft_Op<"max_pool2d", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let summary = "the largest element of each window, and where it lies: y * W + x, int32";
  let description = [{
    As PyTorch: the first of equal elements, but the last NaN if there is one; padding is -inf and is never pointed at. The derivative goes
    to the element that indices point at.
  }];
  let arguments = (ins Weft_FloatTensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, DefaultValuedAttr<BoolAttr, "false">:$ceil_mode);
  let results = (outs Weft_FloatTensor:$result, Weft_IndexTensor:$indices);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let savesResults = [1];
}
def Weft_MaxPool2dGradientOp : Weft_Op<"max_pool2d_gradient", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure]> {
  let tests = BoundTests;
  let frontend = Internal;
  let summary = "the derivative of max_pool2d: each element of gradient added where its index points; 0 elsewhere";
  let description = [{gradient and indices: of the shape of max_pool2d's results, indices as it gave them; the result has the shape of its input.}];
  let arguments = (ins Weft_FloatTensor:$gradient, Weft_IndexTensor:$indices, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding, DenseI64ArrayAttr:$dilation, DefaultValuedAttr<BoolAttr, "false">:$ceil_mode);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$gradient `,` $indices attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let savesOperands = [1];
}
def Weft_AvgPool2dOp : Weft_Op<"avg_pool2d", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = BoundTests;
  let summary = "the mean of each window; with count_include_pad the zeros of the padding count as elements";
  let arguments = (ins Weft_FloatTensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding,
                       DefaultValuedAttr<BoolAttr, "false">:$ceil_mode, DefaultValuedAttr<BoolAttr, "true">:$count_include_pad);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
def Weft_AvgPool2dGradientOp : Weft_Op<"avg_pool2d_gradient", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure]> {
  let tests = BoundTests;
  let frontend = Internal;
  let summary = "the derivative of avg_pool2d: each element of gradient spread over its window";
  let description = [{gradient: of the shape of avg_pool2d's result; the result has the shape of its input.}];
  let arguments = (ins Weft_FloatTensor:$gradient, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding,
                       DefaultValuedAttr<BoolAttr, "false">:$ceil_mode, DefaultValuedAttr<BoolAttr, "true">:$count_include_pad);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$gradient attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===-- Normalization -------------------------------------------------------------------------===//

def Weft_BatchNormOp : Weft_Op<"batch_norm", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile,
                               [Pure, AttrSizedOperandSegments, Infer]> {
  let tests = BoundTests;
  let summary = "(x - mean) / sqrt(variance + eps) * weight + bias, each channel (dim 1) over all other dims (Ioffe and Szegedy 2015)";
  let description = [{
    input: [N, C, ...]; weight, bias, mean and variance: [C]. The variance is the biased one. This is the form of training, which normalizes
    with the batch's own statistics and gives them for the running ones; `batch_norm_inference` is the form with fixed statistics.
  }];
  let arguments = (ins Weft_FloatTensor:$input, Optional<Weft_FloatTensor>:$weight, Optional<Weft_FloatTensor>:$bias, F64Attr:$eps);
  let results = (outs Weft_FloatTensor:$result, Weft_FloatTensor:$mean, Weft_FloatTensor:$variance);
  let savesOperands = [0, 1];
  let savesResults = [1, 2];
  let assemblyFormat = "$input (`weight` $weight^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}
def Weft_BatchNormInferenceOp : Weft_Op<"batch_norm_inference", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile,
                                        [Pure, AttrSizedOperandSegments, Infer, Weft_WrittenOut]> {
  let tests = Tests<[AnyDomain, AnyDomain, PositiveDomain, AnyDomain, AnyDomain], ReductionBound>;
  let summary = "(x - mean) * (rsqrt(variance + eps) * weight) + bias, with statistics that are given, one a channel (dim 1)";
  let description = [{
    input: [N, C, ...]; mean, variance, weight and bias: [C]. One op, so that recording a network's inference costs little and reads well; what
    compiles it sees elementwise ops, one product and one sum an element, which become part of a convolution before them where weights allow it.
  }];
  let arguments = (ins Weft_FloatTensor:$input, Weft_FloatTensor:$mean, Weft_FloatTensor:$variance, Optional<Weft_FloatTensor>:$weight,
                       Optional<Weft_FloatTensor>:$bias, F64Attr:$eps);
  let results = (outs Weft_FloatTensor:$result);
  let savesOperands = [0, 1, 2, 3];
  let assemblyFormat = "$input `mean` $mean `variance` $variance (`weight` $weight^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}

#endif

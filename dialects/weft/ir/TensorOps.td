// Creation, movement, reduction, contraction, indexing and random ops, composites and structure.
#ifndef WEFT_TENSOR_OPS
#define WEFT_TENSOR_OPS

include "dialects/weft/ir/WeftBase.td"

defvar Primitive = NotApplicable<"a primitive">;

//===-- Creation ------------------------------------------------------------------------------===//

def Weft_ConstantOp : Weft_Op<"constant", CreationKind, NotDifferentiable<"it has no operands">, InFile, Primitive, InFile, InFile,
                              [Pure, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let tests = ExactTests;
  let summary = "a constant tensor";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let frontend = Recorder;
}
def Weft_IotaOp : Weft_Op<"iota", CreationKind, NotDifferentiable<"it has no operands">, InFile, Primitive, InFile, InFile, [Pure]> {
  let tests = ExactTests;
  let summary = "the index along one dimension: 0, 1, 2, ...";
  let arguments = (ins I64Attr:$dim);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===-- Movement ------------------------------------------------------------------------------===//

def Weft_ReshapeOp : Weft_Op<"reshape", MovementKind, InFile, InFile, Primitive, InFile, InFile, [Pure]> {
  let tests = ExactTests;
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins Weft_Tensor:$input);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Weft_TransposeOp : Weft_Op<"transpose", MovementKind, InFile, InFile, Primitive, InFile, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let summary = "permutes the dimensions: result dim i is input dim permutation[i]";
  let arguments = (ins Weft_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input `,` $permutation attr-dict `:` type($input)";
  let hasFolder = 1;
}
def Weft_BroadcastOp : Weft_Op<"broadcast", MovementKind, InFile, InFile, Primitive, InFile, InFile, [Pure]> {
  let tests = ExactTests;
  let summary = "repeats the input to the result's shape; dimensions align at the end, as in numpy";
  let arguments = (ins Weft_Tensor:$input);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Weft_SliceOp : Weft_Op<"slice", MovementKind, InFile, InFile, Primitive, InFile, InFile, [Pure, Infer]> {
  let hasFolder = 1;
  let tests = ExactTests;
  let summary = "elements start, start+step, ... below limit, in each dimension; a negative step walks down from start to above limit";
  let arguments = (ins Weft_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$steps);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input `[` $starts `:` $limits `:` $steps `]` attr-dict `:` type($input)";
}
def Weft_InsertSliceOp : Weft_Op<"insert_slice", MovementKind, InFile, InFile, Primitive, InFile, InFile,
                                 [Pure, AllTypesMatch<["base", "result"]>]> {
  let tests = ExactTests;
  let summary = "base with the elements that weft.slice with these starts and steps would read replaced by update's";
  let arguments = (ins Weft_Tensor:$base, Weft_Tensor:$update, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$update `into` $base `[` $starts `:` $steps `]` attr-dict `:` type($update) `into` type($base)";
  let hasVerifier = 1;
}
def Weft_ConcatOp : Weft_Op<"concat", MovementKind, InFile, InFile, Primitive, InFile, InFile, [Pure, Infer]> {
  let hasFolder = 1;
  let tests = ExactTests;
  let summary = "the inputs one after another along a dimension";
  let arguments = (ins Variadic<Weft_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$inputs `dim` `=` $dim attr-dict `:` type($inputs)";
}

//===-- Reduction -----------------------------------------------------------------------------===//
// The reduced dimensions vanish; keepdim is a reshape. dims are sorted and distinct.

class Weft_ReduceOp<string mnemonic, Type type, Rule derivative, Rule decomposition, Rule lowering>
    : Weft_Op<mnemonic, ReductionKind, derivative, InFile, decomposition, lowering, InFile, [Pure, Infer]> {
  let arguments = (ins type:$input, DenseI64ArrayAttr:$dims);
  let results = (outs type:$result);
  let assemblyFormat = "$input `,` `dims` `=` $dims attr-dict `:` type($input)";
  let tests = BoundTests;
}
def Weft_ReduceSumOp : Weft_ReduceOp<"reduce_sum", Weft_NumericTensor, InFile, Primitive, InFile> {
  let summary = "the sum over dims; an empty sum is 0";
}
class Weft_ReduceExtremeOp<string mnemonic> : Weft_ReduceOp<mnemonic, Weft_Tensor, InFile, Primitive, InFile> {
  let tests = ExactTests;
  let savesOperands = [0];
  let savesResults = [0];
}
def Weft_ReduceMaxOp : Weft_ReduceExtremeOp<"reduce_max"> {
  let summary = "the largest element over dims, NaN if one is NaN, -inf (the least integer, false) if there is none; ties share the derivative equally";
  let description = [{Of bools it is whether any holds.}];
}
def Weft_ReduceMinOp : Weft_ReduceExtremeOp<"reduce_min"> {
  let summary = "the smallest element over dims, NaN if one is NaN, inf (the greatest integer, true) if there is none; ties share the derivative equally";
  let description = [{Of bools it is whether all hold.}];
}
def Weft_ReduceProdOp : Weft_ReduceOp<"reduce_prod", Weft_NumericTensor, InFile, Primitive, InFile> {
  let summary = "the product over dims; integers wrap, an empty product is 1";
  let description = [{
    The first two derivatives hold with zeros among the factors, too.
  }];
  let savesOperands = [0];
}
def Weft_ReduceMeanOp : Weft_ReduceOp<"reduce_mean", Weft_FloatTensor, InFile, InFile, ByDecomposition> {
  let summary = "the mean over dims; an empty mean is NaN";
}

//===-- Scan ----------------------------------------------------------------------------------===//

def Weft_CumsumOp : Weft_Op<"cumsum", ScanKind, InFile, InFile, Primitive, InFile, InFile, [Pure, SameOperandsAndResultType]> {
  let tests = BoundTests;
  let summary = "the sums of the elements up to each one along dim, added in order; with `reverse`, of those from it on, from the end";
  let arguments = (ins Weft_NumericTensor:$input, I64Attr:$dim, DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Weft_CumprodOp : Weft_Op<"cumprod", ScanKind, InFile, InFile, Primitive, InFile, InFile, [Pure, SameOperandsAndResultType]> {
  let tests = BoundTests;
  let summary = "the products of the elements up to each one along dim, multiplied in order; integers wrap";
  let description = [{
    Products of float32 are kept in float64 on their way, so that what leaves float32's range may come back. The derivative is a
    weft.recurrence, which divides by nothing: it holds with zeros among the factors, and so do all after it.
  }];
  let arguments = (ins Weft_NumericTensor:$input, I64Attr:$dim);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
  let savesOperands = [0];
  let savesResults = [0];
}
def Weft_RecurrenceOp : Weft_Op<"recurrence", ScanKind, InFile, InFile, Primitive, InFile, InFile, [Pure, SameOperandsAndResultType]> {
  let tests = BoundTests;
  let cost = TwoOperations;
  let summary = "result[k] = factor[k] * result[k - 1] + input[k] along dim, with 0 before the first element";
  let description = [{
    With `reverse` it is the transposed map of input, which its derivative is: result[k] = factor[k + 1] * result[k + 1] + input[k], from the
    end, with 0 behind the last element. Results of float32 are kept in float64 on their way.
  }];
  let arguments = (ins Weft_NumericTensor:$factor, Weft_NumericTensor:$input, I64Attr:$dim, DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "$factor `,` $input `,` `dim` `=` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
  let savesOperands = [0];
  let savesResults = [0];
}
class Weft_CumArgOp<string mnemonic> : Weft_Op<mnemonic, ScanKind, NotDifferentiable<"a position is constant almost everywhere">,
                                               InFile, Primitive, InFile, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let description = [{
    The result, int64, has input's dims. A NaN is preferred to all numbers. Values follow by weft.gather, which gives their very bits and has
    the derivative that they have.
  }];
  let arguments = (ins Weft_NumericTensor:$input, I64Attr:$dim);
  let results = (outs Weft_IndexTensor:$result);
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($input)";
}
def Weft_CumArgMaxOp : Weft_CumArgOp<"cum_arg_max"> { let summary = "the index of the last largest of the elements up to each one along dim, or of the last NaN"; }
def Weft_CumArgMinOp : Weft_CumArgOp<"cum_arg_min"> { let summary = "the index of the last smallest of the elements up to each one along dim, or of the last NaN"; }

//===-- Contraction ---------------------------------------------------------------------------===//

def Weft_MatmulOp : Weft_Op<"matmul", ContractionKind, InFile, InFile, Primitive, InFile, InFile, [Pure, Infer]> {
  let tests = BoundTests;
  let summary = "the matrix product of the last two dimensions; leading dimensions broadcast as in numpy; either side may be read transposed";
  let arguments = (ins Weft_NumericTensor:$lhs, Weft_NumericTensor:$rhs,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_lhs, DefaultValuedAttr<BoolAttr, "false">:$transpose_rhs);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
  let savesOperands = [0, 1];
}

//===-- Indexing ------------------------------------------------------------------------------===//
// An index outside [-size, size) is an error when the program runs, which names the op, the index,
// its position and the source line; negative ones count from the end.

def Weft_IndexSelectOp : Weft_Op<"index_select", GatherKind, InFile, InFile, Primitive, InFile, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let summary = "numpy's take: input[..., indices, ...] at dim; the result has the dims of indices in dim's place";
  let description = [{
    Here and in the ops below, `user` is what errors of indices name: the call that recorded the op, the op itself where it is empty; it is the
    whole message where it has a space.
  }];
  let arguments = (ins Weft_Tensor:$input, Weft_IndexTensor:$indices, I64Attr:$dim, DefaultValuedStrAttr<StrAttr, "">:$user);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `,` `dim` `=` $dim attr-dict `:` type($input) `,` type($indices)";
  let savesOperands = [1];
}
def Weft_IndexAddOp : Weft_Op<"index_add", ScatterKind, InFile, InFile, Primitive, InFile, InFile,
                              [Pure, AllTypesMatch<["base", "result"]>]> {
  let tests = BoundTests;
  let summary = "base with source's slices added at the indices; the counterpart of index_select; repeats add up, in order";
  let arguments = (ins Weft_NumericTensor:$base, Weft_IndexTensor:$indices, Weft_NumericTensor:$source, I64Attr:$dim, DefaultValuedStrAttr<StrAttr, "">:$user);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "$base `,` $indices `,` $source `,` `dim` `=` $dim attr-dict `:` type($base) `,` type($indices) `,` type($source)";
  let hasVerifier = 1;
  let savesOperands = [1];
}
def Weft_IndexPutOp : Weft_Op<"index_put", ScatterKind, InFile, InFile, Primitive, InFile, InFile,
                              [Pure, AllTypesMatch<["base", "result"]>]> {
  let tests = ExactTests;
  let summary = "base with source's slices in place of its own at the indices; of several for one index the last one stays";
  let arguments = (ins Weft_Tensor:$base, Weft_IndexTensor:$indices, Weft_Tensor:$source, I64Attr:$dim, DefaultValuedStrAttr<StrAttr, "">:$user);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$base `,` $indices `,` $source `,` `dim` `=` $dim attr-dict `:` type($base) `,` type($indices) `,` type($source)";
  let hasVerifier = 1;
  let savesOperands = [1];
}
def Weft_GatherOp : Weft_Op<"gather", GatherKind, InFile, InFile, Primitive, InFile, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let summary = "PyTorch's gather: result[i][j] = input[indices[i][j]][j] for dim 0; indices has the rank of input";
  let arguments = (ins Weft_Tensor:$input, Weft_IndexTensor:$indices, I64Attr:$dim, DefaultValuedStrAttr<StrAttr, "">:$user);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `,` `dim` `=` $dim attr-dict `:` type($input) `,` type($indices)";
  let savesOperands = [1];
}
def Weft_ScatterOp : Weft_Op<"scatter", ScatterKind, InFile, InFile, Primitive, InFile, InFile,
                             [Pure, AllTypesMatch<["base", "result"]>]> {
  let tests = ExactTests;
  let summary = "PyTorch's scatter: base with source[i][j] in place of its element [indices[i][j]][j] for dim 0; of several for one element the last one stays";
  let arguments = (ins Weft_Tensor:$base, Weft_IndexTensor:$indices, Weft_Tensor:$source, I64Attr:$dim, DefaultValuedStrAttr<StrAttr, "">:$user);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$base `,` $indices `,` $source `,` `dim` `=` $dim attr-dict `:` type($base) `,` type($indices) `,` type($source)";
  let hasVerifier = 1;
  let savesOperands = [1];
}
def Weft_ScatterAddOp : Weft_Op<"scatter_add", ScatterKind, InFile, InFile, Primitive, InFile, InFile,
                                [Pure, AllTypesMatch<["base", "result"]>]> {
  let tests = BoundTests;
  let summary = "PyTorch's scatter_add: base[indices[i][j]][j] += source[i][j] for dim 0; repeats add up, in order";
  let arguments = (ins Weft_NumericTensor:$base, Weft_IndexTensor:$indices, Weft_NumericTensor:$source, I64Attr:$dim, DefaultValuedStrAttr<StrAttr, "">:$user);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "$base `,` $indices `,` $source `,` `dim` `=` $dim attr-dict `:` type($base) `,` type($indices) `,` type($source)";
  let hasVerifier = 1;
  let savesOperands = [1];
}
def Weft_Combiner : I32EnumAttr<"Combiner", "how elements that meet become one", [
    I32EnumAttrCase<"prod", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>]> {
  let cppNamespace = "::weft::ir";
}
def Weft_ScatterReduceOp : Weft_Op<"scatter_reduce", ScatterKind, InFile, InFile, Primitive, InFile, InFile,
                                   [Pure, AllTypesMatch<["base", "result"]>]> {
  let tests = BoundTests;
  let summary = "as scatter_add, but what meets in an element is multiplied, or the largest or smallest of it stays: PyTorch's scatter_reduce";
  let description = [{
    NaN if one is NaN, -0 < 0. Of the largest (smallest), all that are equal to it, base's element included, share the derivative equally. That of
    a product holds with zeros among the factors, too. Sums stay an op of their own, whose derivative reads neither base nor source.
  }];
  let arguments = (ins Weft_Combiner:$combiner, Weft_NumericTensor:$base, Weft_IndexTensor:$indices, Weft_NumericTensor:$source, I64Attr:$dim, DefaultValuedStrAttr<StrAttr, "">:$user);
  let results = (outs Weft_NumericTensor:$result);
  let assemblyFormat = "$combiner $base `,` $indices `,` $source `,` `dim` `=` $dim attr-dict `:` type($base) `,` type($indices) `,` type($source)";
  let hasVerifier = 1;
  let savesOperands = [0, 1, 2];
  let savesResults = [0];
}

//===-- Random --------------------------------------------------------------------------------===//
// Philox 4x32-10 (Salmon et al. 2011). state is {key, counter}. Element i of the row-major result
// comes from block counter + offset + (i / 64) * 16 + i % 16 and is its word (i / 16) % 4: 64
// neighbours are four vectors of 16 blocks, whatever the vector width or the number of threads. A
// tensor of n elements takes (n + 63) / 64 * 16 blocks.

def Weft_RandomUniformOp : Weft_Op<"random_uniform", RandomKind, NotDifferentiable<"a sample does not depend on its state smoothly">, InFile, Primitive, InFile, InFile, [Pure]> {
  let hasFolder = 1;
  let tests = ExactTests;
  let summary = "samples uniform over [0, 1): (word >> 8) * 2^-24";
  let description = [{
    bf16 and f16, which hold fewer bits, take the upper 8 and 11 bits of the word, so that no sample rounds to 1. f64 has 53 bits: the word, and
    below it the upper 21 bits of the word of the same place in the blocks whose counter has a third word of 1.
  }];
  let arguments = (ins Weft_RandomState:$state, DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$state attr-dict `:` type($result)";
}
def Weft_RandomNormalOp : Weft_Op<"random_normal", RandomKind, NotDifferentiable<"a sample does not depend on its state smoothly">, InFile, InFile, ByDecomposition, InFile, [Pure]> {
  let hasFolder = 1;
  let tests = BoundTests;
  let summary = "samples of the standard normal distribution, by Box and Muller's transform of two uniform streams";
  let description = [{
    With u1 = 1 - random_uniform(state, offset), u2 = random_uniform(state, offset + blocks of the tensor): sqrt(-2 log u1) * cos(2 pi u2).
    Takes twice the blocks of random_uniform.
  }];
  let arguments = (ins Weft_RandomState:$state, DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$state attr-dict `:` type($result)";
}
def Weft_RandomAdvanceOp : Weft_Op<"random_advance", RandomKind, NotDifferentiable<"integers have no derivative">, InFile, Primitive, InFile, InFile,
                                   [Pure, AllTypesMatch<["state", "result"]>]> {
  let hasFolder = 1;
  let tests = ExactTests;
  let summary = "the state with its counter moved on by amount blocks";
  let arguments = (ins Weft_RandomState:$state, I64Attr:$amount);
  let results = (outs Weft_RandomState:$result);
  let assemblyFormat = "$state `,` $amount attr-dict `:` type($state)";
}

//===-- Composites ----------------------------------------------------------------------------===//

class Weft_SoftmaxLikeOp<string mnemonic> : Weft_Op<mnemonic, CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, SameOperandsAndResultType]> {
  let tests = BoundTests;
  let arguments = (ins Weft_FloatTensor:$input, I64Attr:$dim);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
  let savesResults = [0];
}
def Weft_SoftmaxOp : Weft_SoftmaxLikeOp<"softmax"> { let summary = "exp(x - max) / sum(exp(x - max)) along dim"; }
def Weft_LogSoftmaxOp : Weft_SoftmaxLikeOp<"log_softmax"> { let summary = "x - max - log(sum(exp(x - max))) along dim"; }
class Weft_ArgOp<string mnemonic> : Weft_Op<mnemonic, CompositeKind, NotDifferentiable<"a position is constant almost everywhere">,
                                            InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let arguments = (ins Weft_NumericTensor:$input, I64Attr:$dim);
  let results = (outs Weft_IndexTensor:$result);
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($input)";
  let description = [{The result, int64, has input's dims without `dim`, which must not be empty.}];
}
def Weft_ArgMaxOp : Weft_ArgOp<"arg_max"> { let summary = "the index of the first largest element along dim, or of the first NaN"; }
def Weft_ArgMinOp : Weft_ArgOp<"arg_min"> { let summary = "the index of the first smallest element along dim, or of the first NaN"; }
def Weft_ArgSortOp : Weft_Op<"arg_sort", CompositeKind, NotDifferentiable<"a position is constant almost everywhere">, InFile, InFile,
                             ByDecomposition, InFile, [Pure, Infer]> {
  let tests = ExactTests;
  let summary = "the indices along dim of the elements in order: first the index of the smallest (with `descending`, of the largest), and so on";
  let description = [{
    NaN is larger than any number, -0 equals 0, and equal elements keep their order, descending ones as well. The result, int64, has input's
    dims; with `count`, only the first so many indices: what a provider then selects without sorting the rest, as it does where a slice
    along dim is all that is read (a median).

    Values follow by weft.gather, which gives their very bits (a NaN's, the sign of a zero) and has the derivative that a sort's values have;
    it fuses with what reads them, and sort, argsort, topk, median and kthvalue are one op to claim. Where no provider claims the op, each element is
    compared with each other along dim (with a small `count`, in blocks).
  }];
  let arguments = (ins Weft_Tensor:$input, I64Attr:$dim, DefaultValuedAttr<BoolAttr, "false">:$descending, OptionalAttr<I64Attr>:$count);
  let results = (outs Weft_IndexTensor:$result);
  let assemblyFormat = "$input `,` `dim` `=` $dim attr-dict `:` type($input)";
}
def Weft_LayerNormOp : Weft_Op<"layer_norm", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, AttrSizedOperandSegments, Infer]> {
  let tests = BoundTests;
  let summary = "(x - mean) * rstd * weight + bias over the last normalized_rank dims (Ba et al. 2016)";
  let description = [{mean and rstd = 1 / sqrt(var + eps) are over the normalized dims, with the biased variance; they have the leading dims, are float32 for an input of 16 bits, and are results for the derivative's sake.}];
  let arguments = (ins Weft_FloatTensor:$input, Optional<Weft_FloatTensor>:$weight, Optional<Weft_FloatTensor>:$bias,
                       I64Attr:$normalized_rank, F64Attr:$eps);
  let results = (outs Weft_FloatTensor:$result, Weft_FloatTensor:$mean, Weft_FloatTensor:$rstd);
  let savesOperands = [0, 1];
  let savesResults = [1, 2];
  let assemblyFormat = "$input (`weight` $weight^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}
def Weft_AttentionOp : Weft_Op<"attention", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = BoundTests;
  let summary = "softmax(scale * query key^T + mask) value, over the last two dims (Vaswani et al. 2017)";
  let description = [{
    query: [..., Tq, D], key: [..., Tk, D], value: [..., Tk, Dv]; mask broadcasts to [..., Tq, Tk]: bool (false leaves out) or float (added).
    With `causal`, query i sees keys up to i + Tk - Tq. A row that sees nothing is 0. log_sum_exp [..., Tq] is for the derivative,
    float32 for operands of 16 bits: what it is rounded by becomes a factor of all weights.
  }];
  let arguments = (ins Weft_FloatTensor:$query, Weft_FloatTensor:$key, Weft_FloatTensor:$value, Optional<Weft_Tensor>:$mask,
                       DefaultValuedAttr<BoolAttr, "false">:$causal, F64Attr:$scale);
  let results = (outs Weft_FloatTensor:$result, Weft_FloatTensor:$log_sum_exp);
  let assemblyFormat = "$query `,` $key `,` $value (`mask` $mask^)? attr-dict `:` functional-type(operands, results)";
  let savesOperands = [0, 1, 2, 3];
  let savesResults = [0, 1];
}
def Weft_AttentionGradientOp : Weft_Op<"attention_gradient", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile,
                                       [Pure, AttrSizedOperandSegments, Infer]> {
  let frontend = Internal;
  let tests = BoundTests;
  let summary = "the derivative of attention: the gradients of query, key and value";
  let description = [{
    query, key, value, mask, causal and scale: attention's, result and log_sum_exp: what it gave. gradient and sum_gradient: those of the two.
    With P = exp(scores - log_sum_exp) and D = gradient value^T - sum(gradient * result) + sum_gradient: value_gradient = P^T gradient,
    query_gradient = scale (P * D) key, key_gradient = scale (P * D)^T query (Dao et al. 2022). A query that sees nothing has P = 0.
  }];
  let arguments = (ins Weft_FloatTensor:$query, Weft_FloatTensor:$key, Weft_FloatTensor:$value, Weft_FloatTensor:$result,
                       Weft_FloatTensor:$log_sum_exp, Weft_FloatTensor:$gradient, Optional<Weft_Tensor>:$mask,
                       Optional<Weft_FloatTensor>:$sum_gradient, DefaultValuedAttr<BoolAttr, "false">:$causal, F64Attr:$scale);
  let results = (outs Weft_FloatTensor:$query_gradient, Weft_FloatTensor:$key_gradient, Weft_FloatTensor:$value_gradient);
  let assemblyFormat = [{$query `,` $key `,` $value `result` $result `,` $log_sum_exp `gradient` $gradient (`,` $sum_gradient^)?
                         (`mask` $mask^)? attr-dict `:` functional-type(operands, results)}];
  let savesOperands = [0, 1, 2, 3, 4, 5, 6, 7];
}
def Weft_CrossEntropyOp : Weft_Op<"cross_entropy", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = BoundTests;
  let summary = "-log_softmax(logits)[target], for each row; a row whose target is ignore_index gives 0";
  let description = [{
    logits: [..., C]; targets: [...], integer; loss and log_sum_exp: [...], which is float32 for logits of 16 bits. As in PyTorch, a target outside [0, C) that is not ignore_index is an
    error when the program runs: it names the op, the target, its position and the source line, and what the kernel computes is lost.
  }];
  let arguments = (ins Weft_FloatTensor:$logits, Weft_IndexTensor:$targets, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Weft_FloatTensor:$loss, Weft_FloatTensor:$log_sum_exp);
  let assemblyFormat = "$logits `,` $targets attr-dict `:` type($logits) `,` type($targets)";
  let savesOperands = [0, 1];
  let savesResults = [1];
}
def Weft_DropoutOp : Weft_Op<"dropout", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let hasFolder = 1;
  let tests = BoundTests;
  let summary = "0 where a uniform sample is below rate, else x / (1 - rate) (Srivastava et al. 2014); keep says which";
  let arguments = (ins Weft_FloatTensor:$input, Weft_RandomState:$state, F64Attr:$rate, DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Weft_FloatTensor:$result, Weft_BoolTensor:$keep);
  let assemblyFormat = "$input `,` $state attr-dict `:` type($input)";
  let savesResults = [1];
}

//===-- Structure -----------------------------------------------------------------------------===//

defvar NoPositions = NotApplicable<"it has no positions of its own">;

def Weft_LeafOp : Weft_Op<"leaf", StructureKind, NotDifferentiable<"it has no operands">, NotApplicable<"its value is the recorder's">, Primitive,
                          NotApplicable<"slices turn it into an argument">, NoPositions, []> {
  let tests = Untested<"it stands for a value of the recorder">;
  let summary = "a value that the recorder holds: a buffer in memory or in flight, or a scalar";
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let frontend = Internal;
}
def Weft_FusionOp : Weft_Op<"fusion", StructureKind, NotDifferentiable<"derivatives are expanded before fusion">, InFile, Primitive,
                            NotApplicable<"codegen lowers the ops of its body">, NoPositions,
                            [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let tests = Untested<"the ops of its body are">;
  let summary = "ops that become one kernel";
  let description = [{The body's arguments are the operands; what it yields are the results.}];
  let arguments = (ins Variadic<Weft_Tensor>:$inputs);
  let results = (outs Variadic<Weft_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let frontend = Internal;
}
def Weft_YieldOp : Weft_Op<"yield", StructureKind, NotApplicable<"a terminator">, NotApplicable<"a terminator">, Primitive,
                           NotApplicable<"a terminator">, NoPositions, [Pure, Terminator, ParentOneOf<["FusionOp", "ProviderCallOp"]>]> {
  let tests = Untested<"a terminator">;
  let summary = "the results of the region";
  let arguments = (ins Variadic<Weft_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let frontend = Internal;
}
def Weft_ProviderCallOp : Weft_Op<"provider_call", StructureKind, NotDifferentiable<"derivatives are expanded before claiming">,
                                  InFile, Primitive, NotApplicable<"a library runs it">, NoPositions, [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let tests = Untested<"the ops of its body are">;
  let summary = "ops that a provider (a vendor library) claimed";
  let description = [{
    `callee` names the runtime's library entry, such as "onednn.matmul"; `config` is its configuration. The body holds the claimed ops,
    as in weft.fusion, so that what the call must compute stays in the IR.
  }];
  let arguments = (ins Variadic<Weft_Tensor>:$inputs, StrAttr:$callee, DictionaryAttr:$config);
  let results = (outs Variadic<Weft_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let frontend = Internal;
}

#endif

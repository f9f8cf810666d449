// Factorizations of square matrices and systems of triangular ones. Composites: they are serial along
// the matrix, so that a library runs them whole; their decompositions serve backends without one.
#ifndef WEFT_LINEAR_ALGEBRA_OPS
#define WEFT_LINEAR_ALGEBRA_OPS

include "dialects/weft/ir/WeftBase.td"

def Weft_CholeskyOp : Weft_Op<"cholesky", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = BoundTests;
  let summary = "the lower triangular L with L L^T = input, whose diagonal is positive";
  let description = [{
    input: [.., n, n], of which only the lower triangle is read; the derivative is that of this triangle's elements. An input that is not
    positive definite is an error when the program runs; the decomposition gives NaN.
  }];
  let arguments = (ins Weft_FloatTensor:$input);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let savesResults = [0];
}
def Weft_SolveTriangularOp : Weft_Op<"solve_triangular", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = BoundTests;
  let summary = "the x with matrix x = rhs, for a triangular matrix";
  let description = [{
    matrix: [.., n, n], of which one triangle is read: the lower one, or with `upper` the upper one; with `unit` its diagonal is not read,
    but 1. With `transposed` it is matrix^T x = rhs. rhs: [.., n, k], with the leading dims of matrix. A zero in the diagonal gives infinity
    and NaN, as a quotient does.
  }];
  let arguments = (ins Weft_FloatTensor:$matrix, Weft_FloatTensor:$rhs, DefaultValuedAttr<BoolAttr, "false">:$upper,
                       DefaultValuedAttr<BoolAttr, "false">:$unit, DefaultValuedAttr<BoolAttr, "false">:$transposed);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$matrix `,` $rhs attr-dict `:` type($matrix) `,` type($rhs)";
  let savesOperands = [0];
  let savesResults = [0];
}
def Weft_LuOp : Weft_Op<"lu", CompositeKind, InFile, InFile, InFile, ByDecomposition, InFile, [Pure, Infer]> {
  let tests = BoundTests;
  let summary = "L U = the rows of input in the order `permutation`: by elimination that takes the largest element of each column as its pivot";
  let description = [{
    input: [.., n, n]; factors: U in the upper triangle, below the diagonal L, whose diagonal is 1; permutation: [.., n], int64. Of equal
    pivots it is the first. A column without one leaves 0 in U's diagonal; with `regular` that is an error when the program runs.
  }];
  let arguments = (ins Weft_FloatTensor:$input, DefaultValuedAttr<BoolAttr, "false">:$regular);
  let results = (outs Weft_FloatTensor:$factors, Weft_IndexTensor:$permutation);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let savesResults = [0, 1];
}

#endif

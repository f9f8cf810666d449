// Two ops whose rules are C++ functions of their own: `InFile` declares a function that rules.cpp
// defines, `Inline` holds a body, and the words say why there is none.
include "dialects/weft/ir/TensorOps.td"

def Mine_Dialect : Dialect {
  let name = "mine";
  let cppNamespace = "::mine";
}

// What each op of this dialect sets. opDialect alone would leave the C++ classes in ::weft::ir:
// the base class reads cppNamespace of the dialect that it was made with.
class Mine_Op<string mnemonic, OpKind kind, Rule derivative, Rule evaluation, Rule decomposition,
              Rule lowering, Rule statement, list<Trait> traits>
    : Weft_Op<mnemonic, kind, derivative, evaluation, decomposition, lowering, statement, traits> {
  let opDialect = Mine_Dialect;
  let cppNamespace = "::mine";
}

// An op that moves elements. Its lowering is its statement.
def Mine_MirrorOp : Mine_Op<"mirror", MovementKind, /*derivative=*/InFile, /*evaluation=*/InFile,
    /*decomposition=*/NotApplicable<"a primitive">,
    /*lowering=*/Inline<"return ::weft::ir::lowerMovement(b, *this, operands);">,
    /*statement=*/InFile, [Pure, SameOperandsAndResultType]> {
  let summary = "the elements of each row, the last first";
  let hasVerifier = 1;
  let arguments = (ins Weft_Tensor:$input);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

// An op that adds up: a composite, which is decomposed before kernels are made. `Infer` says that
// the types of its results follow from its operands, by inferReturnTypes.
def Mine_RowNormOp : Mine_Op<"row_norm", CompositeKind, /*derivative=*/InFile,
    /*evaluation=*/InFile, /*decomposition=*/InFile, /*lowering=*/ByDecomposition,
    /*statement=*/InFile, [Pure, Infer]> {
  let summary = "the root of the sum of each row's squares, plus eps";
  let arguments = (ins Weft_FloatTensor:$input, F64Attr:$eps);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let savesOperands = [0];
  let savesResults = [0];
}

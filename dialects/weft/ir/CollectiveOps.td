// Collectives: what the ranks of a group exchange. `group` names a group of the process's, `ranks`
// says how many are in it. The recorder runs each between programs, in the order of recording, and
// after all earlier ones of its group. `operand` says what the input is of, where that is more than
// its shape: ranks compare it.
#ifndef WEFT_COLLECTIVE_OPS
#define WEFT_COLLECTIVE_OPS

include "dialects/weft/ir/WeftBase.td"

def Weft_Reduction : I32EnumAttr<"Reduction", "how the elements of all ranks become one", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"min", 2>,
    I32EnumAttrCase<"max", 3>, I32EnumAttrCase<"prod", 4>]> {
  let cppNamespace = "::weft::ir";
}

class Weft_CollectiveOp<string mnemonic, Rule derivative, list<Trait> traits = []>
    : Weft_Op<mnemonic, ExchangeKind, derivative, InFile, NotApplicable<"nothing simpler crosses ranks">,
              NotApplicable<"no program holds it: it runs between programs">, NotApplicable<"other ranks have what it reads">,
              !listconcat([Pure], traits)> {
  let tests = Untested<"it needs ranks; the tests of frontend/distributed run it on several">;
  let results = (outs Weft_Tensor:$result);
}

def Weft_AllReduceOp : Weft_CollectiveOp<"all_reduce", InFile, [SameOperandsAndResultType]> {
  let summary = "the reduction of all ranks' inputs, added up in rank order; the same on all ranks";
  let arguments = (ins Weft_Reduction:$reduction, Weft_Tensor:$input, StrAttr:$group, I64Attr:$ranks, OptionalAttr<StrAttr>:$operand);
  let assemblyFormat = "$reduction $input `over` $group `of` $ranks attr-dict `:` type($input)";
}
def Weft_AllGatherOp : Weft_CollectiveOp<"all_gather", InFile, [Infer]> {
  let summary = "all ranks' inputs, below each other in rank order: dim 0 is `ranks` times the input's";
  let arguments = (ins Weft_Tensor:$input, StrAttr:$group, I64Attr:$ranks);
  let assemblyFormat = "$input `over` $group `of` $ranks attr-dict `:` type($input) `to` type($result)";
}
def Weft_ReduceScatterOp : Weft_CollectiveOp<"reduce_scatter", InFile, [Infer]> {
  let summary = "this rank's part, along dim 0, of what all_reduce gives";
  let arguments = (ins Weft_Reduction:$reduction, Weft_Tensor:$input, StrAttr:$group, I64Attr:$ranks, OptionalAttr<StrAttr>:$operand);
  let assemblyFormat = "$reduction $input `over` $group `of` $ranks attr-dict `:` type($input) `to` type($result)";
}
def Weft_AllToAllOp : Weft_CollectiveOp<"all_to_all", InFile, [SameOperandsAndResultType]> {
  let summary = "part r of the input, along dim 0, goes to rank r; part r of the result comes from rank r";
  let arguments = (ins Weft_Tensor:$input, StrAttr:$group, I64Attr:$ranks);
  let assemblyFormat = "$input `over` $group `of` $ranks attr-dict `:` type($input)";
  let hasVerifier = 1;
}
def Weft_BroadcastFromOp : Weft_CollectiveOp<"broadcast_from", InFile, [SameOperandsAndResultType]> {
  let summary = "the input of rank `root`, on all ranks; `rank` is this one";
  let arguments = (ins Weft_Tensor:$input, I64Attr:$root, I64Attr:$rank, StrAttr:$group, I64Attr:$ranks, OptionalAttr<StrAttr>:$operand);
  let assemblyFormat = "$input `from` $root `to` $rank `over` $group `of` $ranks attr-dict `:` type($input)";
}

def Weft_SendReceiveOp : Weft_CollectiveOp<"send_receive", InFile, [SameOperandsAndResultType]> {
  let summary = "the input goes to rank `to`; the result is the input of rank `from`; -1: to none, zeros from none";
  let arguments = (ins Weft_Tensor:$input, I64Attr:$to, I64Attr:$from, StrAttr:$group, I64Attr:$ranks);
  let assemblyFormat = "$input `to` $to `from` $from `over` $group `of` $ranks attr-dict `:` type($input)";
}

#endif

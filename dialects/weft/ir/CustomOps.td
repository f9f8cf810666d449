// Kernels of users as an op. It stands apart from the other records: what it is made of names the C
// ABI, which few files need to see.
#ifndef WEFT_CUSTOM_OPS
#define WEFT_CUSTOM_OPS

include "dialects/weft/ir/WeftBase.td"

def Weft_CustomOp : Weft_Op<"custom", StructureKind, InFile, InFile, NotApplicable<"the kernel is all there is">,
                            NotApplicable<"the kernel runs it">, NotApplicable<"only its kernel knows">, [Pure, Infer]> {
  let tests = Untested<"its kernels are the user's">;
  let frontend = Recorder;
  let summary = "a kernel of the user's, registered through the C ABI under this name";
  let description = [{
    Shapes and dtypes of the results are what the kernel's shape rule says; the derivative is the kernel that it names, applied to inputs,
    results and cotangents. A program that calls a kernel is read only where that kernel is registered. See `runtime/abi/weft_custom.h`.
  }];
  let arguments = (ins StrAttr:$kernel, Variadic<Weft_Tensor>:$inputs, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$ints,
                       DefaultValuedAttr<DenseF64ArrayAttr, "{}">:$scalars);
  let results = (outs Variadic<Weft_Tensor>:$outputs);
  let assemblyFormat = "$kernel `(` $inputs `)` attr-dict `:` functional-type(operands, results)";
  // All of them: WEFT_CUSTOM_MAX_INPUTS, WEFT_CUSTOM_MAX_OUTPUTS.
  let savesOperands = !range(32);
  let savesResults = !range(8);
}

#endif

// The pass that splits off what may be computed ahead of runs; the claim phase ends with it.
#ifndef WEFT_COMPILER_PREPARE_PASSES
#define WEFT_COMPILER_PREPARE_PASSES

include "mlir/Pass/PassBase.td"

def SplitPreparePass : Pass<"weft-split-prepare", "::mlir::ModuleOp"> {
  let summary = "moves work on stable arguments, where that pays, to a function @prepare";
  let description = [{
    Arguments that carry `weft.stable` or `weft.parameter` are the same in many runs. Ops that depend on them and on constants only go to a
    function @prepare where the cost model (PrepareLimits.h) says that it pays; their results become further arguments of @main, marked
    `weft.prepared = N` (the number of @prepare's result). @prepare's arguments are marked `weft.source = N` (the number of @main's argument).

    ```mlir
    func.func @main(%x: tensor<2x64xf32>, %w: tensor<64x64xbf16> {weft.stable}) -> tensor<2x64xf32> {
      %0 = weft.cast %w : tensor<64x64xbf16> to tensor<64x64xf32>
      %1 = weft.provider_call "onednn.matmul"(%a = %x : ..., %b = %0 : ...) ...
    ```
    becomes
    ```mlir
    func.func @main(%x: tensor<2x64xf32>, %w: tensor<64x64xbf16> {weft.stable}, %p: tensor<64x64xf32> {weft.prepared = 0 : i64}) ... {
      %1 = weft.provider_call "onednn.matmul"(%a = %x : ..., %b = %p : ...) ...
    }
    func.func @prepare(%w: tensor<64x64xbf16> {weft.source = 1 : i64}) -> tensor<64x64xf32> {
      %0 = weft.cast %w : tensor<64x64xbf16> to tensor<64x64xf32>
      return %0
    }
    ```
    Operands that a library packs are no matter of this pass: their form is known only where the program is loaded.
  }];
  let statistics = [Statistic<"numValues", "values", "values computed ahead of runs">];
}

#endif

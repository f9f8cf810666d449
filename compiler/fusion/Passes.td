// The passes of the fuse phase.
#ifndef WEFT_COMPILER_FUSION_PASSES
#define WEFT_COMPILER_FUSION_PASSES

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"weft-fuse", "::mlir::ModuleOp"> {
  let summary = "puts every op that codegen runs into a weft.fusion";
  let description = [{
    After it @main holds fusions, provider calls, reshapes (aliases) and constants only. Pairs of kernels are merged greedily, those first that save the
    most bytes, where FusionDomain finds rows that both share and no third kernel or call lies between. What costs next to nothing (splat
    constants, broadcasts, iotas, widening casts, slices, a few cheap ops on what is in memory anyway) is computed again by each kernel that
    reads it; everything else is computed once.

    ```mlir
    %0 = weft.exp %x : tensor<4xf32>
    %1 = weft.neg %0 : tensor<4xf32>
    return %1
    ```
    becomes
    ```mlir
    %0 = weft.fusion(%a = %x : tensor<4xf32>) -> tensor<4xf32> {
      %1 = weft.exp %a : tensor<4xf32>
      %2 = weft.neg %1 : tensor<4xf32>
      weft.yield %2 : tensor<4xf32>
    }
    return %0
    ```
  }];
  let options = [
    Option<"fuse", "fuse", "bool", "true", "false gives each op a fusion of its own">,
    Option<"writeRows", "write-rows", "bool", "true", "writes of few rows are index_puts (WriteInPlace.h)">,
    Option<"printReport", "report", "bool", "false", "prints what was refused, and why, as comments on stderr">,
  ];
  let statistics = [Statistic<"numFusions", "fusions", "kernels made">,
                    Statistic<"numRematerialized", "rematerialized", "values that kernels compute again instead of reading them">];
}

#endif

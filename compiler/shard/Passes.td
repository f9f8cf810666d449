// The pass that shows what sharding makes of a program.
#ifndef WEFT_COMPILER_SHARD_PASSES
#define WEFT_COMPILER_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ShardPass : Pass<"weft-shard", "::mlir::ModuleOp"> {
  let summary = "cuts a slice over the axes of a mesh of ranks";
  let description = [{
    What one rank computes of @main. An argument says with `weft.axes` along which axis each of its dims is cut ("" for none); what the
    function returns is cut as its result's `weft.axes` say, or is whole. `mesh` has the axes and how many ranks are on each, `at` this rank's place.

    ```mlir
    func.func @main(%x: tensor<8x4xf32> {weft.axes = ["", "model"]}, %w: tensor<4x6xf32> {weft.axes = ["model", ""]}) -> tensor<8x6xf32> {
      %0 = weft.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32>
    ```
    becomes, with `mesh=model=2`,
    ```mlir
    func.func @main(%x: tensor<8x2xf32>, %w: tensor<2x6xf32>) -> tensor<8x6xf32> {
      %0 = weft.matmul %x, %w : tensor<8x2xf32>, tensor<2x6xf32>
      %1 = weft.all_reduce sum %0 over "model" of 2 : tensor<8x6xf32>
    ```
  }];
  let options = [
    ListOption<"mesh", "mesh", "std::string", "the axes: data=2,model=4">,
    ListOption<"place", "at", "int64_t", "this rank's place on each axis; 0 where none is given">,
  ];
}

#endif

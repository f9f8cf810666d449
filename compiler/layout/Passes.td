// The passes of the layout phase.
#ifndef WEFT_COMPILER_LAYOUT_PASSES
#define WEFT_COMPILER_LAYOUT_PASSES

include "mlir/Pass/PassBase.td"

def AssignLayoutsPass : Pass<"weft-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "decides in which order the dims of each value lie in memory";
  let description = [{
    The decision is a table, value to dim order (LayoutTable.h). For now there is one layout, row-major, which needs no mark in the IR; the pass
    checks what arguments of @main ask for. Other layouts become explicit reshapes and transposes here, so that no later pass knows of them.

    ```mlir
    func.func @main(%x: tensor<4x8xf32> {weft.layout = array<i64: 0, 1>})
    ```
    is left as it is; `array<i64: 1, 0>` is an error that names the argument.
  }];
}

#endif

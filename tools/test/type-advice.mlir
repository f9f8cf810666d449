// Operands that do not fit: each tool says which op, both types, and what to do.
// RUN: not weft-opt %s 2>&1 | FileCheck %s
// RUN: not weft-run --backend=reference %s 2>&1 | FileCheck %s
// RUN: not weft-compile %s --emit=asm -o - 2>&1 | FileCheck %s
// CHECK: 'tensor<4xf32>' vs 'tensor<8xf32>'
// CHECK: weft.add takes operands of one shape and one dtype; weft.broadcast gives an operand the other's shape, weft.cast its dtype

// RUN: echo 'func.func @main(%%a: tensor<4xf32>, %%b: tensor<4xi32>) -> tensor<4xf32> { %%0 = "weft.mul"(%%a, %%b) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32> return %%0 : tensor<4xf32> }' > %t.generic.mlir
// RUN: not weft-opt %t.generic.mlir 2>&1 | FileCheck %s --check-prefix=GENERIC
// GENERIC: weft.mul takes operands of one shape and one dtype
func.func @main(%a: tensor<4xf32>, %b: tensor<8xf32>) -> tensor<4xf32> {
  %0 = weft.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}

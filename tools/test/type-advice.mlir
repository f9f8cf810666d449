// Operands that do not fit: each tool says which op, both types, and what to do.
// RUN: not weft-opt %s 2>&1 | FileCheck %s
// RUN: not weft-run --backend=reference %s 2>&1 | FileCheck %s
// RUN: not weft-compile %s --emit=asm -o - 2>&1 | FileCheck %s
// CHECK: 'tensor<4xf32>' vs 'tensor<8xf32>'
// CHECK: weft.add takes operands of one shape and one dtype; weft.broadcast gives an operand the other's shape, weft.cast its dtype

// RUN: echo 'func.func @main(%%a: tensor<4xf32>, %%b: tensor<4xi32>) -> tensor<4xf32> { %%0 = "weft.mul"(%%a, %%b) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32> return %%0 : tensor<4xf32> }' > %t.generic.mlir
// RUN: not weft-opt %t.generic.mlir 2>&1 | FileCheck %s --check-prefix=GENERIC
// GENERIC: weft.mul takes operands of one shape and one dtype

// Not of ops for which that is no help.
// RUN: echo 'func.func @main(%%s: tensor<4xf32>) -> tensor<4xf32> { %%0 = weft.random_normal %%s : tensor<4xf32> return %%0 : tensor<4xf32> }' > %t.random.mlir
// RUN: not weft-opt %t.random.mlir 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: echo 'func.func @main(%%x: tensor<4xf32>) -> tensor<8xf32> { %%0 = weft.fusion(%%a = %%x : tensor<4xf32>) -> (tensor<8xf32>) {' > %t.yield.mlir
// RUN: echo '  weft.yield %%a : tensor<8xf32> } return %%0 : tensor<8xf32> }' >> %t.yield.mlir
// RUN: not weft-opt %t.yield.mlir 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: different type than prior uses
// OTHER-NOT: takes operands of one shape
func.func @main(%a: tensor<4xf32>, %b: tensor<8xf32>) -> tensor<4xf32> {
  %0 = weft.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}

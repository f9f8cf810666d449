// More products than the library counts are our own kernel's.
// RUN: weft-opt %s --weft-phase=..plan --backend=cuda | FileCheck %s

// CHECK-NOT: plan.library_call
// CHECK: plan.launch
func.func @main(%x: tensor<2147483648x4x4xf32>, %y: tensor<2147483648x4x4xf32>) -> tensor<2147483648x4x4xf32> {
  %0 = weft.matmul %x, %y : tensor<2147483648x4x4xf32>, tensor<2147483648x4x4xf32>
  return %0 : tensor<2147483648x4x4xf32>
}

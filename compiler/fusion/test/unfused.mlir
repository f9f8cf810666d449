// RUN: weft-opt %s --weft-fuse=fuse=false | FileCheck %s
// RUN: weft-opt %s --weft-fuse=report 2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT --allow-empty

// Each op a kernel of its own, with the constants that it reads; an alias is none.
// CHECK: %[[A:.*]] = weft.fusion
// CHECK-NEXT: weft.constant
// CHECK-NEXT: weft.mul
// CHECK-NEXT: weft.yield
// CHECK: %[[R:.*]] = weft.reshape %[[A]]
// CHECK: %[[B:.*]] = weft.fusion({{.*}} = %[[R]]
// CHECK-NEXT: weft.exp
// CHECK-NEXT: weft.yield
// CHECK: return %[[B]]
// REPORT-NOT: refused
func.func @main(%x: tensor<8x8xf32>) -> tensor<64xf32> {
  %c = weft.constant dense<2.0> : tensor<8x8xf32>
  %0 = weft.mul %x, %c : tensor<8x8xf32>
  %1 = weft.reshape %0 : tensor<8x8xf32> to tensor<64xf32>
  %2 = weft.exp %1 : tensor<64xf32>
  return %2 : tensor<64xf32>
}

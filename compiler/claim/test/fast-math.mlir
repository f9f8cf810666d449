// RUN: weft-opt %s --weft-claim=fast-math | FileCheck %s

// With fast_math a ReLU goes into the call, although it turns NaN into 0 there.
// CHECK: weft.provider_call "onednn.matmul"
// CHECK-SAME: config {bias = 1 : i64, post_ops = "relu"}
// CHECK: weft.matmul
// CHECK: weft.relu
// CHECK: weft.yield
// CHECK-NOT: weft.relu
func.func @main(%x: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<64x64xf32> {
  %0 = weft.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32>
  %1 = weft.broadcast %b : tensor<64xf32> to tensor<64x64xf32>
  %2 = weft.add %0, %1 : tensor<64x64xf32>
  %3 = weft.relu %2 : tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}

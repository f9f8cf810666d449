// RUN: weft-opt %s --weft-decompose --split-input-file | FileCheck %s

// CHECK-LABEL: @softmax
// CHECK: %[[MAX:.*]] = weft.reduce_max %arg0, dims = [1]
// CHECK: weft.sub
// CHECK: weft.exp
// CHECK: weft.reduce_sum
// CHECK: weft.div
// CHECK-NOT: weft.softmax
module @softmax {
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = weft.softmax %x, dim = 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----
// What a decomposition makes is decomposed as well.
// CHECK-LABEL: @mean
// CHECK: weft.reduce_sum
// CHECK: return
// CHECK-NOT: weft.reduce_mean
module @mean {
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = weft.reduce_mean %x, dims = [1] : tensor<4x8xf32>
  return %0 : tensor<4xf32>
}
}

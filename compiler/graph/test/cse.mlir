// RUN: weft-opt %s --weft-cse --split-input-file | FileCheck %s

// CHECK-LABEL: @merges_chains
// CHECK: %[[E:.*]] = weft.exp %arg0
// CHECK: %[[N:.*]] = weft.neg %[[E]]
// CHECK: weft.add %[[N]], %[[N]]
// CHECK-NOT: weft.exp
module @merges_chains {
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = weft.exp %x : tensor<4xf32>
  %1 = weft.exp %x : tensor<4xf32>
  %2 = weft.neg %0 : tensor<4xf32>
  %3 = weft.neg %1 : tensor<4xf32>
  %4 = weft.add %2, %3 : tensor<4xf32>
  return %4 : tensor<4xf32>
}
}

// -----
// Attributes and types tell ops apart; equal samples of one state are one sample, at another offset they are another.
// CHECK-LABEL: @attributes
// CHECK: weft.reduce_sum %arg0, dims = [0]
// CHECK: weft.reduce_sum %arg0, dims = [1]
// CHECK: %[[U:.*]] = weft.random_uniform %arg1 : tensor<4xf32>
// CHECK: %[[V:.*]] = weft.random_uniform %arg1 {offset = 16 : i64} : tensor<4xf32>
// CHECK: weft.add %[[U]], %[[U]]
// CHECK: weft.add %{{.*}}, %[[V]]
module @attributes {
func.func @main(%x: tensor<4x4xf32>, %s: tensor<2xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = weft.reduce_sum %x, dims = [0] : tensor<4x4xf32>
  %1 = weft.reduce_sum %x, dims = [1] : tensor<4x4xf32>
  %2 = weft.random_uniform %s : tensor<4xf32>
  %3 = weft.random_uniform %s : tensor<4xf32>
  %4 = weft.random_uniform %s {offset = 16 : i64} : tensor<4xf32>
  %5 = weft.add %2, %3 : tensor<4xf32>
  %6 = weft.add %5, %4 : tensor<4xf32>
  return %0, %1, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
}

// -----
// Dead chains go whole.
// CHECK-LABEL: @dead
// CHECK-NEXT: func.func
// CHECK-NEXT: return %arg0
module @dead {
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = weft.exp %x : tensor<4xf32>
  %1 = weft.neg %0 : tensor<4xf32>
  %2 = weft.abs %1 : tensor<4xf32>
  return %x : tensor<4xf32>
}
}

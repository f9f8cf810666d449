// RUN: weft-opt %s --split-input-file --weft-fuse | FileCheck %s
// What is expensive goes to memory where a kernel would compute it more often than once an element.

// One that is read at its own position and across it would be computed twice.
// CHECK-LABEL: @read_across
// CHECK: weft.exp {{.*}} : tensor<65x64xf32>
// CHECK-NOT: weft.transpose
// CHECK: weft.fusion
// CHECK: weft.transpose
module @read_across {
func.func @main(%x: tensor<65x64xf32>) -> tensor<64x64xf32> {
  %e = weft.exp %x : tensor<65x64xf32>
  %s = weft.slice %e[[1, 0] : [65, 64] : [1, 1]] : tensor<65x64xf32>
  %t = weft.transpose %s, [1, 0] : tensor<64x64xf32>
  %y = weft.add %s, %t : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
}

// -----

// What a gather reads may be read anywhere, however often.
// CHECK-LABEL: @read_anywhere
// CHECK: weft.exp {{.*}} : tensor<4096xf32>
// CHECK-NOT: weft.index_select
// CHECK: weft.fusion
// CHECK: weft.index_select
module @read_anywhere {
func.func @main(%x: tensor<4096xf32>, %i: tensor<4096xi32>) -> tensor<4096xf32> {
  %e = weft.exp %x : tensor<4096xf32>
  %y = weft.index_select %e, %i, dim = 0 : tensor<4096xf32>, tensor<4096xi32>
  return %y : tensor<4096xf32>
}
}

// -----

// Rows of samples that begin in the middle of those that are drawn together take four times as long:
// nearly all of them are drawn as they lie.
// CHECK-LABEL: @drawn_from_the_middle
// CHECK: weft.random_uniform {{.*}} : tensor<32x65xf32>
// CHECK-NOT: weft.slice
// CHECK: weft.fusion
// CHECK: weft.slice
module @drawn_from_the_middle {
func.func @main(%x: tensor<32x64xf32>, %s: tensor<2xi64>) -> tensor<32x64xf32> {
  %drawn = weft.random_uniform %s : tensor<32x65xf32>
  %own = weft.slice %drawn[[0, 1] : [32, 65] : [1, 1]] : tensor<32x65xf32>
  %y = weft.mul %own, %x : tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}
}

// Convolutions and their gradients are calls of a library; what it does not take, and why.
// RUN: weft-opt %s --weft-phase=..plan --backend=cuda | FileCheck %s

// CHECK: plan.library_call "cudnn.convolution"
// CHECK-SAME: kind = "forward"
// CHECK: plan.library_call "cudnn.convolution"
// CHECK-SAME: kind = "input_gradient"
// CHECK: plan.library_call "cudnn.convolution"
// CHECK-SAME: kind = "weight_gradient"
func.func @main(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) -> (tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>) {
  %0 = weft.conv2d %x, %w {strides = array<i64: 2, 1>, padding = array<i64: 1, 0>, dilation = array<i64: 1, 2>, groups = 2 : i64} : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  %1 = weft.conv2d_input_gradient %0, %w {strides = array<i64: 2, 1>, padding = array<i64: 1, 0>, dilation = array<i64: 1, 2>, groups = 2 : i64} : (tensor<2x6x4x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x4x8x8xf32>
  %2 = weft.conv2d_weight_gradient %x, %0 {strides = array<i64: 2, 1>, padding = array<i64: 1, 0>, dilation = array<i64: 1, 2>, groups = 2 : i64} : (tensor<2x4x8x8xf32>, tensor<2x6x4x4xf32>) -> tensor<6x2x3x3xf32>
  return %1, %2 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
}

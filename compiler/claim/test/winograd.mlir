// RUN: weft-opt %s --weft-claim=composites | FileCheck %s
// RUN: weft-opt %s --weft-claim="composites exact-math" | FileCheck %s --check-prefix=EXACT

// 3x3 convolutions of images with channels last, and their gradients, may be computed by Winograd's
// algorithm. The first weight is trained, the second is not.
// CHECK: kind = "forward"{{.*}} winograd = "changing"
// CHECK: kind = "input_gradient"{{.*}} winograd = "changing"
// CHECK: kind = "weight_gradient"{{.*}} winograd = "changing"
// CHECK: kind = "forward"{{.*}} winograd = "stable"
// EXACT-NOT: winograd
func.func @main(%x: tensor<2x9x9x8xf32>, %w: tensor<16x8x3x3xf32>, %g: tensor<2x9x9x16xf32>, %v: tensor<16x8x3x3xf32>, %z: tensor<2x9x9x8xf32>)
    -> (tensor<2x9x9x16xf32>, tensor<2x9x9x8xf32>, tensor<16x8x3x3xf32>, tensor<2x9x9x16xf32>) {
  %0 = weft.transpose %x, [0, 3, 1, 2] : tensor<2x9x9x8xf32>
  %1 = weft.conv2d %0, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>
  %2 = weft.transpose %1, [0, 2, 3, 1] : tensor<2x16x9x9xf32>
  %3 = weft.transpose %g, [0, 3, 1, 2] : tensor<2x9x9x16xf32>
  %4 = weft.conv2d_input_gradient %3, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x9x9xf32>, tensor<16x8x3x3xf32>) -> tensor<2x8x9x9xf32>
  %5 = weft.transpose %4, [0, 2, 3, 1] : tensor<2x8x9x9xf32>
  %6 = weft.conv2d_weight_gradient %0, %3 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x9x9xf32>, tensor<2x16x9x9xf32>) -> tensor<16x8x3x3xf32>
  %7 = weft.transpose %z, [0, 3, 1, 2] : tensor<2x9x9x8xf32>
  %8 = weft.conv2d %7, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>
  %9 = weft.transpose %8, [0, 2, 3, 1] : tensor<2x16x9x9xf32>
  return %2, %5, %6, %9 : tensor<2x9x9x16xf32>, tensor<2x9x9x8xf32>, tensor<16x8x3x3xf32>, tensor<2x9x9x16xf32>
}

// RUN: weft-opt %s --weft-claim="composites report" --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t

// Forward with its bias, and both gradients.
// CHECK-LABEL: @three
// CHECK: weft.provider_call "onednn.convolution"({{.*}} = %arg0 : tensor<2x8x9x9xf32>, {{.*}} = %arg1 : tensor<16x8x3x3xf32>, {{.*}} = %arg2 : tensor<16x1x1xf32>)
// CHECK-SAME: config {bias = 1 : i64, dilation = array<i64: 1, 1>, groups = 1 : i64, kind = "forward", padding = array<i64: 1, 1>, strides = array<i64: 1, 1>}
// CHECK: weft.conv2d
// CHECK: weft.add
// CHECK: weft.provider_call "onednn.convolution"
// CHECK-SAME: kind = "input_gradient"
// CHECK: weft.provider_call "onednn.convolution"
// CHECK-SAME: kind = "weight_gradient"
module @three {
func.func @main(%x: tensor<2x8x9x9xf32>, %w: tensor<16x8x3x3xf32>, %b: tensor<16x1x1xf32>, %g: tensor<2x16x9x9xf32>)
    -> (tensor<2x16x9x9xf32>, tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>) {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>
  %1 = weft.broadcast %b : tensor<16x1x1xf32> to tensor<2x16x9x9xf32>
  %2 = weft.add %0, %1 : tensor<2x16x9x9xf32>
  %3 = weft.conv2d_input_gradient %g, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x9x9xf32>, tensor<16x8x3x3xf32>) -> tensor<2x8x9x9xf32>
  %4 = weft.conv2d_weight_gradient %x, %g {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x9x9xf32>, tensor<2x16x9x9xf32>) -> tensor<16x8x3x3xf32>
  return %2, %3, %4 : tensor<2x16x9x9xf32>, tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>
}
}

// -----
// What stays: other dtypes, small convolutions, pooling.
// CHECK-LABEL: @refused
// CHECK-NOT: weft.provider_call
// REPORT-DAG: dtype
// REPORT-DAG: too-small
// REPORT-DAG: max-pool-drops-nan
module @refused {
func.func @main(%x: tensor<2x8x9x9xf64>, %w: tensor<16x8x3x3xf64>, %s: tensor<1x1x4x4xf32>, %t: tensor<1x1x3x3xf32>)
    -> (tensor<2x16x7x7xf64>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x9x9xf64>, tensor<16x8x3x3xf64>
  %1 = weft.conv2d %s, %t {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>
  %2, %3 = weft.max_pool2d %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>} : tensor<1x1x4x4xf32>
  return %0, %1, %2 : tensor<2x16x7x7xf64>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
}
}

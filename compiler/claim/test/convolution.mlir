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

// -----
// An image of few channels is read as it is where it is turned for the convolution alone.
// CHECK-LABEL: @few_channels
// CHECK: weft.provider_call "onednn.convolution"({{.*}} = %arg0 : tensor<1x3x64x64xf32>, {{.*}} = %arg1 : tensor<32x3x3x3xf32>)
// CHECK-SAME: channels_last = 1 : i64
// CHECK-SAME: row_major_image = 1 : i64
module @few_channels {
func.func @main(%x: tensor<1x3x64x64xf32>, %w: tensor<32x3x3x3xf32>) -> tensor<1x32x32x32xf32> {
  %0 = weft.transpose %x, [0, 2, 3, 1] : tensor<1x3x64x64xf32>
  %1 = weft.transpose %0, [0, 3, 1, 2] : tensor<1x64x64x3xf32>
  %2 = weft.conv2d %1, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x3x64x64xf32>, tensor<32x3x3x3xf32>
  %3 = weft.transpose %2, [0, 2, 3, 1] : tensor<1x32x32x32xf32>
  return %3 : tensor<1x32x32x32xf32>
}
}

// -----
// Where it is turned anyway, the library reads that.
// CHECK-LABEL: @turned_anyway
// CHECK: %[[TURNED:.*]] = weft.transpose %arg0
// CHECK: weft.provider_call "onednn.convolution"({{.*}} = %[[TURNED]] : tensor<1x64x64x3xf32>
// CHECK-NOT: row_major_image
module @turned_anyway {
func.func @main(%x: tensor<1x3x64x64xf32>, %w: tensor<32x3x3x3xf32>) -> (tensor<1x32x32x32xf32>, tensor<1x64x64x3xf32>) {
  %0 = weft.transpose %x, [0, 2, 3, 1] : tensor<1x3x64x64xf32>
  %1 = weft.transpose %0, [0, 3, 1, 2] : tensor<1x64x64x3xf32>
  %2 = weft.conv2d %1, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x3x64x64xf32>, tensor<32x3x3x3xf32>
  %3 = weft.transpose %2, [0, 2, 3, 1] : tensor<1x32x32x32xf32>
  %4 = weft.tanh %0 : tensor<1x64x64x3xf32>
  return %3, %4 : tensor<1x32x32x32xf32>, tensor<1x64x64x3xf32>
}
}

// A bias goes into cuDNN's call, as a number for each channel of the result; with 16-bit factors it is of their dtype as well, or all is of float32.
// RUN: weft-opt %s --backend=cuda --weft-claim="composites report" --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t

// CHECK-LABEL: @bias
// CHECK: weft.provider_call "cudnn.convolution"({{.*}} : tensor<2x4x8x8xf32>, {{.*}} : tensor<6x4x3x3xf32>, {{.*}} = %arg2 : tensor<6x1x1xf32>) -> {{\(?}}tensor<2x6x6x6xf32>{{\)?}}
// CHECK-SAME: bias = 1 : i64
// CHECK: weft.yield
// CHECK-NEXT: }
// CHECK-NEXT: weft.relu
// REPORT-DAG: claim: refused 1 x relu-drops-nan: cuDNN's ReLU turns NaN into 0 unless it is told otherwise; it stays a kernel of ours (first: weft.relu at {{.*}})
module @bias {
func.func @main(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<6x1x1xf32>) -> tensor<2x6x6x6xf32> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>
  %1 = weft.broadcast %b : tensor<6x1x1xf32> to tensor<2x6x6x6xf32>
  %2 = weft.add %1, %0 : tensor<2x6x6x6xf32>
  %3 = weft.relu %2 : tensor<2x6x6x6xf32>
  return %3 : tensor<2x6x6x6xf32>
}
}

// -----
// A number a column, a bias beside which the convolution is read, what is added to a gradient, and the one number of a single channel are no such thing.
// CHECK-LABEL: @no_bias
// CHECK-NOT: bias = 1
module @no_bias {
func.func @main(%x: tensor<2x6x6x6xf32>, %w: tensor<6x6x1x1xf32>, %c: tensor<6xf32>, %b: tensor<6x1x1xf32>, %v: tensor<1x6x1x1xf32>, %d: tensor<1x1x1xf32>)
    -> (tensor<2x6x6x6xf32>, tensor<2x6x6x6xf32>, tensor<2x6x6x6xf32>, tensor<2x6x6x6xf32>, tensor<2x1x6x6xf32>) {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x6x6x6xf32>, tensor<6x6x1x1xf32>
  %1 = weft.broadcast %c : tensor<6xf32> to tensor<2x6x6x6xf32>
  %2 = weft.add %0, %1 : tensor<2x6x6x6xf32>
  %3 = weft.conv2d %2, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x6x6x6xf32>, tensor<6x6x1x1xf32>
  %4 = weft.broadcast %b : tensor<6x1x1xf32> to tensor<2x6x6x6xf32>
  %5 = weft.add %3, %4 : tensor<2x6x6x6xf32>
  %6 = weft.conv2d_input_gradient %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x6x6x6xf32>, tensor<6x6x1x1xf32>) -> tensor<2x6x6x6xf32>
  %7 = weft.add %6, %4 : tensor<2x6x6x6xf32>
  %8 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x6x6x6xf32>, tensor<1x6x1x1xf32>
  %9 = weft.broadcast %d : tensor<1x1x1xf32> to tensor<2x1x6x6xf32>
  %10 = weft.add %8, %9 : tensor<2x1x6x6xf32>
  return %2, %3, %5, %7, %10 : tensor<2x6x6x6xf32>, tensor<2x6x6x6xf32>, tensor<2x6x6x6xf32>, tensor<2x6x6x6xf32>, tensor<2x1x6x6xf32>
}
}

// -----
// As functions record it, behind a reshape; with a bias of float32; with one of another 16-bit type.
// CHECK-LABEL: @narrow
// CHECK: weft.provider_call "cudnn.convolution"({{.*}} : tensor<2x4x8x8xbf16>, {{.*}} : tensor<6x4x3x3xbf16>, {{.*}} = %arg2 : tensor<6xbf16>) -> {{\(?}}tensor<2x6x6x6xbf16>{{\)?}}
// CHECK-SAME: bias = 1 : i64
// CHECK: weft.provider_call "cudnn.convolution"({{.*}} : tensor<2x4x8x8xf32>, {{.*}} : tensor<6x4x3x3xf32>, {{.*}} = %arg3 : tensor<6x1x1xf32>) -> {{\(?}}tensor<2x6x6x6xf32>{{\)?}}
// CHECK-SAME: bias = 1 : i64
// REPORT-DAG: claim: refused 1 x wide-bias: cuDNN adds a bias of its factors' dtype; with one in float32 the convolution is of float32 (first: weft.cast at {{.*}})
module @narrow {
func.func @main(%x: tensor<2x4x8x8xbf16>, %w: tensor<6x4x3x3xbf16>, %b: tensor<6xbf16>, %c: tensor<6x1x1xf32>)
    -> (tensor<2x6x6x6xbf16>, tensor<2x6x6x6xbf16>) {
  %0 = weft.cast %x : tensor<2x4x8x8xbf16> to tensor<2x4x8x8xf32>
  %1 = weft.cast %w : tensor<6x4x3x3xbf16> to tensor<6x4x3x3xf32>
  %2 = weft.conv2d %0, %1 {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>
  %3 = weft.cast %b : tensor<6xbf16> to tensor<6xf32>
  %4 = weft.reshape %3 : tensor<6xf32> to tensor<6x1x1xf32>
  %5 = weft.broadcast %4 : tensor<6x1x1xf32> to tensor<2x6x6x6xf32>
  %6 = weft.add %2, %5 : tensor<2x6x6x6xf32>
  %7 = weft.cast %6 : tensor<2x6x6x6xf32> to tensor<2x6x6x6xbf16>
  %8 = weft.conv2d %0, %1 {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>
  %9 = weft.broadcast %c : tensor<6x1x1xf32> to tensor<2x6x6x6xf32>
  %10 = weft.add %8, %9 : tensor<2x6x6x6xf32>
  %11 = weft.cast %10 : tensor<2x6x6x6xf32> to tensor<2x6x6x6xbf16>
  return %7, %11 : tensor<2x6x6x6xbf16>, tensor<2x6x6x6xbf16>
}
}

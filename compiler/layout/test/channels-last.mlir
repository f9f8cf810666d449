// RUN: weft-opt %s --weft-assign-layouts=report --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t

// Two convolutions with what normalizes them, a shortcut, means of pixels: the image that comes in is transposed, nothing else.
// REPORT: layout: 2 convolutions have channels last; 1 reorders of 401408 bytes stay in the program, in place of 1605632 bytes copied inside calls
// CHECK-LABEL: module @block
// CHECK: %[[X:.*]] = weft.transpose %arg0, [0, 2, 3, 1]
// CHECK: %[[A:.*]] = weft.transpose %[[X]], [0, 3, 1, 2]
// CHECK: %[[B:.*]] = weft.conv2d %[[A]], %arg1
// CHECK: %[[C:.*]] = weft.transpose %[[B]], [0, 2, 3, 1]
// CHECK: weft.reshape {{.*}} to tensor<1x1x1x32xf32>
// CHECK: weft.broadcast {{.*}} to tensor<4x28x28x32xf32>
// CHECK: %[[D:.*]] = weft.mul %[[C]], {{.*}} : tensor<4x28x28x32xf32>
// CHECK: %[[E:.*]] = weft.relu %[[D]]
// CHECK: %[[F:.*]] = weft.transpose %[[E]], [0, 3, 1, 2]
// CHECK: %[[G:.*]] = weft.conv2d %[[F]], %arg2
// CHECK: %[[H:.*]] = weft.transpose %[[G]], [0, 2, 3, 1]
// CHECK: %[[I:.*]] = weft.add %[[H]], %[[X]] : tensor<4x28x28x32xf32>
// CHECK: %[[J:.*]] = weft.reduce_sum %[[I]], dims = [1, 2]
// CHECK: return %[[J]] : tensor<4x32xf32>
module @block {
func.func @main(%x: tensor<4x32x28x28xf32>, %v: tensor<32x32x3x3xf32>, %w: tensor<32x32x3x3xf32>, %s: tensor<32x1x1xf32>) -> tensor<4x32xf32> {
  %0 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<4x32x28x28xf32>, tensor<32x32x3x3xf32>
  %1 = weft.broadcast %s : tensor<32x1x1xf32> to tensor<4x32x28x28xf32>
  %2 = weft.mul %0, %1 : tensor<4x32x28x28xf32>
  %3 = weft.relu %2 : tensor<4x32x28x28xf32>
  %4 = weft.conv2d %3, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<4x32x28x28xf32>, tensor<32x32x3x3xf32>
  %5 = weft.add %4, %x : tensor<4x32x28x28xf32>
  %6 = weft.reduce_sum %5, dims = [2, 3] : tensor<4x32x28x28xf32>
  return %6 : tensor<4x32xf32>
}
}

// -----
// Training: the gradients, through batch norm, max pooling and a ReLU. Composites are decomposed, so that they run with channels last.
// REPORT: layout: 5 convolutions have channels last; 1 reorders of 65536 bytes
// CHECK-LABEL: module @training
// CHECK: weft.transpose %arg0, [0, 2, 3, 1]
// CHECK-NOT: weft.batch_norm
// CHECK: weft.reduce_sum {{.*}}, dims = [0, 1, 2] : tensor<2x32x32x16xf32>
// CHECK: weft.insert_slice {{.*}} into tensor<2x33x33x16xf32>
// CHECK: weft.slice {{.*}}[0, 0, 0, 0] : [2, 31, 31, 16] : [1, 2, 2, 1]]
// CHECK: weft.conv2d_weight_gradient {{.*}} : (tensor<2x16x16x16xf32>, tensor<2x16x16x16xf32>) -> tensor<16x16x3x3xf32>
// CHECK: weft.conv2d_input_gradient
// CHECK-NOT: weft.max_pool2d_gradient
// CHECK: %[[A:.*]] = weft.transpose {{.*}}, [0, 3, 1, 2] : tensor<2x32x32x8xf32>
// CHECK: %[[B:.*]] = weft.transpose {{.*}}, [0, 3, 1, 2] : tensor<2x32x32x16xf32>
// CHECK: weft.conv2d_weight_gradient %[[A]], %[[B]]
module @training {
func.func @main(%x: tensor<2x8x32x32xf32>, %v: tensor<16x8x3x3xf32>, %w: tensor<16x16x3x3xf32>, %s: tensor<16xf32>, %g: tensor<2x16xf32>)
    -> (tensor<2x16xf32>, tensor<16x16x3x3xf32>, tensor<16x8x3x3xf32>) {
  %0 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x32x32xf32>, tensor<16x8x3x3xf32>
  %n, %mean, %var = weft.batch_norm %0 weight %s bias %s {eps = 1.0e-5 : f64} : (tensor<2x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>)
  %p, %i = weft.max_pool2d %n {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : tensor<2x16x32x32xf32>
  %3 = weft.relu %p : tensor<2x16x16x16xf32>
  %4 = weft.conv2d %3, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x16x16x16xf32>, tensor<16x16x3x3xf32>
  %5 = weft.reduce_sum %4, dims = [2, 3] : tensor<2x16x16x16xf32>
  %g4 = weft.reshape %g : tensor<2x16xf32> to tensor<2x16x1x1xf32>
  %gb = weft.broadcast %g4 : tensor<2x16x1x1xf32> to tensor<2x16x16x16xf32>
  %dw = weft.conv2d_weight_gradient %3, %gb {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x16x16xf32>, tensor<2x16x16x16xf32>) -> tensor<16x16x3x3xf32>
  %dx = weft.conv2d_input_gradient %gb, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x16x16xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x16x16xf32>
  %z = weft.constant dense<0.0> : tensor<2x16x16x16xf32>
  %m = weft.compare gt %3, %z : tensor<2x16x16x16xf32>
  %gr = weft.select %m, %dx, %z : tensor<2x16x16x16xf32>
  %gp = weft.max_pool2d_gradient %gr, %i {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : (tensor<2x16x16x16xf32>, tensor<2x16x16x16xi32>) -> tensor<2x16x32x32xf32>
  %dv = weft.conv2d_weight_gradient %x, %gp {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x32x32xf32>, tensor<2x16x32x32xf32>) -> tensor<16x8x3x3xf32>
  return %5, %dw, %dv : tensor<2x16xf32>, tensor<16x16x3x3xf32>, tensor<16x8x3x3xf32>
}
}

// -----
// One convolution between row-major values, and 1x1 kernels, for which nothing is copied: they stay.
// REPORT: layout: 2 convolutions stay row-major, which copy 802816 bytes of images inside their calls: channels-last-saves-nothing: it would take 2 reorders of 802816 bytes
// CHECK-LABEL: module @edges
// CHECK-NOT: weft.transpose
module @edges {
func.func @main(%x: tensor<4x32x28x28xf32>, %v: tensor<32x32x3x3xf32>, %w: tensor<32x32x1x1xf32>) -> tensor<4x32x28x28xf32> {
  %0 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<4x32x28x28xf32>, tensor<32x32x3x3xf32>
  %1 = weft.conv2d %0, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<4x32x28x28xf32>, tensor<32x32x1x1xf32>
  return %1 : tensor<4x32x28x28xf32>
}
}

// -----
// What no library claims (f64) has no layout of its own.

// CHECK-LABEL: module @unclaimed
// CHECK-NOT: weft.transpose
module @unclaimed {
func.func @main(%x: tensor<4x32x28x28xf64>, %v: tensor<32x32x3x3xf64>) -> tensor<4x32xf64> {
  %0 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<4x32x28x28xf64>, tensor<32x32x3x3xf64>
  %1 = weft.reduce_sum %0, dims = [2, 3] : tensor<4x32x28x28xf64>
  return %1 : tensor<4x32xf64>
}
}

// -----
// REPORT-NEXT: layout: 2 convolutions have channels last; 1 reorders of 37632 bytes
// Weights of channels (a mean of pixels through a broadcast), joined channels, a sum over columns alone, whose dims come back in their order.
// CHECK-LABEL: module @movement
// CHECK: weft.concat {{.*}} dim = 3
// CHECK: weft.broadcast {{.*}} : tensor<4x1x1x64xf32> to tensor<4x28x28x64xf32>
// CHECK: %[[R:.*]] = weft.reduce_sum {{.*}}, dims = [2] : tensor<4x28x28x64xf32>
// CHECK: weft.transpose %[[R]], [0, 2, 1] : tensor<4x28x64xf32>
module @movement {
func.func @main(%x: tensor<4x3x28x28xf32>, %v: tensor<32x3x3x3xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<4x64x28xf32> {
  %0 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<4x3x28x28xf32>, tensor<32x3x3x3xf32>
  %1 = weft.concat %0, %0 dim = 1 : tensor<4x32x28x28xf32>, tensor<4x32x28x28xf32>
  %2 = weft.slice %1[[0, 0, 0, 0] : [4, 64, 1, 1] : [1, 1, 1, 1]] : tensor<4x64x28x28xf32>
  %3 = weft.broadcast %2 : tensor<4x64x1x1xf32> to tensor<4x64x28x28xf32>
  %4 = weft.mul %1, %3 : tensor<4x64x28x28xf32>
  %5 = weft.conv2d %4, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<4x64x28x28xf32>, tensor<64x64x3x3xf32>
  %6 = weft.reduce_sum %5, dims = [3] : tensor<4x64x28x28xf32>
  return %6 : tensor<4x64x28xf32>
}
}

// -----
// Small images stay, in a large batch as in a small one: one network has one layout.
// REPORT-NEXT: layout: 2 convolutions stay row-major, which copy 524288 bytes
// CHECK-LABEL: module @small
// CHECK-NOT: weft.transpose
module @small {
func.func @main(%x: tensor<256x8x4x4xf32>, %v: tensor<8x8x3x3xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<256x8xf32> {
  %0 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<256x8x4x4xf32>, tensor<8x8x3x3xf32>
  %1 = weft.relu %0 : tensor<256x8x4x4xf32>
  %2 = weft.conv2d %1, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<256x8x4x4xf32>, tensor<8x8x3x3xf32>
  %3 = weft.reduce_sum %2, dims = [2, 3] : tensor<256x8x4x4xf32>
  return %3 : tensor<256x8xf32>
}
}

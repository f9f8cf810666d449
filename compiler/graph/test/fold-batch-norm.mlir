// RUN: weft-opt %s --weft-fold-batch-norm --split-input-file | FileCheck %s

// The weight times s = rsqrt(variance + eps) * weight, and bias - mean * s.
// CHECK-LABEL: module @folded
// CHECK: func.func @main(%[[X:.*]]: tensor<1x8x9x9xf32>, %[[W:[^ ]*]]: {{.*}}, %[[M:[^ ]*]]: {{.*}}, %[[V:[^ ]*]]: {{.*}}, %[[G:[^ ]*]]: {{.*}}, %[[B:[^ ]*]]: {{.*}})
// CHECK: %[[E:.*]] = weft.add %[[V]]
// CHECK: %[[R:.*]] = weft.rsqrt %[[E]]
// CHECK: %[[S:.*]] = weft.mul %[[R]], %[[G]]
// CHECK: %[[N:.*]] = weft.neg %[[M]]
// CHECK: %[[NS:.*]] = weft.mul %[[N]], %[[S]]
// CHECK: %[[T:.*]] = weft.add %[[NS]], %[[B]]
// CHECK: %[[F:.*]] = weft.broadcast {{.*}} : tensor<16x1x1x1xf32> to tensor<16x8x3x3xf32>
// CHECK: %[[U:.*]] = weft.mul %[[W]], %[[F]]
// CHECK: %[[C:.*]] = weft.conv2d %[[X]], %[[U]]
// CHECK: %[[TB:.*]] = weft.broadcast {{.*}} : tensor<16x1x1xf32> to tensor<1x16x7x7xf32>
// CHECK: %[[Y:.*]] = weft.add %[[C]], %[[TB]]
// CHECK-NEXT: %[[Z:.*]] = weft.relu %[[Y]]
// CHECK-NEXT: return %[[Z]]
module @folded {
func.func @main(%x: tensor<1x8x9x9xf32>, %w: tensor<16x8x3x3xf32>, %m: tensor<16xf32>, %v: tensor<16xf32>, %g: tensor<16xf32>, %b: tensor<16xf32>) -> tensor<1x16x7x7xf32> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x8x9x9xf32>, tensor<16x8x3x3xf32>
  %1 = weft.batch_norm_inference %0 mean %m variance %v weight %g bias %b {eps = 1.0e-5 : f64} : (tensor<1x16x7x7xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<1x16x7x7xf32>
  %2 = weft.relu %1 : tensor<1x16x7x7xf32>
  return %2 : tensor<1x16x7x7xf32>
}
}

// -----
// A convolution with a bias, groups, a batch of a size that varies; a norm without weight and bias.
// CHECK-LABEL: module @with_bias
// CHECK: %[[S:.*]] = weft.rsqrt
// CHECK: %[[N:.*]] = weft.neg %arg3
// CHECK: %[[D:.*]] = weft.add {{.*}}, %[[N]]
// CHECK: %[[T:.*]] = weft.mul %[[D]], %[[S]]
// CHECK: weft.conv2d %arg0
// CHECK-NOT: weft.batch_norm_inference
// CHECK: weft.broadcast {{.*}} : tensor<4x1x1xf32> to [[BATCH:.*]]
// CHECK-NEXT: %[[Y:.*]] = weft.add {{.*}} : [[BATCH]]
// CHECK-NEXT: return %[[Y]]
module @with_bias {
func.func @main(%x: tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>>, %w: tensor<4x1x1x1xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 4 : i64} : tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>>, tensor<4x1x1x1xf32>
  %1 = weft.reshape %b : tensor<4xf32> to tensor<4x1x1xf32>
  %2 = weft.broadcast %1 : tensor<4x1x1xf32> to tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>>
  %3 = weft.add %2, %0 : tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>>
  %4 = weft.batch_norm_inference %3 mean %m variance %v {eps = 0.0 : f64} : (tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>>
  return %4 : tensor<?x4x4x4xf32, #weft.dims<n, _, _, _>>
}
}

// -----
// Left as they are: a convolution with another reader, a weight that the program trains, float64.
// CHECK-LABEL: module @left
// CHECK-COUNT-3: weft.batch_norm_inference
// CHECK: return
module @left {
func.func @main(%x: tensor<1x4x4x4xf32>, %y: tensor<1x4x4x4xf32>, %d: tensor<1x4x4x4xf64>, %w: tensor<4x4x1x1xf32>, %wd: tensor<4x4x1x1xf64>, %m: tensor<4xf32>, %v: tensor<4xf32>, %md: tensor<4xf64>, %vd: tensor<4xf64>)
    -> (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>, tensor<1x4x4x4xf64>) {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>
  %1 = weft.batch_norm_inference %0 mean %m variance %v {eps = 1.0e-5 : f64} : (tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %2 = weft.conv2d %y, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>
  %3 = weft.batch_norm_inference %2 mean %m variance %v {eps = 1.0e-5 : f64} : (tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %4 = weft.conv2d_weight_gradient %y, %3 {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<4x4x1x1xf32>
  %5 = weft.conv2d %d, %wd {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf64>, tensor<4x4x1x1xf64>
  %6 = weft.batch_norm_inference %5 mean %md variance %vd {eps = 1.0e-5 : f64} : (tensor<1x4x4x4xf64>, tensor<4xf64>, tensor<4xf64>) -> tensor<1x4x4x4xf64>
  return %0, %1, %3, %4, %6 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>, tensor<1x4x4x4xf64>
}
}

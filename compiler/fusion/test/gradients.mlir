// RUN: weft-opt %s --split-input-file --weft-differentiate | sed 's/@f_grad/@main/' | weft-opt --split-input-file --weft-phase=import..fuse | FileCheck %s

// Forward and backward of softmax: one kernel.
// CHECK-LABEL: module @softmax
// CHECK: func.func @main
// CHECK: = weft.fusion
// CHECK-COUNT-2: weft.reduce_sum
// CHECK: weft.yield
// CHECK-NOT: = weft.fusion
// CHECK: return
module @softmax {
func.func @f(%x: tensor<64x256xf32>) -> tensor<64x256xf32> attributes {weft.differentiate} {
  %1 = weft.softmax %x, dim = 1 : tensor<64x256xf32>
  return %1 : tensor<64x256xf32>
}
}

// -----
// layer_norm with the sums over rows that its weight and bias get: one kernel, four results.
// CHECK-LABEL: module @layer_norm
// CHECK: func.func @main
// CHECK: %[[ALL:.*]]:4 = weft.fusion
// CHECK-DAG: weft.reduce_sum {{.*}}, dims = [2]
// CHECK-DAG: weft.reduce_sum {{.*}}, dims = [0, 1]
// CHECK: weft.yield
// CHECK-NOT: = weft.fusion
// CHECK: return
module @layer_norm {
func.func @f(%x: tensor<8x64x256xf32>, %w: tensor<256xf32>, %b: tensor<256xf32>) -> tensor<8x64x256xf32> attributes {weft.differentiate} {
  %1, %mean, %rstd = weft.layer_norm %x weight %w bias %b {normalized_rank = 1 : i64, eps = 1.0e-5 : f64}
      : (tensor<8x64x256xf32>, tensor<256xf32>, tensor<256xf32>) -> (tensor<8x64x256xf32>, tensor<8x64xf32>, tensor<8x64xf32>)
  return %1 : tensor<8x64x256xf32>
}
}

// -----
// The mean of cross_entropy and its gradient: one kernel.
// CHECK-LABEL: module @cross_entropy
// CHECK: func.func @main
// CHECK: %[[ALL:.*]]:2 = weft.fusion
// CHECK: weft.yield
// CHECK-NOT: = weft.fusion
// CHECK: return
module @cross_entropy {
func.func @f(%x: tensor<64x100xf32>, %t: tensor<64xi64>) -> tensor<f32> attributes {weft.differentiate} {
  %l, %lse = weft.cross_entropy %x, %t : tensor<64x100xf32>, tensor<64xi64>
  %m = weft.reduce_mean %l, dims = [0] : tensor<64xf32>
  return %m : tensor<f32>
}
}

// -----
// batch_norm over [N, C, H, W]: its rows are the channels, each of N runs. Statistics, result and gradients are one kernel.
// CHECK-LABEL: module @batch_norm
// CHECK: func.func @main
// CHECK: %[[ALL:.*]]:4 = weft.fusion
// CHECK-COUNT-4: weft.reduce_sum {{.*}}, dims = [0, 2, 3]
// CHECK: weft.yield
// CHECK-NOT: = weft.fusion
// CHECK: return
module @batch_norm {
func.func @f(%x: tensor<8x16x6x6xf32>, %w: tensor<16xf32>, %b: tensor<16xf32>) -> tensor<8x16x6x6xf32> attributes {weft.differentiate} {
  %y, %mean, %variance = weft.batch_norm %x weight %w bias %b {eps = 1.0e-5 : f64}
      : (tensor<8x16x6x6xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x6x6xf32>, tensor<16xf32>, tensor<16xf32>)
  return %y : tensor<8x16x6x6xf32>
}
}

// -----
// group_norm over [N, C, H, W]: rows are the groups of a sample, and the sums over samples and pixels that weight and bias get are sums of
// parts of such rows.
// CHECK-LABEL: module @group_norm
// CHECK: func.func @main
// CHECK: %[[ALL:.*]]:4 = weft.fusion
// CHECK-DAG: weft.reduce_sum {{.*}}, dims = [2]
// CHECK-DAG: weft.reduce_sum {{.*}}, dims = [0, 2, 3]
// CHECK: weft.yield
// CHECK-NOT: = weft.fusion
// CHECK: return
module @group_norm {
func.func @f(%x: tensor<8x16x6x6xf32>, %w: tensor<16x1x1xf32>, %b: tensor<16x1x1xf32>) -> tensor<8x16x6x6xf32> attributes {weft.differentiate} {
  %rows = weft.reshape %x : tensor<8x16x6x6xf32> to tensor<8x4x144xf32>
  %n, %mean, %rstd = weft.layer_norm %rows {normalized_rank = 1 : i64, eps = 1.0e-5 : f64}
      : (tensor<8x4x144xf32>) -> (tensor<8x4x144xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
  %images = weft.reshape %n : tensor<8x4x144xf32> to tensor<8x16x6x6xf32>
  %w2 = weft.broadcast %w : tensor<16x1x1xf32> to tensor<8x16x6x6xf32>
  %b2 = weft.broadcast %b : tensor<16x1x1xf32> to tensor<8x16x6x6xf32>
  %scaled = weft.mul %images, %w2 : tensor<8x16x6x6xf32>
  %y = weft.add %scaled, %b2 : tensor<8x16x6x6xf32>
  return %y : tensor<8x16x6x6xf32>
}
}

// RUN: weft-opt %s --weft-expand --split-input-file | FileCheck %s

// CHECK-LABEL: module @norm
// CHECK: %[[SUM:.*]] = weft.add %arg2
// CHECK: %[[RSTD:.*]] = weft.rsqrt %[[SUM]]
// CHECK: %[[SCALE:.*]] = weft.mul %[[RSTD]], %arg3
// CHECK: %[[MEAN:.*]] = weft.reshape %arg1
// CHECK: weft.broadcast %[[MEAN]]
// CHECK: weft.sub %arg0
// CHECK: weft.mul
// CHECK: weft.reshape %arg4
// CHECK: weft.add
// CHECK-NOT: weft.batch_norm_inference
module @norm {
func.func @main(%x: tensor<2x8x4xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x8x4xf32> {
  %0 = weft.batch_norm_inference %x mean %m variance %v weight %w bias %b {eps = 1.0e-5 : f64} : (tensor<2x8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}
}

// -----
// Computed in float32, and rounded once.
// CHECK-LABEL: module @rounded_once
// CHECK-COUNT-3: weft.cast %{{.*}} : tensor<{{.*}}xbf16> to tensor<{{.*}}xf32>
// CHECK: weft.sub {{.*}} : tensor<2x8xf32>
// CHECK: %[[Y:.*]] = weft.mul {{.*}} : tensor<2x8xf32>
// CHECK: weft.cast %[[Y]] : tensor<2x8xf32> to tensor<2x8xbf16>
module @rounded_once {
func.func @main(%x: tensor<2x8xbf16>, %m: tensor<8xbf16>, %v: tensor<8xbf16>) -> tensor<2x8xbf16> {
  %0 = weft.batch_norm_inference %x mean %m variance %v {eps = 1.0e-5 : f64} : (tensor<2x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<2x8xbf16>
  return %0 : tensor<2x8xbf16>
}
}

// -----
// Other composites stay: libraries and kernels may take them whole.
// CHECK-LABEL: module @softmax
// CHECK: weft.softmax
module @softmax {
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = weft.softmax %x, dim = 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----
// Only derivatives see it.
// CHECK-LABEL: module @detached
// CHECK-NOT: weft.detach
// CHECK: weft.mul %arg0, %arg0
module @detached {
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = weft.detach %x : tensor<4x8xf32>
  %1 = weft.mul %0, %x : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
}

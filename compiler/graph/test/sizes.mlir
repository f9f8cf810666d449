// RUN: weft-opt --weft-simplify --split-input-file %s | FileCheck %s
// Rules keep the names of sizes that vary, and compute with no number that has one.

// The batch joins the rows, under the product's name.
// CHECK-LABEL: @batched_product
module @batched_product {
func.func @main(%x: tensor<32x16x8xf32, #weft.dims<n, _, _>>, %w: tensor<8x4xf32>) -> tensor<32x16x4xf32, #weft.dims<n, _, _>> {
  // CHECK: weft.reshape %{{.*}} to tensor<512x8xf32, #weft.dims<n.16, _>>
  // CHECK: weft.matmul
  // CHECK: weft.reshape %{{.*}} : tensor<512x4xf32, #weft.dims<n.16, _>> to tensor<32x16x4xf32, #weft.dims<n, _, _>>
  %0 = weft.matmul %x, %w : tensor<32x16x8xf32, #weft.dims<n, _, _>>, tensor<8x4xf32>
  return %0 : tensor<32x16x4xf32, #weft.dims<n, _, _>>
}
}

// -----

// n equal terms: how many they are is known at run time only.
// CHECK-LABEL: @repeated_sum
module @repeated_sum {
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  // CHECK: weft.reduce_sum
  %0 = weft.broadcast %x : tensor<f32> to tensor<32xf32, #weft.dims<n>>
  %1 = weft.reduce_sum %0, dims = [0] : tensor<32xf32, #weft.dims<n>>
  return %1 : tensor<f32>
}
}

// -----

// CHECK-LABEL: @broadcasts_of_one_size
module @broadcasts_of_one_size {
func.func @main(%x: tensor<32xf32, #weft.dims<n>>) -> tensor<3x32xf32, #weft.dims<_, n>> {
  // CHECK: %[[SUM:.*]] = weft.add %{{.*}} : tensor<32xf32, #weft.dims<n>>
  // CHECK: weft.broadcast %[[SUM]]
  %0 = weft.broadcast %x : tensor<32xf32, #weft.dims<n>> to tensor<3x32xf32, #weft.dims<_, n>>
  %1 = weft.add %0, %0 : tensor<3x32xf32, #weft.dims<_, n>>
  return %1 : tensor<3x32xf32, #weft.dims<_, n>>
}
}

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

// -----

// Elements that are written out have one size; one element that all of them are has not.
// CHECK-LABEL: @constants
module @constants {
func.func @main(%x: tensor<32x2xf32, #weft.dims<n, _>>) -> (tensor<32x2xf32, #weft.dims<n, _>>, tensor<32xf32, #weft.dims<n>>) {
  // CHECK: %[[BIAS:.*]] = weft.broadcast %{{.*}} : tensor<2xf32> to tensor<32x2xf32, #weft.dims<n, _>>
  // CHECK: weft.add %{{.*}}, %[[BIAS]] : tensor<32x2xf32, #weft.dims<n, _>>
  %bias = weft.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = weft.broadcast %bias : tensor<2xf32> to tensor<32x2xf32, #weft.dims<n, _>>
  %1 = weft.add %x, %0 : tensor<32x2xf32, #weft.dims<n, _>>
  // CHECK: weft.constant dense<3.000000e+00> : tensor<32xf32, #weft.dims<n>>
  %three = weft.constant dense<3.0> : tensor<f32>
  %2 = weft.broadcast %three : tensor<f32> to tensor<32xf32, #weft.dims<n>>
  return %1, %2 : tensor<32x2xf32, #weft.dims<n, _>>, tensor<32xf32, #weft.dims<n>>
}
}

// -----

// A number for elements of an unknown count is a repeated scalar, no constant of their type.
// CHECK-LABEL: @divided_by_repeats
module @divided_by_repeats {
func.func @main(%x: tensor<?x4xf32, #weft.dims<n, _>>) -> tensor<?x4xf32, #weft.dims<n, _>> {
  // CHECK: %[[QUARTER:.*]] = weft.constant dense<2.500000e-01> : tensor<f32>
  // CHECK: weft.broadcast %[[QUARTER]]
  // CHECK: weft.mul
  %c = weft.constant dense<4.0> : tensor<f32>
  %0 = weft.broadcast %c : tensor<f32> to tensor<?x4xf32, #weft.dims<n, _>>
  %1 = weft.div %x, %0 : tensor<?x4xf32, #weft.dims<n, _>>
  return %1 : tensor<?x4xf32, #weft.dims<n, _>>
}
}

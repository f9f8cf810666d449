// RUN: weft-opt %s --weft-fuse | FileCheck %s
// Equal numbers are equal sizes only if they have one name.

// CHECK-LABEL: @main
// CHECK: weft.fusion({{.*}} : tensor<64x4xf32, #weft.dims<n, _>>) -> (tensor<64x4xf32, #weft.dims<n, _>>) {
// CHECK: weft.exp
// CHECK: weft.neg
// CHECK: weft.fusion({{.*}} : tensor<64x4xf32>) -> (tensor<64x4xf32>) {
// CHECK: weft.exp
func.func @main(%x: tensor<64x4xf32, #weft.dims<n, _>>, %y: tensor<64x4xf32>) -> (tensor<64x4xf32, #weft.dims<n, _>>, tensor<64x4xf32>) {
  %0 = weft.exp %x : tensor<64x4xf32, #weft.dims<n, _>>
  %1 = weft.neg %0 : tensor<64x4xf32, #weft.dims<n, _>>
  %2 = weft.exp %y : tensor<64x4xf32>
  return %1, %2 : tensor<64x4xf32, #weft.dims<n, _>>, tensor<64x4xf32>
}

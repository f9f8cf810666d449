// RUN: weft-opt %s --weft-fuse | FileCheck %s
// What is kept stands between the size and what is folded with it: two sums, the rows' first. One
// over all that is behind the size, or over static dims alone, stays as it is.

// CHECK-LABEL: @main
// CHECK: %[[ROWS:.*]] = weft.reduce_sum %{{.*}}, dims = [2, 3] : tensor<64x5x3x4xf32, #weft.dims<n, _, _, _>>
// CHECK: weft.reduce_sum %{{.*}}, dims = [0] : tensor<64x5xf32, #weft.dims<n, _>>
// CHECK: weft.reduce_sum %{{.*}}, dims = [0, 1] : tensor<64x6x7xf32, #weft.dims<n, _, _>>
// CHECK: weft.reduce_sum %{{.*}}, dims = [0, 2, 3] : tensor<64x5x3x4xf32>
func.func @main(%x: tensor<64x5x3x4xf32, #weft.dims<n, _, _, _>>, %y: tensor<64x6x7xf32, #weft.dims<n, _, _>>, %z: tensor<64x5x3x4xf32>) -> (tensor<5xf32>, tensor<7xf32>, tensor<5xf32>) {
  %0 = weft.reduce_sum %x, dims = [0, 2, 3] : tensor<64x5x3x4xf32, #weft.dims<n, _, _, _>>
  %1 = weft.reduce_sum %y, dims = [0, 1] : tensor<64x6x7xf32, #weft.dims<n, _, _>>
  %2 = weft.reduce_sum %z, dims = [0, 2, 3] : tensor<64x5x3x4xf32>
  return %0, %1, %2 : tensor<5xf32>, tensor<7xf32>, tensor<5xf32>
}

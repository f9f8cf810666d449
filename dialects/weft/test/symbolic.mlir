// Symbolic dims: equal names are equal sizes, and shape rules carry them through.
// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK-LABEL: func.func @rules
func.func @rules(%x: tensor<?x128xf32, #weft.dims<n, _>>, %b: tensor<128xf32>, %r: tensor<?xf32, #weft.dims<n>>, %i: tensor<?xi64, #weft.dims<k>>) {
  // CHECK: weft.broadcast %{{.*}} : tensor<128xf32> to tensor<?x128xf32, #weft.dims<n, _>>
  %0 = weft.broadcast %b : tensor<128xf32> to tensor<?x128xf32, #weft.dims<n, _>>
  // CHECK: %[[SUM:.*]] = weft.add %{{.*}}, %{{.*}} : tensor<?x128xf32, #weft.dims<n, _>>
  %1 = weft.add %x, %0 : tensor<?x128xf32, #weft.dims<n, _>>
  // CHECK: %[[T:.*]] = weft.transpose %[[SUM]], [1, 0] : tensor<?x128xf32, #weft.dims<n, _>>
  %2 = weft.transpose %1, [1, 0] : tensor<?x128xf32, #weft.dims<n, _>>
  // CHECK: weft.reduce_sum %[[T]], dims = [0] : tensor<128x?xf32, #weft.dims<_, n>>
  %3 = weft.reduce_sum %2, dims = [0] : tensor<128x?xf32, #weft.dims<_, n>>
  // CHECK: weft.mul %{{.*}}, %{{.*}} : tensor<?xf32, #weft.dims<n>>
  %4 = weft.mul %3, %r : tensor<?xf32, #weft.dims<n>>
  // CHECK: %[[G:.*]] = weft.matmul %{{.*}}, %{{.*}} : tensor<?x128xf32, #weft.dims<n, _>>, tensor<128x?xf32, #weft.dims<_, n>>
  %5 = weft.matmul %x, %2 : tensor<?x128xf32, #weft.dims<n, _>>, tensor<128x?xf32, #weft.dims<_, n>>
  // CHECK: weft.exp %[[G]] : tensor<?x?xf32, #weft.dims<n, n>>
  %6 = weft.exp %5 : tensor<?x?xf32, #weft.dims<n, n>>
  // CHECK: %[[S:.*]] = weft.index_select %{{.*}}, %{{.*}}, dim = 0 : tensor<?x128xf32, #weft.dims<n, _>>, tensor<?xi64, #weft.dims<k>>
  %7 = weft.index_select %x, %i, dim = 0 : tensor<?x128xf32, #weft.dims<n, _>>, tensor<?xi64, #weft.dims<k>>
  // CHECK: weft.reshape %[[S]] : tensor<?x128xf32, #weft.dims<k, _>> to tensor<4x?x32xf32, #weft.dims<_, k, _>>
  %8 = weft.reshape %7 : tensor<?x128xf32, #weft.dims<k, _>> to tensor<4x?x32xf32, #weft.dims<_, k, _>>
  // The whole of a symbolic dim can be taken beside a part of a static one.
  // CHECK: weft.slice
  %9 = weft.slice %x [[0, 0] : [-9223372036854775808, 64] : [1, 1]] : tensor<?x128xf32, #weft.dims<n, _>>
  // CHECK: weft.neg %{{.*}} : tensor<?x64xf32, #weft.dims<n, _>>
  %10 = weft.neg %9 : tensor<?x64xf32, #weft.dims<n, _>>
  return
}

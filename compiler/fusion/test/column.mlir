// RUN: weft-opt %s --weft-fuse=report 2>&1 | FileCheck %s

// A column of a matrix that each row is multiplied by lies in a line of the cache for each element:
// it is a kernel of its own. What each row reads one element of, and what lies close together, is
// read where it is.
// CHECK: fuse: refused {{.*}} x gathers-transposed: {{.*}} (first: weft.slice at {{.*}}column.mlir:{{[0-9]+}})
// CHECK-LABEL: func.func @main
// CHECK: weft.fusion
// CHECK-NEXT: weft.slice {{.*}}tensor<1024x1024xf32>
// CHECK-NOT: weft.mul
// CHECK: weft.yield
// CHECK: weft.fusion
// CHECK: weft.reduce_sum {{.*}}tensor<512x1024xf32>
// CHECK: weft.slice {{.*}}tensor<512x1024xf32>
// CHECK: weft.mul
// CHECK: weft.fusion
// CHECK: weft.slice {{.*}}tensor<1024x4xf32>
// CHECK: weft.mul
func.func @main(%x: tensor<512x1024xf32>, %y: tensor<1024x1024xf32>, %z: tensor<1024x4xf32>) -> (tensor<512xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>) {
  %0 = weft.slice %y[[0, 0] : [1024, 1] : [1, 1]] : tensor<1024x1024xf32>
  %1 = weft.reshape %0 : tensor<1024x1xf32> to tensor<1x1024xf32>
  %2 = weft.broadcast %1 : tensor<1x1024xf32> to tensor<512x1024xf32>
  %3 = weft.mul %x, %2 : tensor<512x1024xf32>
  %4 = weft.reduce_sum %3, dims = [1] : tensor<512x1024xf32>
  %5 = weft.slice %x[[0, 0] : [512, 1] : [1, 1]] : tensor<512x1024xf32>
  %6 = weft.broadcast %5 : tensor<512x1xf32> to tensor<512x1024xf32>
  %7 = weft.mul %6, %6 : tensor<512x1024xf32>
  %8 = weft.slice %z[[0, 0] : [1024, 1] : [1, 1]] : tensor<1024x4xf32>
  %9 = weft.reshape %8 : tensor<1024x1xf32> to tensor<1x1024xf32>
  %10 = weft.broadcast %9 : tensor<1x1024xf32> to tensor<512x1024xf32>
  %11 = weft.mul %10, %10 : tensor<512x1024xf32>
  return %4, %7, %11 : tensor<512xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>
}

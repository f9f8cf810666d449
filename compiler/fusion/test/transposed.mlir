// RUN: weft-opt %s --weft-fuse=report 2>&1 | FileCheck %s

// A large transpose is a kernel of its own before a reduction that would gather what it reads. Rows
// and images whose pixels are added up are turned by the schedule, and what is small stays in a
// near cache.
// CHECK: fuse: refused {{.*}} x gathers-transposed: the kernel would gather each lane of its vectors from a line of its own (first: weft.transpose at {{.*}}transposed.mlir:{{[0-9]+}})
// CHECK-LABEL: func.func @main
// CHECK: weft.fusion
// CHECK-NEXT: weft.transpose {{.*}}tensor<8x64x64xf32>
// CHECK-NEXT: weft.yield
// CHECK: weft.fusion
// CHECK-NEXT: weft.reduce_sum {{.*}}tensor<8x64x64xf32>
// CHECK: weft.fusion
// CHECK-NEXT: weft.transpose {{.*}}tensor<256x512xf32>
// CHECK-NEXT: weft.reduce_sum {{.*}}tensor<512x256xf32>
// CHECK: weft.fusion
// CHECK-NEXT: weft.transpose {{.*}}tensor<32x32xf32>
// CHECK-NEXT: weft.reduce_sum {{.*}}tensor<32x32xf32>
// CHECK: weft.fusion
// CHECK-NEXT: weft.transpose {{.*}}tensor<8x32x48x16xf32>
// CHECK-NEXT: weft.reduce_sum {{.*}}tensor<8x48x16x32xf32>
func.func @main(%x: tensor<8x64x64xf32>, %y: tensor<256x512xf32>, %z: tensor<32x32xf32>, %w: tensor<8x32x48x16xf32>) -> (tensor<f32>, tensor<512xf32>, tensor<f32>, tensor<8x32xf32>) {
  %0 = weft.transpose %x, [0, 2, 1] : tensor<8x64x64xf32>
  %1 = weft.reduce_sum %0, dims = [0, 1, 2] : tensor<8x64x64xf32>
  %2 = weft.transpose %y, [1, 0] : tensor<256x512xf32>
  %3 = weft.reduce_sum %2, dims = [1] : tensor<512x256xf32>
  %4 = weft.transpose %z, [1, 0] : tensor<32x32xf32>
  %5 = weft.reduce_sum %4, dims = [0, 1] : tensor<32x32xf32>
  %6 = weft.transpose %w, [0, 2, 3, 1] : tensor<8x32x48x16xf32>
  %7 = weft.reduce_sum %6, dims = [1, 2] : tensor<8x48x16x32xf32>
  return %1, %3, %5, %7 : tensor<f32>, tensor<512xf32>, tensor<f32>, tensor<8x32xf32>
}

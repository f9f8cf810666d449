// RUN: weft-opt %s --split-input-file --weft-fuse | FileCheck %s

// A write of few rows into what the program may overwrite is an index_put, which need not write the other rows.
// CHECK-LABEL: @row
// CHECK: weft.index_put %{{.*}}, %{{.*}}, %{{.*}}, dim = 0
// CHECK-NOT: weft.insert_slice
module @row {
func.func @main(%x: tensor<4000x64xf32> {weft.donatable}, %y: tensor<1x64xf32>) -> tensor<4000x64xf32> {
  %0 = weft.insert_slice %y into %x[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  return %0 : tensor<4000x64xf32>
}
}

// -----

// Along another dim, backwards.
// CHECK-LABEL: @columns
// CHECK: weft.index_put {{.*}}, dim = 1
module @columns {
func.func @main(%x: tensor<400x640xf32> {weft.donatable}, %y: tensor<400x10xf32>) -> tensor<400x640xf32> {
  %0 = weft.insert_slice %y into %x[[0, 83] : [1, -7]] : tensor<400x10xf32> into tensor<400x640xf32>
  return %0 : tensor<400x640xf32>
}
}

// -----

// What others may read, a large part, a part along two dims, what must be kept until the last check, an update that reads what it is written to, and
// writes one after the other, which are one kernel, stay.
// CHECK-LABEL: @others
// CHECK-NOT: weft.index_put
module @others {
func.func @main(%a: tensor<4000x64xf32>, %b: tensor<4000x64xf32> {weft.donatable}, %c: tensor<4000x64xf32> {weft.donatable}, %d: tensor<4000x64xf32> {weft.donatable, weft.kept}, %e: tensor<4000x64xf32> {weft.donatable}, %f: tensor<4000x64xf32> {weft.donatable}, %y: tensor<1x64xf32>, %z: tensor<2000x64xf32>, %w: tensor<2x2xf32>) -> (tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>) {
  %0 = weft.insert_slice %y into %a[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  %1 = weft.insert_slice %z into %b[[5, 0] : [1, 1]] : tensor<2000x64xf32> into tensor<4000x64xf32>
  %2 = weft.insert_slice %w into %c[[5, 3] : [1, 1]] : tensor<2x2xf32> into tensor<4000x64xf32>
  %3 = weft.insert_slice %y into %d[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  %4 = weft.slice %e[[5, 0] : [6, 64] : [1, 1]] : tensor<4000x64xf32>
  %5 = weft.add %4, %y : tensor<1x64xf32>
  %6 = weft.insert_slice %5 into %e[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  %7 = weft.insert_slice %y into %f[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  %8 = weft.insert_slice %y into %7[[6, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  return %0, %1, %2, %3, %6, %8 : tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<4000x64xf32>
}
}

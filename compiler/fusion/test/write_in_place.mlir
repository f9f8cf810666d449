// RUN: weft-opt %s --split-input-file --weft-fuse | FileCheck %s

// A write of few rows into what the program may overwrite is an index_put, which need not write the other rows.
// CHECK-LABEL: @row
// CHECK: weft.index_put %{{.*}}, %{{.*}}, %{{.*}}, dim = 0 {weft.in_range}
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
// CHECK: weft.constant dense<[83, 76, 69, 62, 55, 48, 41, 34, 27, 20]>
// CHECK: weft.index_put {{.*}}, dim = 1
module @columns {
func.func @main(%x: tensor<400x640xf32> {weft.donatable}, %y: tensor<400x10xf32>) -> tensor<400x640xf32> {
  %0 = weft.insert_slice %y into %x[[0, 83] : [1, -7]] : tensor<400x10xf32> into tensor<400x640xf32>
  return %0 : tensor<400x640xf32>
}
}

// -----

// Along two dims, which become one.
// CHECK-LABEL: @block
// CHECK: weft.constant dense<[323, 324, 387, 388]>
// CHECK: weft.index_put {{.*}}, dim = 0 {{.*}} : tensor<256000xf32>, tensor<4xi64>, tensor<4xf32>
module @block {
func.func @main(%x: tensor<4000x64xf32> {weft.donatable}, %y: tensor<2x2xf32>) -> tensor<4000x64xf32> {
  %0 = weft.insert_slice %y into %x[[5, 3] : [1, 1]] : tensor<2x2xf32> into tensor<4000x64xf32>
  return %0 : tensor<4000x64xf32>
}
}

// -----

// One that adds to what is there does not read it in the kernel that writes it; nor do several, one after the other, which are one kernel.
// CHECK-LABEL: @further
// CHECK: %[[A:.*]] = weft.fusion
// CHECK-NEXT: weft.slice
// CHECK-NEXT: weft.add
// CHECK-NEXT: weft.yield
// CHECK: weft.fusion
// CHECK-NEXT: weft.index_put
// CHECK-NEXT: weft.yield
// CHECK: weft.fusion
// CHECK-NEXT: weft.index_put
// CHECK-NEXT: weft.yield
module @further {
func.func @main(%x: tensor<4000x64xf32> {weft.donatable}, %y: tensor<1x64xf32>) -> tensor<4000x64xf32> {
  %0 = weft.slice %x[[5, 0] : [6, 64] : [1, 1]] : tensor<4000x64xf32>
  %1 = weft.add %0, %y : tensor<1x64xf32>
  %2 = weft.insert_slice %1 into %x[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  %3 = weft.insert_slice %y into %2[[6, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  return %3 : tensor<4000x64xf32>
}
}

// -----

// A part that is read beside two writes of one value is copied once, in a kernel of its own.
// CHECK-LABEL: @beside
// CHECK: %[[PART:.*]] = weft.fusion
// CHECK-NEXT: weft.index_select
// CHECK-NEXT: weft.yield
// CHECK-NEXT: }
// CHECK-NEXT: weft.fusion
// CHECK-NEXT: weft.index_put
// CHECK-NEXT: weft.yield
// CHECK-NEXT: }
// CHECK-NEXT: weft.fusion
// CHECK-NEXT: weft.index_add
// CHECK-NEXT: weft.yield
// CHECK-NEXT: }
// CHECK-NEXT: weft.fusion({{.*}} = %[[PART]]
// CHECK-NEXT: weft.exp
module @beside {
func.func @main(%x: tensor<4000x64xf32> {weft.donatable}, %i: tensor<7xi64>, %y: tensor<7x64xf32>) -> (tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<1x64xf32>) {
  %s = weft.slice %x[[5, 0] : [6, 64] : [1, 1]] : tensor<4000x64xf32>
  %0 = weft.index_put %x, %i, %y, dim = 0 {user = "write"} : tensor<4000x64xf32>, tensor<7xi64>, tensor<7x64xf32>
  %1 = weft.index_add %x, %i, %y, dim = 0 {user = "write"} : tensor<4000x64xf32>, tensor<7xi64>, tensor<7x64xf32>
  %2 = weft.exp %s : tensor<1x64xf32>
  return %0, %1, %2 : tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<1x64xf32>
}
}

// -----

// Of what must be kept until the last check a write is no check, and a check of indices that are there before it comes first.
// CHECK-LABEL: @kept
// CHECK: weft.index_put
// CHECK: %[[CHECKED:.*]] = weft.fusion(%{{.*}} = %arg2 : tensor<7xi32>) -> (tensor<7xi64>)
// CHECK-NEXT: weft.iota
// CHECK-NEXT: weft.index_select {{.*}}user = "weft.index_select"
// CHECK-NEXT: weft.yield
// CHECK: weft.fusion({{.*}} = %[[CHECKED]] : {{.*}}
// CHECK-NEXT: weft.index_select {{.*}}weft.in_range
module @kept {
func.func @main(%arg0: tensor<4000x64xf32> {weft.donatable, weft.kept}, %arg1: tensor<1x64xf32>, %arg2: tensor<7xi32>) -> (tensor<4000x64xf32>, tensor<7x64xf32>) {
  %0 = weft.insert_slice %arg1 into %arg0[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  %1 = weft.index_select %0, %arg2, dim = 0 : tensor<4000x64xf32>, tensor<7xi32>
  return %0, %1 : tensor<4000x64xf32>, tensor<7x64xf32>
}
}

// -----

// So does the check of a write at indices from data, once for two of them.
// CHECK-LABEL: @twice
// CHECK-COUNT-1: weft.index_select
// CHECK-NOT: weft.index_select
// CHECK: weft.index_add {{.*}}weft.in_range
// CHECK: weft.index_put {{.*}}weft.in_range
module @twice {
func.func @main(%x: tensor<4000x64xf32> {weft.donatable, weft.kept}, %z: tensor<4000x64xf32> {weft.donatable, weft.kept}, %y: tensor<7x64xf32>, %i: tensor<7xi64>) -> (tensor<4000x64xf32>, tensor<4000x64xf32>) {
  %0 = weft.index_add %x, %i, %y, dim = 0 {user = "write"} : tensor<4000x64xf32>, tensor<7xi64>, tensor<7x64xf32>
  %1 = weft.index_put %z, %i, %y, dim = 0 {user = "write"} : tensor<4000x64xf32>, tensor<7xi64>, tensor<7x64xf32>
  return %0, %1 : tensor<4000x64xf32>, tensor<4000x64xf32>
}
}

// -----

// Many writes one after the other are one kernel, wherever they go.
// CHECK-LABEL: @many
// CHECK-NOT: weft.insert_slice
module @many {
func.func @main(%x: tensor<100xf32>, %y: tensor<1xf32>) -> tensor<100xf32> {
  %0 = weft.insert_slice %y into %x[[0] : [1]] : tensor<1xf32> into tensor<100xf32>
  %1 = weft.insert_slice %y into %0[[1] : [1]] : tensor<1xf32> into tensor<100xf32>
  %2 = weft.insert_slice %y into %1[[2] : [1]] : tensor<1xf32> into tensor<100xf32>
  %3 = weft.insert_slice %y into %2[[3] : [1]] : tensor<1xf32> into tensor<100xf32>
  %4 = weft.insert_slice %y into %3[[4] : [1]] : tensor<1xf32> into tensor<100xf32>
  %5 = weft.insert_slice %y into %4[[5] : [1]] : tensor<1xf32> into tensor<100xf32>
  %6 = weft.insert_slice %y into %5[[6] : [1]] : tensor<1xf32> into tensor<100xf32>
  %7 = weft.insert_slice %y into %6[[7] : [1]] : tensor<1xf32> into tensor<100xf32>
  return %7 : tensor<100xf32>
}
}

// -----

// What others may read, a large part and few writes to a small tensor stay.
// CHECK-LABEL: @others
// CHECK-NOT: weft.index_put
module @others {
func.func @main(%a: tensor<4000x64xf32>, %b: tensor<4000x64xf32> {weft.donatable}, %c: tensor<100xf32> {weft.donatable}, %y: tensor<1x64xf32>, %z: tensor<2000x64xf32>, %w: tensor<1xf32>) -> (tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<100xf32>) {
  %0 = weft.insert_slice %y into %a[[5, 0] : [1, 1]] : tensor<1x64xf32> into tensor<4000x64xf32>
  %1 = weft.insert_slice %z into %b[[5, 0] : [1, 1]] : tensor<2000x64xf32> into tensor<4000x64xf32>
  %2 = weft.insert_slice %w into %c[[5] : [1]] : tensor<1xf32> into tensor<100xf32>
  %3 = weft.insert_slice %w into %2[[6] : [1]] : tensor<1xf32> into tensor<100xf32>
  return %0, %1, %3 : tensor<4000x64xf32>, tensor<4000x64xf32>, tensor<100xf32>
}
}

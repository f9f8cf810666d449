// RUN: weft-opt %s --weft-claim="composites report" --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t
// RUN: weft-opt %s --weft-decompose --split-input-file | FileCheck %s --check-prefix=PLAIN

// Any dim, any dtype; how many indices there are is said by the result.
// CHECK-LABEL: @claimed
// CHECK: weft.provider_call "weft.arg_sort"({{.*}} = %arg0 : tensor<4x9xbf16>) -> {{\(?}}tensor<4x9xi64>{{\)?}} config {dim = 0 : i64}
// CHECK: weft.provider_call "weft.arg_sort"({{.*}} = %arg0 : tensor<4x9xbf16>) -> {{\(?}}tensor<4x2xi64>{{\)?}} config {descending = 1 : i64, dim = 1 : i64}
// Without a provider each element is compared with each other.
// PLAIN-LABEL: @claimed
// PLAIN-NOT: weft.arg_sort
// PLAIN: weft.reduce_sum {{.*}} : tensor<9x4x4xf32>
// PLAIN: weft.scatter_add
// PLAIN: weft.reduce_sum {{.*}} : tensor<4x9x9xf32>
// PLAIN: weft.scatter_add
// PLAIN: weft.slice
module @claimed {
func.func @main(%x: tensor<4x9xbf16>) -> (tensor<4x9xi64>, tensor<4x2xi64>) {
  %0 = weft.arg_sort %x, dim = 0 : tensor<4x9xbf16>
  %1 = weft.arg_sort %x, dim = 1 {count = 2 : i64, descending = true} : tensor<4x9xbf16>
  return %0, %1 : tensor<4x9xi64>, tensor<4x2xi64>
}
}

// -----
// REPORT: refused 1 x empty: there is nothing to sort
// CHECK-LABEL: @empty
// CHECK-NOT: weft.provider_call
// PLAIN-LABEL: @empty
// PLAIN: weft.iota {dim = 0 : i64} : tensor<3x0xi64>
module @empty {
func.func @main(%x: tensor<3x5xf32>) -> tensor<3x0xi64> {
  %0 = weft.arg_sort %x, dim = 1 {count = 0 : i64} : tensor<3x5xf32>
  return %0 : tensor<3x0xi64>
}
}

// -----
// A few of many are looked for in blocks: 1000 elements in 8 blocks of 128, of which 24 are left.
// CHECK-LABEL: @blocks
// CHECK: weft.provider_call "weft.arg_sort"({{.*}} = %arg0 : tensor<1000xi32>) -> {{\(?}}tensor<3xi64>{{\)?}} config {dim = 0 : i64}
// PLAIN-LABEL: @blocks
// PLAIN: weft.concat
// PLAIN: weft.reduce_sum {{.*}} : tensor<8x128x128xf32>
// PLAIN: weft.gather {{.*}} : tensor<8x128xi32>, tensor<8x3xi64>
// PLAIN: weft.reduce_sum {{.*}} : tensor<24x24xf32>
// PLAIN: weft.gather {{.*}} : tensor<24xi64>, tensor<3xi64>
module @blocks {
func.func @main(%x: tensor<1000xi32>) -> tensor<3xi64> {
  %0 = weft.arg_sort %x, dim = 0 {count = 3 : i64} : tensor<1000xi32>
  return %0 : tensor<3xi64>
}
}

// -----
// Of what is read at some places alone, the call gives these.
// CHECK-LABEL: @places
// CHECK: %[[PLACES:.*]] = weft.provider_call "weft.arg_sort"({{.*}} = %arg0 : tensor<4x9xf32>) -> {{\(?}}tensor<4x2xi64>{{\)?}} config {dim = 1 : i64, first = 4 : i64}
// CHECK: return %[[PLACES]]
module @places {
func.func @main(%x: tensor<4x9xf32>) -> tensor<4x2xi64> {
  %0 = weft.arg_sort %x, dim = 1 {count = 6 : i64} : tensor<4x9xf32>
  %1 = weft.slice %0[[0, 4] : [4, 6] : [1, 1]] : tensor<4x6xi64>
  return %1 : tensor<4x2xi64>
}
}

// -----
// Rows of the order, and every second place, are read of all of it.
// CHECK-LABEL: @parts
// CHECK: %[[ALL:.*]] = weft.provider_call "weft.arg_sort"({{.*}}) -> {{\(?}}tensor<4x9xi64>{{\)?}} config {dim = 1 : i64}
// CHECK: weft.slice %[[ALL]]
// CHECK: weft.provider_call "weft.arg_sort"({{.*}}) -> {{\(?}}tensor<4x9xi64>{{\)?}} config {descending = 1 : i64, dim = 1 : i64}
module @parts {
func.func @main(%x: tensor<4x9xf32>) -> (tensor<2x9xi64>, tensor<4x4xi64>) {
  %0 = weft.arg_sort %x, dim = 1 : tensor<4x9xf32>
  %1 = weft.slice %0[[1, 0] : [3, 9] : [1, 1]] : tensor<4x9xi64>
  %2 = weft.arg_sort %x, dim = 1 {descending = true} : tensor<4x9xf32>
  %3 = weft.slice %2[[0, 0] : [4, 8] : [1, 2]] : tensor<4x9xi64>
  return %1, %3 : tensor<2x9xi64>, tensor<4x4xi64>
}
}

// RUN: not weft-opt %s --weft-claim --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=ERROR < %t

// Rows whose number varies, and few columns: a kernel's where the left side is large at each size, and the library's where it is at none.
// CHECK-LABEL: @large
// CHECK: weft.matmul %arg0
// CHECK-LABEL: @small
// CHECK: weft.provider_call "onednn.matmul"
module @large attributes {weft.sizes = {s0 = array<i64: 1024, 2048>}} {
func.func @main(%x: tensor<2048x256xf32, #weft.dims<s0, _>>, %w: tensor<256x4xf32>) -> tensor<2048x4xf32, #weft.dims<s0, _>> {
  %0 = weft.matmul %x, %w : tensor<2048x256xf32, #weft.dims<s0, _>>, tensor<256x4xf32>
  return %0 : tensor<2048x4xf32, #weft.dims<s0, _>>
}
}

// -----
module @small attributes {weft.sizes = {s0 = array<i64: 16, 512>}} {
func.func @main(%x: tensor<512x256xf32, #weft.dims<s0, _>>, %w: tensor<256x4xf32>) -> tensor<512x4xf32, #weft.dims<s0, _>> {
  %0 = weft.matmul %x, %w : tensor<512x256xf32, #weft.dims<s0, _>>, tensor<256x4xf32>
  return %0 : tensor<512x4xf32, #weft.dims<s0, _>>
}
}

// -----
// ERROR: 'weft.matmul' op a kernel is faster where the left side is large, and the smallest of the range is not
module @sometimes attributes {weft.sizes = {s0 = array<i64: 16, 2048>}} {
func.func @main(%x: tensor<2048x256xf32, #weft.dims<s0, _>>, %w: tensor<256x4xf32>) -> tensor<2048x4xf32, #weft.dims<s0, _>> {
  %0 = weft.matmul %x, %w : tensor<2048x256xf32, #weft.dims<s0, _>>, tensor<256x4xf32>
  return %0 : tensor<2048x4xf32, #weft.dims<s0, _>>
}
}

// RUN: not weft-opt %s --weft-claim --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=ERROR < %t

// A number of rows that varies, times a matrix of 8 bits: up to 32 are a kernel's, more the library's.
// CHECK-LABEL: @few
// CHECK: weft.matmul
// CHECK-NOT: weft.provider_call
module @few attributes {weft.sizes = {s0 = array<i64: 2, 32>}} {
func.func @main(%x: tensor<32x64xf32, #weft.dims<s0, _>>, %q: tensor<128x64xi8>) -> tensor<32x128xf32, #weft.dims<s0, _>> {
  %0 = weft.cast %q : tensor<128x64xi8> to tensor<128x64xf32>
  %1 = weft.matmul %x, %0 {transpose_rhs = true} : tensor<32x64xf32, #weft.dims<s0, _>>, tensor<128x64xf32>
  return %1 : tensor<32x128xf32, #weft.dims<s0, _>>
}
}

// -----
// CHECK-LABEL: @many
// CHECK: weft.provider_call "onednn.matmul"
module @many attributes {weft.sizes = {s0 = array<i64: 33, 64>}} {
func.func @main(%x: tensor<64x64xf32, #weft.dims<s0, _>>, %q: tensor<128x64xi8>) -> tensor<64x128xf32, #weft.dims<s0, _>> {
  %0 = weft.cast %q : tensor<128x64xi8> to tensor<128x64xf32>
  %1 = weft.matmul %x, %0 {transpose_rhs = true} : tensor<64x64xf32, #weft.dims<s0, _>>, tensor<128x64xf32>
  return %1 : tensor<64x128xf32, #weft.dims<s0, _>>
}
}

// -----
// Some of either have no program for all: the bits would depend on the size.
// ERROR: weft.matmul: a kernel of ours multiplies few rows with a narrow matrix, and the range has more
module @sometimes attributes {weft.sizes = {s0 = array<i64: 2, 64>}} {
func.func @main(%x: tensor<64x64xf32, #weft.dims<s0, _>>, %q: tensor<128x64xi8>) -> tensor<64x128xf32, #weft.dims<s0, _>> {
  %0 = weft.cast %q : tensor<128x64xi8> to tensor<128x64xf32>
  %1 = weft.matmul %x, %0 {transpose_rhs = true} : tensor<64x64xf32, #weft.dims<s0, _>>, tensor<128x64xf32>
  return %1 : tensor<64x128xf32, #weft.dims<s0, _>>
}
}

// RUN: not weft-opt %s --weft-claim="composites report" --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=ERROR < %t

// A batch whose size varies: claimed where the smallest one is large enough (two images of 8 x 8 take 73,728 multiplications).
// CHECK-LABEL: @always
// CHECK: weft.provider_call "onednn.convolution"({{.*}} = %arg0
// CHECK-LABEL: @never
// CHECK-NOT: weft.provider_call
module @always attributes {weft.sizes = {s0 = array<i64: 2, 8>}} {
func.func @main(%x: tensor<8x8x8x8xf32, #weft.dims<s0, _, _, _>>, %w: tensor<8x8x3x3xf32>) -> tensor<8x8x8x8xf32, #weft.dims<s0, _, _, _>> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<8x8x8x8xf32, #weft.dims<s0, _, _, _>>, tensor<8x8x3x3xf32>
  return %0 : tensor<8x8x8x8xf32, #weft.dims<s0, _, _, _>>
}
}

// -----
// One that is too small at the largest size stays, as in static programs.
module @never attributes {weft.sizes = {s0 = array<i64: 2, 8>}} {
func.func @main(%x: tensor<8x1x4x4xf32, #weft.dims<s0, _, _, _>>, %w: tensor<1x1x3x3xf32>) -> tensor<8x1x4x4xf32, #weft.dims<s0, _, _, _>> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<8x1x4x4xf32, #weft.dims<s0, _, _, _>>, tensor<1x1x3x3xf32>
  return %0 : tensor<8x1x4x4xf32, #weft.dims<s0, _, _, _>>
}
}

// -----
// One that the library would take at 8 images (73,728), and not at 2 (18,432), has no program for both: its bits would depend on the size.
// ERROR: weft.conv2d: the library takes problems of larger sizes only, and the smallest of the range is none
module @sometimes attributes {weft.sizes = {s0 = array<i64: 2, 8>}} {
func.func @main(%x: tensor<8x8x4x4xf32, #weft.dims<s0, _, _, _>>, %w: tensor<8x8x3x3xf32>) -> tensor<8x8x4x4xf32, #weft.dims<s0, _, _, _>> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<8x8x4x4xf32, #weft.dims<s0, _, _, _>>, tensor<8x8x3x3xf32>
  return %0 : tensor<8x8x4x4xf32, #weft.dims<s0, _, _, _>>
}
}

// -----
// The derivative of attention: eight matrices or more at the smallest size have one kernel for all.
// CHECK-LABEL: @attention_always
// CHECK: weft.attention_gradient {{.*}}weft.whole
module @attention_always attributes {weft.sizes = {s0 = array<i64: 2, 32>}} {
func.func @main(%h: tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, %l: tensor<32x4x64xf32, #weft.dims<s0, _, _>>) -> tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>> {
  %a, %b, %c = weft.attention_gradient %h, %h, %h result %h, %l gradient %h {scale = 0.5 : f64} : (tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64xf32, #weft.dims<s0, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>) -> (tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>)
  return %a : tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>
}
}

// -----
// ERROR: weft.attention_gradient: the kernel of attention's derivative cuts its sums where the matrices are few
module @attention_sometimes attributes {weft.sizes = {s0 = array<i64: 1, 32>}} {
func.func @main(%h: tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, %l: tensor<32x4x64xf32, #weft.dims<s0, _, _>>) -> tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>> {
  %a, %b, %c = weft.attention_gradient %h, %h, %h result %h, %l gradient %h {scale = 0.5 : f64} : (tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64xf32, #weft.dims<s0, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>) -> (tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>)
  return %a : tensor<32x4x64x8xf32, #weft.dims<s0, _, _, _>>
}
}

// -----
// Pixels that the library can count at the smallest size alone.
// ERROR: weft.conv2d: the library counts in 32 bits, and the largest problem of the range is too large for it
module @too_large_sometimes attributes {weft.sizes = {s0 = array<i64: 2, 8589934592>}} {
func.func @main(%x: tensor<8589934592x8x8x8xf32, #weft.dims<s0, _, _, _>>, %w: tensor<8x8x3x3xf32>) -> tensor<8589934592x8x8x8xf32, #weft.dims<s0, _, _, _>> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<8589934592x8x8x8xf32, #weft.dims<s0, _, _, _>>, tensor<8x8x3x3xf32>
  return %0 : tensor<8589934592x8x8x8xf32, #weft.dims<s0, _, _, _>>
}
}

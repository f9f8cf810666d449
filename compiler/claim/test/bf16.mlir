// RUN: weft-opt %s --weft-claim --split-input-file | FileCheck %s
// RUN: weft-opt %s --weft-claim=composites --split-input-file | FileCheck %s --check-prefix=CONV

// Products of bf16 numbers, as weft-widen leaves them: conversions, also around a transpose, and the
// rounding are part of the call, a bias stays float32. A conversion that others read stays for them.
// CHECK-LABEL: @product
// CHECK: weft.provider_call "onednn.matmul"({{.*}} : tensor<64x48xbf16>, {{.*}} : tensor<32x48xbf16>, {{.*}} : tensor<32xf32>) -> {{\(?}}tensor<64x32xbf16>{{\)?}}
// CHECK-SAME: config {bias = 1 : i64, transpose_rhs = 1 : i64}
// CHECK: weft.provider_call "onednn.matmul"({{.*}} : tensor<64x48xbf16>, {{.*}} : tensor<64x32xbf16>) -> {{\(?}}tensor<48x32xf32>{{\)?}}
// CHECK-SAME: config {lhs_permutation = array<i64: 1, 0>}
module @product {
func.func @main(%x: tensor<64x48xbf16>, %w: tensor<32x48xbf16>, %b: tensor<32xf32>) -> (tensor<64x32xbf16>, tensor<48x32xf32>, tensor<64x48xf32>) {
  %0 = weft.cast %x : tensor<64x48xbf16> to tensor<64x48xf32>
  %1 = weft.cast %w : tensor<32x48xbf16> to tensor<32x48xf32>
  %2 = weft.matmul %0, %1 {transpose_rhs = true} : tensor<64x48xf32>, tensor<32x48xf32>
  %3 = weft.broadcast %b : tensor<32xf32> to tensor<64x32xf32>
  %4 = weft.add %2, %3 : tensor<64x32xf32>
  %5 = weft.cast %4 : tensor<64x32xf32> to tensor<64x32xbf16>
  %6 = weft.transpose %0, [1, 0] : tensor<64x48xf32>
  %7 = weft.cast %5 : tensor<64x32xbf16> to tensor<64x32xf32>
  %8 = weft.matmul %6, %7 : tensor<48x64xf32>, tensor<64x32xf32>
  %9 = weft.exp %0 : tensor<64x48xf32>
  return %5, %8, %9 : tensor<64x32xbf16>, tensor<48x32xf32>, tensor<64x48xf32>
}
}

// -----
// One narrow factor is none: the product is of float32 numbers.
// CHECK-LABEL: @one_factor
// CHECK: weft.provider_call "onednn.matmul"({{.*}} : tensor<64x48xf32>, {{.*}} : tensor<48x32xf32>) -> {{\(?}}tensor<64x32xf32>{{\)?}}
module @one_factor {
func.func @main(%x: tensor<64x48xbf16>, %w: tensor<48x32xf32>) -> tensor<64x32xbf16> {
  %0 = weft.cast %x : tensor<64x48xbf16> to tensor<64x48xf32>
  %1 = weft.matmul %0, %w : tensor<64x48xf32>, tensor<48x32xf32>
  %2 = weft.cast %1 : tensor<64x32xf32> to tensor<64x32xbf16>
  return %2 : tensor<64x32xbf16>
}
}

// -----
// Convolutions alike; a weight's gradient, which is added up in parts, stays float32.
// CONV-LABEL: @convolutions
// CONV: weft.provider_call "onednn.convolution"({{.*}} : tensor<2x8x9x9xbf16>, {{.*}} : tensor<16x8x3x3xbf16>) -> {{\(?}}tensor<2x16x9x9xbf16>{{\)?}}
// CONV-SAME: kind = "forward"
// CONV: weft.provider_call "onednn.convolution"({{.*}} : tensor<2x16x9x9xbf16>, {{.*}} : tensor<16x8x3x3xbf16>) -> {{\(?}}tensor<2x8x9x9xbf16>{{\)?}}
// CONV-SAME: kind = "input_gradient"
// CONV: weft.provider_call "onednn.convolution"({{.*}} : tensor<2x8x9x9xbf16>, {{.*}} : tensor<2x16x9x9xbf16>) -> {{\(?}}tensor<16x8x3x3xf32>{{\)?}}
// CONV-SAME: kind = "weight_gradient"
// CONV: weft.cast {{.*}} : tensor<16x8x3x3xf32> to tensor<16x8x3x3xbf16>
module @convolutions {
func.func @main(%x: tensor<2x8x9x9xbf16>, %w: tensor<16x8x3x3xbf16>, %g: tensor<2x16x9x9xbf16>)
    -> (tensor<2x16x9x9xbf16>, tensor<2x8x9x9xbf16>, tensor<16x8x3x3xbf16>) {
  %0 = weft.cast %x : tensor<2x8x9x9xbf16> to tensor<2x8x9x9xf32>
  %1 = weft.cast %w : tensor<16x8x3x3xbf16> to tensor<16x8x3x3xf32>
  %2 = weft.cast %g : tensor<2x16x9x9xbf16> to tensor<2x16x9x9xf32>
  %3 = weft.conv2d %0, %1 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>
  %4 = weft.cast %3 : tensor<2x16x9x9xf32> to tensor<2x16x9x9xbf16>
  %5 = weft.conv2d_input_gradient %2, %1 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x9x9xf32>, tensor<16x8x3x3xf32>) -> tensor<2x8x9x9xf32>
  %6 = weft.cast %5 : tensor<2x8x9x9xf32> to tensor<2x8x9x9xbf16>
  %7 = weft.conv2d_weight_gradient %0, %2 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x9x9xf32>, tensor<2x16x9x9xf32>) -> tensor<16x8x3x3xf32>
  %8 = weft.cast %7 : tensor<16x8x3x3xf32> to tensor<16x8x3x3xbf16>
  return %4, %6, %8 : tensor<2x16x9x9xbf16>, tensor<2x8x9x9xbf16>, tensor<16x8x3x3xbf16>
}
}

// RUN: weft-opt %s --weft-claim=report --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t

// Transposes of operands and of the result are read and written through strides; the bias goes in.
// CHECK-LABEL: @attention_scores
// CHECK: weft.provider_call "onednn.matmul"({{.*}} = %arg0 : tensor<2x16x4x32xf32>, {{.*}} = %arg1 : tensor<2x16x4x32xf32>) -> {{\(?}}tensor<2x4x16x16xf32>{{\)?}}
// CHECK-SAME: config {lhs_permutation = array<i64: 0, 2, 1, 3>, rhs_permutation = array<i64: 0, 2, 1, 3>, transpose_rhs = 1 : i64}
// CHECK: weft.matmul
// CHECK-NOT: weft.transpose {{.*}}%arg0
module @attention_scores {
func.func @main(%q: tensor<2x16x4x32xf32>, %k: tensor<2x16x4x32xf32>) -> tensor<2x4x16x16xf32> {
  %0 = weft.transpose %q, [0, 2, 1, 3] : tensor<2x16x4x32xf32>
  %1 = weft.transpose %k, [0, 2, 1, 3] : tensor<2x16x4x32xf32>
  %2 = weft.matmul %0, %1 {transpose_rhs = true} : tensor<2x4x16x32xf32>, tensor<2x4x16x32xf32>
  return %2 : tensor<2x4x16x16xf32>
}
}

// -----
// CHECK-LABEL: @result_and_bias
// CHECK: weft.provider_call "onednn.matmul"
// CHECK-SAME: config {bias = 1 : i64, transpose_rhs = 1 : i64}
// CHECK: weft.provider_call "onednn.matmul"
// CHECK-SAME: config {out_permutation = array<i64: 0, 2, 1, 3>}
module @result_and_bias {
func.func @main(%x: tensor<64x32xf32>, %w: tensor<48x32xf32>, %b: tensor<48xf32>, %p: tensor<2x4x16x16xf32>,
                %v: tensor<2x4x16x32xf32>) -> (tensor<64x48xf32>, tensor<2x16x4x32xf32>) {
  %0 = weft.matmul %x, %w {transpose_rhs = true} : tensor<64x32xf32>, tensor<48x32xf32>
  %1 = weft.broadcast %b : tensor<48xf32> to tensor<64x48xf32>
  %2 = weft.add %0, %1 : tensor<64x48xf32>
  %3 = weft.matmul %p, %v : tensor<2x4x16x16xf32>, tensor<2x4x16x32xf32>
  %4 = weft.transpose %3, [0, 2, 1, 3] : tensor<2x4x16x32xf32>
  return %2, %4 : tensor<64x48xf32>, tensor<2x16x4x32xf32>
}
}

// -----
// What stays: other dtypes, small products, activations that conformance forbids, operands that would be read element by element.
// CHECK-LABEL: @refused
// CHECK: weft.matmul %arg0, %arg0 : tensor<64x64xf64>
// CHECK: weft.matmul %arg1, %arg1 : tensor<4x4xf32>
// CHECK: weft.provider_call
// CHECK: weft.relu
// CHECK: weft.transpose %arg3, [2, 1, 0]
// CHECK: weft.provider_call
// REPORT-DAG: claim: refused 1 x dtype: oneDNN's matmul is claimed for float32 only (first: weft.matmul at {{.*}})
// REPORT-DAG: claim: refused 1 x too-small
// REPORT-DAG: claim: refused 1 x relu-drops-nan: oneDNN's ReLU turns NaN into 0; it stays a kernel of ours (first: weft.relu at {{.*}})
// REPORT-DAG: claim: refused 2 x strided-operand
module @refused {
func.func @main(%a: tensor<64x64xf64>, %b: tensor<4x4xf32>, %c: tensor<64x64xf32>, %d: tensor<32x32x8xf32>)
    -> (tensor<64x64xf64>, tensor<4x4xf32>, tensor<64x64xf32>, tensor<8x32x32xf32>) {
  %0 = weft.matmul %a, %a : tensor<64x64xf64>, tensor<64x64xf64>
  %1 = weft.matmul %b, %b : tensor<4x4xf32>, tensor<4x4xf32>
  %2 = weft.matmul %c, %c : tensor<64x64xf32>, tensor<64x64xf32>
  %3 = weft.relu %2 : tensor<64x64xf32>
  %4 = weft.transpose %d, [2, 1, 0] : tensor<32x32x8xf32>
  %5 = weft.matmul %4, %4 : tensor<8x32x32xf32>, tensor<8x32x32xf32>
  return %0, %1, %3, %5 : tensor<64x64xf64>, tensor<4x4xf32>, tensor<64x64xf32>, tensor<8x32x32xf32>
}
}

// -----
// A term of a small product's shape that lies in memory, as steps of a sequence do, is added by the call; one that a kernel computes is
// added by that kernel, and so is any term of a large product.
// CHECK-LABEL: @term
// CHECK: weft.provider_call "onednn.matmul"({{.*}} = %arg0 : tensor<16x64xf32>, {{.*}} = %arg1 : tensor<64x128xf32>, {{.*}} = %{{.*}} : tensor<16x128xf32>)
// CHECK-SAME: config {post_ops = "add"}
// CHECK: weft.provider_call "onednn.matmul"({{.*}} = %arg0 : tensor<16x64xf32>, {{.*}} = %arg1 : tensor<64x128xf32>) -> {{\(?}}tensor<16x128xf32>{{\)?}} config {}
// CHECK: weft.provider_call "onednn.matmul"({{.*}} = %arg4 : tensor<256x64xf32>, {{.*}} = %arg1 : tensor<64x128xf32>) -> {{\(?}}tensor<256x128xf32>{{\)?}} config {}
module @term {
func.func @main(%h: tensor<16x64xf32>, %w: tensor<64x128xf32>, %xs: tensor<8x16x128xf32>, %y: tensor<16x128xf32>, %big: tensor<256x64xf32>,
                %z: tensor<256x128xf32>) -> (tensor<16x128xf32>, tensor<16x128xf32>, tensor<256x128xf32>) {
  %0 = weft.slice %xs[[3, 0, 0] : [4, 16, 128] : [1, 1, 1]] : tensor<8x16x128xf32>
  %1 = weft.reshape %0 : tensor<1x16x128xf32> to tensor<16x128xf32>
  %2 = weft.matmul %h, %w : tensor<16x64xf32>, tensor<64x128xf32>
  %3 = weft.add %1, %2 : tensor<16x128xf32>
  %4 = weft.exp %y : tensor<16x128xf32>
  %5 = weft.matmul %h, %w : tensor<16x64xf32>, tensor<64x128xf32>
  %6 = weft.add %5, %4 : tensor<16x128xf32>
  %7 = weft.matmul %big, %w : tensor<256x64xf32>, tensor<64x128xf32>
  %8 = weft.add %7, %z : tensor<256x128xf32>
  return %3, %6, %8 : tensor<16x128xf32>, tensor<16x128xf32>, tensor<256x128xf32>
}
}

// -----
// A product of few rows with a matrix of 8 bits is left to a kernel that converts it; of more rows, the library reads float32.
// CHECK-LABEL: @narrow
// CHECK: weft.matmul %arg0
// CHECK: weft.provider_call "onednn.matmul"
// REPORT-DAG: claim: refused 1 x narrow-matrix: of few rows, a kernel of ours reads the matrix in the bits that it is stored in
module @narrow {
func.func @main(%x: tensor<32x64xf32>, %y: tensor<33x64xf32>, %q: tensor<128x64xi8>) -> (tensor<32x128xf32>, tensor<33x128xf32>) {
  %0 = weft.cast %q : tensor<128x64xi8> to tensor<128x64xf32>
  %1 = weft.matmul %x, %0 {transpose_rhs = true} : tensor<32x64xf32>, tensor<128x64xf32>
  %2 = weft.matmul %y, %0 {transpose_rhs = true} : tensor<33x64xf32>, tensor<128x64xf32>
  return %1, %2 : tensor<32x128xf32>, tensor<33x128xf32>
}
}

// -----
// More rows than the library can count.
// CHECK-LABEL: @too_large
// CHECK-NOT: weft.provider_call
// REPORT-DAG: claim: refused 1 x too-large: oneDNN counts in 32 bits
module @too_large {
func.func @main(%a: tensor<8589934592x4xf32>, %b: tensor<4x4xf32>) -> tensor<8589934592x4xf32> {
  %0 = weft.matmul %a, %b : tensor<8589934592x4xf32>, tensor<4x4xf32>
  return %0 : tensor<8589934592x4xf32>
}
}

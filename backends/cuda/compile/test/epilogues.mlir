// What the library does to a product as it writes it: a bias goes in, in the result's dtype; ReLU drops NaN there, and goes in with fast math alone.
// RUN: weft-opt %s --backend=cuda --weft-claim=report --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t
// RUN: weft-opt %s --backend=cuda --weft-claim=fast-math --split-input-file | FileCheck %s --check-prefix=FAST

// However it is broadcast, and over whatever batch.
// CHECK-LABEL: @bias
// CHECK: weft.provider_call "cublaslt.matmul"({{.*}} : tensor<64x32xf32>, {{.*}} : tensor<48x32xf32>, {{.*}} = %arg2 : tensor<48xf32>) -> {{\(?}}tensor<64x48xf32>{{\)?}}
// CHECK-SAME: config {bias = 1 : i64, transpose_rhs = 1 : i64}
// CHECK: weft.provider_call "cublaslt.matmul"({{.*}} : tensor<4x16x32xf64>, {{.*}} : tensor<32x48xf64>, {{.*}} : tensor<1x48xf64>) -> {{\(?}}tensor<4x16x48xf64>{{\)?}}
// CHECK-SAME: config {bias = 1 : i64}
module @bias {
func.func @main(%x: tensor<64x32xf32>, %w: tensor<48x32xf32>, %b: tensor<48xf32>, %y: tensor<4x16x32xf64>, %v: tensor<32x48xf64>, %c: tensor<1x48xf64>)
    -> (tensor<64x48xf32>, tensor<4x16x48xf64>) {
  %0 = weft.matmul %x, %w {transpose_rhs = true} : tensor<64x32xf32>, tensor<48x32xf32>
  %1 = weft.broadcast %b : tensor<48xf32> to tensor<64x48xf32>
  %2 = weft.add %1, %0 : tensor<64x48xf32>
  %3 = weft.matmul %y, %v : tensor<4x16x32xf64>, tensor<32x48xf64>
  %4 = weft.broadcast %c : tensor<1x48xf64> to tensor<4x16x48xf64>
  %5 = weft.add %3, %4 : tensor<4x16x48xf64>
  return %2, %5 : tensor<64x48xf32>, tensor<4x16x48xf64>
}
}

// -----
// A number for each row, a matrix, and a bias beside which the product is read are no such thing.
// CHECK-LABEL: @no_bias
// CHECK-NOT: bias = 1
module @no_bias {
func.func @main(%x: tensor<64x64xf32>, %b: tensor<64x1xf32>, %c: tensor<64xf32>)
    -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = weft.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32>
  %1 = weft.broadcast %b : tensor<64x1xf32> to tensor<64x64xf32>
  %2 = weft.add %0, %1 : tensor<64x64xf32>
  %3 = weft.matmul %x, %x {transpose_lhs = true} : tensor<64x64xf32>, tensor<64x64xf32>
  %4 = weft.add %3, %x : tensor<64x64xf32>
  %5 = weft.matmul %x, %x {transpose_rhs = true} : tensor<64x64xf32>, tensor<64x64xf32>
  %6 = weft.broadcast %c : tensor<64xf32> to tensor<64x64xf32>
  %7 = weft.add %5, %6 : tensor<64x64xf32>
  return %2, %4, %5, %7 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
}

// -----
// Of 16-bit numbers the bias is one as well where the result is; else both are float32. What was rounded before is not added to.
// CHECK-LABEL: @narrow
// CHECK: weft.provider_call "cublaslt.matmul"({{.*}} : tensor<64x32xbf16>, {{.*}} : tensor<32x48xbf16>, {{.*}} = %arg2 : tensor<48xbf16>) -> {{\(?}}tensor<64x48xbf16>{{\)?}}
// CHECK-SAME: config {bias = 1 : i64}
// CHECK: weft.provider_call "cublaslt.matmul"({{.*}} : tensor<64x32xbf16>, {{.*}} : tensor<32x48xbf16>, {{.*}} = %arg3 : tensor<48xf32>) -> {{\(?}}tensor<64x48xf32>{{\)?}}
// CHECK-SAME: config {bias = 1 : i64}
// CHECK: weft.provider_call "cublaslt.matmul"({{.*}} : tensor<64x32xbf16>, {{.*}} : tensor<32x48xbf16>) -> {{\(?}}tensor<64x48xbf16>{{\)?}}
// CHECK-SAME: config {}
// REPORT-DAG: claim: refused 1 x wide-bias: cuBLASLt adds a bias of its result's dtype; what is added in float32 is rounded by a kernel (first: weft.cast at {{.*}})
module @narrow {
func.func @main(%x: tensor<64x32xbf16>, %w: tensor<32x48xbf16>, %b: tensor<48xbf16>, %c: tensor<48xf32>)
    -> (tensor<64x48xbf16>, tensor<64x48xbf16>, tensor<64x48xf32>) {
  %0 = weft.cast %x : tensor<64x32xbf16> to tensor<64x32xf32>
  %1 = weft.cast %w : tensor<32x48xbf16> to tensor<32x48xf32>
  %2 = weft.matmul %0, %1 : tensor<64x32xf32>, tensor<32x48xf32>
  %3 = weft.cast %b : tensor<48xbf16> to tensor<48xf32>
  %4 = weft.broadcast %3 : tensor<48xf32> to tensor<64x48xf32>
  %5 = weft.add %2, %4 : tensor<64x48xf32>
  %6 = weft.cast %5 : tensor<64x48xf32> to tensor<64x48xbf16>
  %7 = weft.matmul %0, %1 : tensor<64x32xf32>, tensor<32x48xf32>
  %8 = weft.broadcast %c : tensor<48xf32> to tensor<64x48xf32>
  %9 = weft.add %7, %8 : tensor<64x48xf32>
  %10 = weft.cast %9 : tensor<64x48xf32> to tensor<64x48xbf16>
  %11 = weft.matmul %0, %1 : tensor<64x32xf32>, tensor<32x48xf32>
  %12 = weft.cast %11 : tensor<64x48xf32> to tensor<64x48xbf16>
  %13 = weft.cast %12 : tensor<64x48xbf16> to tensor<64x48xf32>
  %14 = weft.add %13, %4 : tensor<64x48xf32>
  return %6, %10, %14 : tensor<64x48xbf16>, tensor<64x48xbf16>, tensor<64x48xf32>
}
}

// -----
// Before the rounding and behind it ReLU is the same.
// CHECK-LABEL: @activations
// CHECK-NOT: post_ops
// REPORT-DAG: claim: refused 2 x relu-drops-nan: cuBLASLt's ReLU turns NaN into 0; it stays a kernel of ours (first: weft.relu at {{.*}})
// REPORT-DAG: claim: refused 1 x gelu-inexact: cuBLASLt's GELU is a tanh approximation without an error bound; it stays a kernel of ours (first: weft.gelu at {{.*}})
// FAST-LABEL: @activations
// FAST: weft.provider_call "cublaslt.matmul"({{.*}} : tensor<64x32xbf16>, {{.*}} : tensor<32x48xbf16>, {{.*}} : tensor<48xbf16>) -> {{\(?}}tensor<64x48xbf16>{{\)?}}
// FAST-SAME: config {bias = 1 : i64, post_ops = "relu"}
// FAST: weft.provider_call "cublaslt.matmul"
// FAST-SAME: config {post_ops = "relu"}
// FAST: weft.provider_call "cublaslt.matmul"
// FAST-SAME: config {}
// FAST: weft.gelu
module @activations {
func.func @main(%x: tensor<64x32xbf16>, %w: tensor<32x48xbf16>, %b: tensor<48xbf16>, %y: tensor<64x64xf32>)
    -> (tensor<64x48xbf16>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = weft.cast %x : tensor<64x32xbf16> to tensor<64x32xf32>
  %1 = weft.cast %w : tensor<32x48xbf16> to tensor<32x48xf32>
  %2 = weft.matmul %0, %1 : tensor<64x32xf32>, tensor<32x48xf32>
  %3 = weft.cast %b : tensor<48xbf16> to tensor<48xf32>
  %4 = weft.broadcast %3 : tensor<48xf32> to tensor<64x48xf32>
  %5 = weft.add %2, %4 : tensor<64x48xf32>
  %6 = weft.cast %5 : tensor<64x48xf32> to tensor<64x48xbf16>
  %7 = weft.relu %6 : tensor<64x48xbf16>
  %8 = weft.matmul %y, %y : tensor<64x64xf32>, tensor<64x64xf32>
  %9 = weft.relu %8 : tensor<64x64xf32>
  %10 = weft.matmul %y, %9 : tensor<64x64xf32>, tensor<64x64xf32>
  %11 = weft.gelu %10 {tanh_approximation = true} : tensor<64x64xf32>
  return %7, %9, %11 : tensor<64x48xbf16>, tensor<64x64xf32>, tensor<64x64xf32>
}
}

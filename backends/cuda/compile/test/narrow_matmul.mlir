// Products of 16-bit numbers are the library's, with their conversions and the transposes of factors; a result that is not rounded stays float32, and what is widened to float64 is multiplied there.
// RUN: weft-compile %s --target=cuda:sm_90 --emit=plan -o - | FileCheck %s

// CHECK: plan.library_call "cublaslt.matmul"
// CHECK-SAME: as [tensor<64x128xbf16>, tensor<256x128xbf16>, tensor<64x256xbf16>] config {transpose_rhs = 1 : i64}
// CHECK: plan.library_call "cublaslt.matmul"
// CHECK-SAME: as [tensor<64x256xf16>, tensor<256x32xf16>, tensor<64x32xf32>]
// CHECK: plan.launch
// CHECK: plan.library_call "cublaslt.matmul"
// CHECK-SAME: as [tensor<64x32xf64>, tensor<32x64xf64>, tensor<64x64xf64>]
func.func @main(%x: tensor<64x128xbf16>, %w: tensor<256x128xbf16>, %v: tensor<256x32xf16>, %u: tensor<64x256xf16>, %a: tensor<64x32xbf16>, %b: tensor<32x64xbf16>) -> (tensor<64x256xbf16>, tensor<64x32xf32>, tensor<64x64xbf16>) {
  %t = weft.transpose %w, [1, 0] : tensor<256x128xbf16>
  %0 = weft.matmul %x, %t : tensor<64x128xbf16>, tensor<128x256xbf16>
  %1 = weft.cast %u : tensor<64x256xf16> to tensor<64x256xf32>
  %2 = weft.cast %v : tensor<256x32xf16> to tensor<256x32xf32>
  %3 = weft.matmul %1, %2 : tensor<64x256xf32>, tensor<256x32xf32>
  %4 = weft.cast %a : tensor<64x32xbf16> to tensor<64x32xf64>
  %5 = weft.cast %b : tensor<32x64xbf16> to tensor<32x64xf64>
  %6 = weft.matmul %4, %5 : tensor<64x32xf64>, tensor<32x64xf64>
  %7 = weft.cast %6 : tensor<64x64xf64> to tensor<64x64xbf16>
  return %0, %3, %7 : tensor<64x256xbf16>, tensor<64x32xf32>, tensor<64x64xbf16>
}

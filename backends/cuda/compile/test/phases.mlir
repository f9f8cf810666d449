// weft-opt runs the backend's own phases, with its providers.
// RUN: weft-opt %s --weft-phase=..plan --backend=cuda | FileCheck %s

// CHECK: plan.kernel @k0_tanh_exp
// CHECK: plan.library_call "cublaslt.matmul"
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = weft.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32>
  %1 = weft.tanh %0 : tensor<64x64xf32>
  %2 = weft.exp %1 : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

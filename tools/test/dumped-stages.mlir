// What is dumped of a kernel is read again, whatever its stage.
// RUN: weft-run --backend=reference --output %t.npy %s
// RUN: sed -e 's/@main(/@unused(/' -e 's/@activate/@main/' %s > %t.mlir
// RUN: rm -rf %t && env WEFT_DUMP_DIR=%t weft-run --input %t.npy %t.mlir
// RUN: weft-opt %t/kernels/k0_tanh_neg.mlir | FileCheck %s --check-prefix=FUSED
// RUN: weft-opt %t/kernels/k0_tanh_neg.linalg.mlir | FileCheck %s --check-prefix=LINALG
// RUN: weft-opt %t/kernels/k0_tanh_neg.loops.mlir | FileCheck %s --check-prefix=LOOPS
// RUN: weft-opt %t/kernels/k0_tanh_neg.math.mlir | FileCheck %s --check-prefix=MATH
// RUN: weft-opt %t/kernels/k0_tanh_neg.llvm.mlir | FileCheck %s --check-prefix=LLVM

// FUSED: plan.kernel @k0_tanh_neg
// LINALG: linalg.generic
// LOOPS: math.tanh
// MATH-NOT: math.tanh
// LLVM: llvm.func
func.func @main() -> tensor<64x64xf32> {
  %0 = weft.constant dense<0.5> : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
func.func @activate(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = weft.tanh %x : tensor<64x64xf32>
  %1 = weft.neg %0 : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

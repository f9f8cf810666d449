// The phases are those of a backend, with its providers and its target.
// RUN: weft-opt %s --weft-phase=..claim | FileCheck %s --check-prefix=BF16
// RUN: weft-opt %s --weft-phase=..claim --mcpu=x86-64-v3 | FileCheck %s --check-prefix=V3
// RUN: weft-opt %s --weft-phase=..fuse --backend=cpu-unfused | FileCheck %s --check-prefix=UNFUSED
// RUN: not weft-opt %s --backend=reference 2>&1 | FileCheck %s --check-prefix=REFERENCE
// RUN: not weft-opt %s --backend=nothing 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not weft-opt %s --mcpu=nothing 2>&1 | FileCheck %s --check-prefix=PROCESSOR

// On a processor that multiplies bf16 numbers the call takes the conversions in.
// BF16: "onednn.matmul"({{.*}}xbf16>, {{.*}}xbf16>)
// V3: "onednn.matmul"({{.*}}xf32>, {{.*}}xf32>)
// UNFUSED-COUNT-2: = weft.fusion
// REFERENCE: weft-opt: --backend=reference: the backend 'reference' does not compile by Weft's phases
// NOTHING: weft-opt: --backend=nothing: no backend named 'nothing'; known:
// PROCESSOR: weft-opt: --backend=cpu: unknown CPU 'nothing'
func.func @main(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xf32> {
  %0 = weft.cast %x : tensor<64x64xbf16> to tensor<64x64xf32>
  %1 = weft.cast %w : tensor<64x64xbf16> to tensor<64x64xf32>
  %2 = weft.matmul %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
  %3 = weft.tanh %2 : tensor<64x64xf32>
  %4 = weft.neg %3 : tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

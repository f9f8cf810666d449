// Each mistake gets one line and exit code 2.
// RUN: not weft-run --backend=reference %s 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: weft-run: @main takes 1 inputs (float32[2]), 0 are given
// RUN: not weft-run --backend=warp %s 2>&1 | FileCheck %s --check-prefix=BACKEND
// BACKEND: weft-run: {{.*}}warp
// RUN: not weft-run --backend=reference %t.missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: weft-run: {{.*}}missing.mlir
// RUN: echo 'func.func @main(' | not weft-run --backend=reference - 2>&1 | FileCheck %s --check-prefix=CORRUPT
// CORRUPT: weft-run: - is not a program
// RUN: echo 'not numpy' > %t.npy
// RUN: not weft-run --backend=reference --input %t.npy %s 2>&1 | FileCheck %s --check-prefix=NPY
// NPY: weft-run: {{.*}}.npy
// RUN: not weft-run --backend=reference --input %t.missing.mlir %s 2>&1 | FileCheck %s --check-prefix=NO-INPUT
// NO-INPUT: weft-run: cannot read '{{.*}}missing.mlir': No such file
// RUN: not weft-run --backend=reference --input %s %s 2>&1 | FileCheck %s --check-prefix=NEITHER
// NEITHER: weft-run: cannot read '{{.*}}run-errors.mlir': neither an .npy file nor a safetensors file
// RUN: not weft-run --steps 0 %s 2>&1 | FileCheck %s --check-prefix=STEPS
// STEPS: --steps: it must be a whole number of at least 1, not 0
// RUN: not weft-run --steps 99999999999999999999 %s 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: --steps: 99999999999999999999 is too large
// RUN: echo 'func.func @main() -> tensor<3xf32> { %%0 = weft.iota {dim = 0 : i64} : tensor<3xf32> return %%0 : tensor<3xf32> }' > %t.three.mlir
// RUN: weft-run --backend=reference --output %t.three.npy %t.three.mlir
// RUN: not weft-run --backend=reference --input %t.three.npy %s 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: weft-run: input 0 ({{.*}}three.npy) is float32[3], but @main takes float32[2]
// RUN: echo 'func.func @main(%%x: tensor<2xindex>) -> tensor<2xindex> { return %%x : tensor<2xindex> }' > %t.index.mlir
// RUN: not weft-run --backend=reference %t.index.mlir 2>&1 | FileCheck %s --check-prefix=ELEMENT
// ELEMENT: weft-run: {{.*}}tensors have elements of f32, f64
// RUN: not weft-run %t.index.mlir 2>&1 | FileCheck %s --check-prefix=MAIN
// MAIN: weft-run: {{.*}}argument 0 of @main has the type {{.*}}tensor<2xindex>

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

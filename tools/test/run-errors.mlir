// Each mistake gets one line and exit code 2.
// RUN: not weft-run --backend=reference %s 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: weft-run: @main takes 1 input (float32[2]), and is given 0
// RUN: not weft-run --backend=warp %s 2>&1 | FileCheck %s --check-prefix=BACKEND
// BACKEND: weft-run: {{.*}}warp
// RUN: not weft-run --backend=reference %t.missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: weft-run: {{.*}}missing.mlir
// RUN: echo 'func.func @main(' | not weft-run --backend=reference - 2>&1 | FileCheck %s --check-prefix=CORRUPT
// CORRUPT: weft-run: stdin is no valid program
// What is no program of weft ops says what it is, and which dumps are.
// RUN: weft-compile %s --emit=plan -o %t.plan.mlir
// RUN: not weft-run %t.plan.mlir 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: not weft-compile %t.plan.mlir --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=PLAN
// PLAN: plan.mlir is a plan, the end of a compilation, and no program; {{.*}}00-import.mlir to 40-fuse.mlir
// RUN: echo 'func.func @main() { %%0 = arith.constant 0 : i32 return }' > %t.arith.mlir
// RUN: not weft-run %t.arith.mlir 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not weft-compile %t.arith.mlir --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: {{.*}}arith.mlir:1: Dialect `arith' not found for custom op 'arith.constant'{{.*}}; a program holds weft ops; of what WEFT_DUMP_DIR writes
// RUN: echo '' | not weft-run - 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: weft-run: stdin has no func.func @main to compile
// RUN: not weft-run --math=quick %s 2>&1 | FileCheck %s --check-prefix=MODE
// RUN: not weft-compile --math=quick %s 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: --math: it must be one of exact, fast, standard, not quick
// A message has the line as other tools write it, and no IR.
// RUN: echo 'func.func @main(%%x: tensor<2xf32> {weft.name = 5 : i64}) -> tensor<2xf32> { return %%x : tensor<2xf32> }' > %t.name.mlir
// RUN: not weft-run %t.name.mlir 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: {{.*}}name.mlir:1: argument 0 of @main has a weft.name of the wrong kind; it must be a string
// NAME-NOT: {{loc\(|see current}}
// What a program pins and does not get is said.
// RUN: echo 'func.func @main(%%x: tensor<3xf32>) -> tensor<3xf32> { %%0 = weft.fusion(%%a = %%x : tensor<3xf32>) -> (tensor<3xf32>) attributes {weft.schedule = {speed = 4 : i64}} { %%1 = weft.exp %%a : tensor<3xf32> weft.yield %%1 : tensor<3xf32> } return %%0 : tensor<3xf32> }' > %t.pins.mlir
// RUN: echo 'not numpy' > %t.npy
// RUN: not weft-run --backend=reference --input %t.npy %s 2>&1 | FileCheck %s --check-prefix=NPY
// NPY: weft-run: {{.*}}.npy
// RUN: not weft-run --backend=reference --input %t.missing.mlir %s 2>&1 | FileCheck %s --check-prefix=NO-INPUT
// NO-INPUT: weft-run: cannot read '{{.*}}missing.mlir': No such file
// RUN: not weft-run --backend=reference --input %s %s 2>&1 | FileCheck %s --check-prefix=NEITHER
// NEITHER: weft-run: cannot read '{{.*}}run-errors.mlir': neither an .npy file nor a safetensors file
// RUN: not weft-run --backend=reference --input %t.three.npy --output %t.txt %s 2>&1 | FileCheck %s --check-prefix=ENDING
// ENDING: weft-run: --output: '{{.*}}.txt' is no file for results; name one .npy file for each
// RUN: not weft-run --steps 0 %s 2>&1 | FileCheck %s --check-prefix=STEPS
// STEPS: --steps: it must be a whole number of at least 1, not 0
// RUN: not weft-run --steps 99999999999999999999 %s 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: --steps: 99999999999999999999 is too large
// RUN: not weft-run --threads 4096 %s 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: weft-run: --threads: there are at most 1024, not 4096
// RUN: not weft-run --memory-limit=-1 %s 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: --memory-limit: it must be a whole number of at least 0, not -1
// RUN: echo 'func.func @main() -> tensor<3xf32> { %%0 = weft.iota {dim = 0 : i64} : tensor<3xf32> return %%0 : tensor<3xf32> }' > %t.three.mlir
// RUN: weft-run --backend=reference --output %t.three.npy %t.three.mlir
// RUN: weft-run --input %t.three.npy %t.pins.mlir 2>&1 | FileCheck %s --check-prefix=PINS
// PINS: weft-run: schedule: refused 1 x pin-not-taken: there is no choice 'speed'; there are body, vectors
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

// A program for a range of batch sizes: run at the size of its input, compiled for all of them.
// RUN: weft-compile %s --emit=plan -o - | FileCheck %s --check-prefix=PLAN
// RUN: weft-compile %s --emit=obj --name=net -o %t.o && FileCheck %s --check-prefix=HEADER < %t.h
// RUN: weft-run --backend=reference --output %t.npy %S/run.mlir
// RUN: weft-run --report --input %t.npy %s 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: sed -e 's/i64: 1, 8>/i64: 3, 8>/' %s | not weft-run --input %t.npy - 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: sed -e 's/i64: 1, 8>/i64: 9, 8>/' %s | not weft-compile - --emit=plan -o - 2>&1 | FileCheck %s --check-prefix=NONE

// PLAN: // batch from 1 to 1
// PLAN: plan.program @main
// PLAN: // batch from 2 to 8
// PLAN: plan.program @main
// HEADER: #define NET_BATCH_MIN 1
// HEADER: #define NET_BATCH_MAX 8
// HEADER: // input 0 'x': float32[1..8, 3]
// HEADER: #define NET_INPUT_0_ELEMENTS 24
// HEADER: // output 0: float32[1..8]
// ONE: batch 2 of 1 to 8
// ONE: float32[2]
// ONE-NEXT: [2. 2.]
// RANGE: is float32[2, 3]: its batch must be from 3 to 8
// NONE: has a weft.sizes of the wrong kind; it must be a dictionary of ranges [MIN, MAX], as in {n = [2, 64]}
module attributes {weft.sizes = {batch = array<i64: 1, 8>}} {
  func.func @main(%x: tensor<8x3xf32, #weft.dims<batch, _>> {weft.name = "x"}) -> tensor<8xf32, #weft.dims<batch>> {
    %0 = weft.reduce_max %x, dims = [1] : tensor<8x3xf32, #weft.dims<batch, _>>
    return %0 : tensor<8xf32, #weft.dims<batch>>
  }
}

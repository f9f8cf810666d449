// What a program keeps goes from one run to the next. An object of it lists its state; a module of
// modules is a model with an entry for each.
// RUN: weft-run --backend=reference --steps 3 %s | FileCheck %s
// RUN: weft-run --backend=cpu --steps 3 --output %t.npy %s
// RUN: not weft-run --backend=reference --input %t.npy %s 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: weft-compile %s --emit=obj --name=net -o %t.o && FileCheck %s --check-prefix=HEADER < %t.h
// RUN: echo "module @train {" > %t.two.mlir && cat %s >> %t.two.mlir && echo "}" >> %t.two.mlir
// RUN: echo "module @test {" >> %t.two.mlir && cat %s >> %t.two.mlir && echo "}" >> %t.two.mlir
// RUN: weft-compile %t.two.mlir --emit=obj --name=two -o %t2.o && FileCheck %s --check-prefix=TWO < %t2.h

// CHECK: float32[2]
// CHECK-NEXT: [16. 32.]
// CHECK-NEXT: count: float32[2]
// CHECK-NEXT: [ 8. 16.]
// NONE: @main takes 0 inputs (), and is given 1
// HEADER: #define NET_INPUTS 0
// HEADER: #define NET_OUTPUTS 1
// HEADER: // state 'count': float32[2]
// TWO: #define TWO_TRAIN_OUTPUTS 1
// TWO: #define TWO_TEST_OUTPUTS 1
// TWO: // state 'count': float32[2]
// TWO-NOT: // state
func.func @main(%count: tensor<2xf32> {weft.state = "count", weft.initial = dense<[1.0, 2.0]> : tensor<2xf32>}) -> (tensor<2xf32>, tensor<2xf32> {weft.writes = 0 : i64}) {
  %0 = weft.add %count, %count : tensor<2xf32>
  %1 = weft.add %0, %0 : tensor<2xf32>
  return %1, %0 : tensor<2xf32>, tensor<2xf32>
}

// RUN: weft-opt %s --split-input-file --weft-fuse=report 2>&1 | FileCheck %s

// A value that is read at its own position and at a neighbour's would be computed for each of them: what is expensive goes to memory.
// CHECK: refused{{.*}}recomputed
// CHECK-LABEL: @expensive
// CHECK: %[[E:.*]] = weft.fusion
// CHECK: weft.exp
// CHECK: weft.yield
// CHECK: weft.fusion({{.*}} = %[[E]]
// CHECK: weft.slice
// CHECK: weft.add
// CHECK: weft.yield
// CHECK: return
module @expensive {
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = weft.constant dense<0.0> : tensor<64x64xf32>
  %e = weft.exp %x : tensor<64x64xf32>
  %below = weft.slice %e[[1, 0] : [64, 64] : [1, 1]] : tensor<64x64xf32>
  %moved = weft.insert_slice %below into %zero[[0, 0] : [1, 1]] : tensor<63x64xf32> into tensor<64x64xf32>
  %y = weft.add %e, %moved : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
}

// -----

// What is cheap is one kernel with it.
// CHECK-LABEL: @cheap
// CHECK: weft.fusion
// CHECK: weft.mul
// CHECK: weft.slice
// CHECK: weft.add
// CHECK: weft.yield
// CHECK-NOT: weft.fusion
// CHECK: return
module @cheap {
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = weft.constant dense<0.0> : tensor<64x64xf32>
  %e = weft.mul %x, %x : tensor<64x64xf32>
  %below = weft.slice %e[[1, 0] : [64, 64] : [1, 1]] : tensor<64x64xf32>
  %moved = weft.insert_slice %below into %zero[[0, 0] : [1, 1]] : tensor<63x64xf32> into tensor<64x64xf32>
  %y = weft.add %e, %moved : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
}

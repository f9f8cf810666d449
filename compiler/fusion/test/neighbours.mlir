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

// -----

// What a slice alone reads is computed there and nowhere else, however much it takes: of a mask that
// is drawn whole a rank draws its part.
// CHECK-LABEL: @drawn_for_a_slice
// CHECK: weft.fusion
// CHECK: weft.random_uniform {{.*}} : tensor<32x64xf32>
// CHECK-NOT: weft.yield
// CHECK: weft.slice
// CHECK: weft.compare
// CHECK: weft.yield
// CHECK-NOT: weft.fusion
// CHECK: return
module @drawn_for_a_slice {
func.func @main(%x: tensor<8x64xf32>, %s: tensor<2xi64>) -> (tensor<8x64xf32>, tensor<8x64xi1>) {
  %drawn = weft.random_uniform %s : tensor<32x64xf32>
  %own = weft.slice %drawn[[8, 0] : [16, 64] : [1, 1]] : tensor<32x64xf32>
  %rate = weft.constant dense<0.25> : tensor<8x64xf32>
  %keep = weft.compare ge %own, %rate : tensor<8x64xf32>
  %zero = weft.constant dense<0.0> : tensor<8x64xf32>
  %kept = weft.select %keep, %x, %zero : tensor<8x64xf32>
  return %kept, %keep : tensor<8x64xf32>, tensor<8x64xi1>
}
}

// -----

// One that is read as a whole as well is not drawn twice, and neither is a row that is repeated.
// CHECK-LABEL: @drawn_for_all
// CHECK: weft.random_uniform {{.*}} : tensor<32x64xf32>
// CHECK: weft.yield
// CHECK: weft.exp {{.*}} : tensor<4x64xf32>
// CHECK: weft.yield
// CHECK: weft.fusion
// CHECK: return
module @drawn_for_all {
func.func @main(%s: tensor<2xi64>, %x: tensor<4x64xf32>) -> (tensor<32x64xf32>, tensor<8x64xf32>, tensor<512x64xf32>) {
  %drawn = weft.random_uniform %s : tensor<32x64xf32>
  %own = weft.slice %drawn[[8, 0] : [16, 64] : [1, 1]] : tensor<32x64xf32>
  %kept = weft.mul %own, %own : tensor<8x64xf32>
  %e = weft.exp %x : tensor<4x64xf32>
  %row = weft.slice %e[[1, 0] : [2, 64] : [1, 1]] : tensor<4x64xf32>
  %rows = weft.broadcast %row : tensor<1x64xf32> to tensor<512x64xf32>
  %moved = weft.add %rows, %rows : tensor<512x64xf32>
  return %drawn, %kept, %moved : tensor<32x64xf32>, tensor<8x64xf32>, tensor<512x64xf32>
}
}

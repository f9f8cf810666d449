// RUN: weft-opt %s --weft-split-prepare --split-input-file | FileCheck %s

// A cast that a library call reads is done ahead. The bias is only broadcast: that stays.
// CHECK-LABEL: @cast
// CHECK: func.func @main(%[[X:.*]]: tensor<2x64xf32>, %[[W:.*]]: tensor<64x64xbf16> {weft.stable}, %[[B:.*]]: tensor<64xf32> {weft.stable}, %[[P:.*]]: tensor<64x64xf32> {weft.prepared = 0 : i64})
// CHECK-NOT: weft.cast
// CHECK: weft.matmul %[[X]], %[[P]]
// CHECK: weft.broadcast %[[B]]
// CHECK: func.func @prepare(%[[S:.*]]: tensor<64x64xbf16> {weft.source = 1 : i64}) -> tensor<64x64xf32>
// CHECK-NEXT: %[[C:.*]] = weft.cast %[[S]]
// CHECK-NEXT: return %[[C]]
module @cast {
func.func @main(%x: tensor<2x64xf32>, %w: tensor<64x64xbf16> {weft.stable}, %b: tensor<64xf32> {weft.stable}) -> tensor<2x64xf32> {
  %0 = weft.cast %w : tensor<64x64xbf16> to tensor<64x64xf32>
  %1 = weft.matmul %x, %0 : tensor<2x64xf32>, tensor<64x64xf32>
  %2 = weft.broadcast %b : tensor<64xf32> to tensor<2x64xf32>
  %3 = weft.add %1, %2 : tensor<2x64xf32>
  return %3 : tensor<2x64xf32>
}
}

// -----

// A product of few rows converts its matrix of 8 bits itself, zero point and scale among it.
// CHECK-LABEL: @converted
// CHECK-NOT: weft.prepared
// CHECK-NOT: @prepare
module @converted {
func.func @main(%x: tensor<2x64xf32>, %w: tensor<64x64xf32> {weft.stable}, %q: tensor<64x64xi8> {weft.stable}, %s: tensor<64x1xf32> {weft.stable}) -> tensor<2x64xf32> {
  %0 = weft.cast %q : tensor<64x64xi8> to tensor<64x64xf32>
  %1 = weft.broadcast %s : tensor<64x1xf32> to tensor<64x64xf32>
  %2 = weft.mul %0, %1 : tensor<64x64xf32>
  %3 = weft.matmul %x, %2 {transpose_rhs = true} : tensor<2x64xf32>, tensor<64x64xf32>
  return %3 : tensor<2x64xf32>
}
}

// -----

// What two stable arguments give is one value; ops in between go along, constants are copied.
// CHECK-LABEL: @merged
// CHECK: func.func @main({{.*}}%[[P:[^ ]*]]: tensor<64x64xf32> {weft.prepared = 0 : i64})
// CHECK-NEXT: weft.matmul %{{.*}}, %[[P]]
// CHECK-NEXT: return
// CHECK: func.func @prepare(%{{.*}}: tensor<64x64xf32> {weft.source = 1 : i64}, %{{.*}}: tensor<64x4xf32> {weft.source = 2 : i64}, %{{.*}}: tensor<4x64xf32> {weft.source = 3 : i64})
// CHECK: weft.matmul
// CHECK: weft.add
// CHECK: weft.constant
// CHECK: weft.mul
module @merged {
func.func @main(%x: tensor<2x64xf32>, %w: tensor<64x64xf32> {weft.parameter = "w"}, %u: tensor<64x4xf32> {weft.stable}, %v: tensor<4x64xf32> {weft.stable}) -> tensor<2x64xf32> {
  %0 = weft.matmul %u, %v : tensor<64x4xf32>, tensor<4x64xf32>
  %1 = weft.add %w, %0 : tensor<64x64xf32>
  %c = weft.constant dense<2.0> : tensor<64x64xf32>
  %2 = weft.mul %1, %c : tensor<64x64xf32>
  %3 = weft.matmul %x, %2 : tensor<2x64xf32>, tensor<64x64xf32>
  return %3 : tensor<2x64xf32>
}
}

// -----

// A kernel computes an elementwise op in passing: nothing is gained. What is returned is computed by the run.
// CHECK-LABEL: @nothing
// CHECK-NOT: weft.prepared
// CHECK-NOT: @prepare
module @nothing {
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32> {weft.stable}) -> (tensor<64x64xf32>, tensor<64xf32>, tensor<8x8xf32>) {
  %0 = weft.exp %w : tensor<64x64xf32>
  %1 = weft.mul %x, %0 : tensor<64x64xf32>
  %2 = weft.reduce_sum %w, dims = [0] : tensor<64x64xf32>
  %3 = weft.reduce_sum %w, dims = [1] : tensor<64x64xf32>
  %4 = weft.reshape %3 : tensor<64xf32> to tensor<8x8xf32>
  return %1, %2, %4 : tensor<64x64xf32>, tensor<64xf32>, tensor<8x8xf32>
}
}

// -----

// The broadcast over a batch is too large; what is below it is not.
// CHECK-LABEL: @growth
// CHECK: func.func @main({{.*}}%[[P:[^ ]*]]: tensor<64xf32> {weft.prepared = 0 : i64})
// CHECK: weft.broadcast %[[P]]
// CHECK: @prepare
// CHECK: weft.reduce_max
module @growth {
func.func @main(%x: tensor<4096x64xf32>, %w: tensor<64x64xf32> {weft.stable}) -> tensor<4096x64xf32> {
  %0 = weft.reduce_max %w, dims = [0] : tensor<64x64xf32>
  %1 = weft.broadcast %0 : tensor<64xf32> to tensor<4096x64xf32>
  %2 = weft.exp %1 : tensor<4096x64xf32>
  %3 = weft.mul %x, %2 : tensor<4096x64xf32>
  return %3 : tensor<4096x64xf32>
}
}

// -----

// A donatable argument is written by the run: it is not stable, whatever else is said of it.
// CHECK-LABEL: @donated
// CHECK-NOT: @prepare
module @donated {
func.func @main(%x: tensor<2x64xf32>, %w: tensor<64x64xbf16> {weft.stable, weft.donatable}) -> tensor<2x64xf32> {
  %0 = weft.cast %w : tensor<64x64xbf16> to tensor<64x64xf32>
  %1 = weft.matmul %x, %0 : tensor<2x64xf32>, tensor<64x64xf32>
  return %1 : tensor<2x64xf32>
}
}

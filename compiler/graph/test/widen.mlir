// RUN: weft-opt --weft-widen %s | FileCheck %s

// Sums of 16-bit floats accumulate in float32 and are rounded once; indices stay.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xbf16>, %[[H:.*]]: tensor<8x4xf16>, %[[U:.*]]: tensor<4x8xui8>, %[[I:.*]]: tensor<2xi64>, %[[S:.*]]: tensor<2x8xbf16>, %[[F:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<4x8xi8>)
func.func @main(%x: tensor<4x8xbf16>, %h: tensor<8x4xf16>, %u: tensor<4x8xui8>, %i: tensor<2xi64>, %s: tensor<2x8xbf16>, %f: tensor<4x8xf32>,
                %b: tensor<4x8xi8>)
    -> (tensor<4xbf16>, tensor<8x8xf16>, tensor<4xui8>, tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4xf32>, tensor<4xi8>) {
  // CHECK: %[[WX:.*]] = weft.cast %[[X]] : tensor<4x8xbf16> to tensor<4x8xf32>
  // CHECK: %[[SUM:.*]] = weft.reduce_sum %[[WX]], dims = [1] : tensor<4x8xf32>
  // CHECK: weft.cast %[[SUM]] : tensor<4xf32> to tensor<4xbf16>
  %0 = weft.reduce_sum %x, dims = [1] : tensor<4x8xbf16>
  // CHECK: %[[A:.*]] = weft.cast %[[H]] : tensor<8x4xf16> to tensor<8x4xf32>
  // CHECK: %[[C:.*]] = weft.cast %[[H]] : tensor<8x4xf16> to tensor<8x4xf32>
  // CHECK: %[[P:.*]] = weft.matmul %[[A]], %[[C]] {transpose_rhs = true} : tensor<8x4xf32>, tensor<8x4xf32>
  // CHECK: weft.cast %[[P]] : tensor<8x8xf32> to tensor<8x8xf16>
  %1 = weft.matmul %h, %h {transpose_rhs = true} : tensor<8x4xf16>, tensor<8x4xf16>
  // CHECK: %[[WU:.*]] = weft.cast %[[U]] : tensor<4x8xui8> to tensor<4x8xi32>
  // CHECK: weft.reduce_max %[[WU]], dims = [1] : tensor<4x8xi32>
  %2 = weft.reduce_max %u, dims = [1] : tensor<4x8xui8>
  // CHECK: weft.index_add %{{.*}}, %[[I]], %{{.*}}, dim = 0 : tensor<4x8xf32>, tensor<2xi64>, tensor<2x8xf32>
  %3 = weft.index_add %x, %i, %s, dim = 0 : tensor<4x8xbf16>, tensor<2xi64>, tensor<2x8xbf16>
  // Elementwise ops round by themselves; other sums stay as they are.
  // CHECK: weft.exp %[[X]] : tensor<4x8xbf16>
  %4 = weft.exp %x : tensor<4x8xbf16>
  // CHECK: weft.reduce_sum %[[F]], dims = [1] : tensor<4x8xf32>
  %5 = weft.reduce_sum %f, dims = [1] : tensor<4x8xf32>
  // CHECK: weft.reduce_sum %[[B]], dims = [1] : tensor<4x8xi8>
  %6 = weft.reduce_sum %b, dims = [1] : tensor<4x8xi8>
  return %0, %1, %2, %3, %4, %5, %6
      : tensor<4xbf16>, tensor<8x8xf16>, tensor<4xui8>, tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4xf32>, tensor<4xi8>
}

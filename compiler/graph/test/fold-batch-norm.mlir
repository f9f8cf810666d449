// RUN: weft-opt %s --weft-fold-batch-norm --split-input-file | FileCheck %s

// (conv - mean) * scale + bias: the weight times scale, and bias - mean * scale.
// CHECK-LABEL: module @folded
// CHECK: func.func @main(%[[X:.*]]: tensor<1x8x9x9xf32>, %[[W:[^ ]*]]: {{.*}}, %[[M:[^ ]*]]: {{.*}}, %[[S:[^ ]*]]: {{.*}}, %[[B:[^ ]*]]: {{.*}})
// CHECK-DAG: %[[N:.*]] = weft.neg %[[M]]
// CHECK-DAG: %[[NS:.*]] = weft.mul %[[N]], %[[S]]
// CHECK-DAG: %[[T:.*]] = weft.add %[[NS]], %[[B]]
// CHECK: %[[F:.*]] = weft.broadcast {{.*}} : tensor<16x1x1x1xf32> to tensor<16x8x3x3xf32>
// CHECK: %[[V:.*]] = weft.mul %[[W]], %[[F]]
// CHECK: %[[C:.*]] = weft.conv2d %[[X]], %[[V]]
// CHECK: %[[TB:.*]] = weft.broadcast %[[T]] : tensor<16x1x1xf32> to tensor<1x16x7x7xf32>
// CHECK: %[[Y:.*]] = weft.add %[[C]], %[[TB]]
// CHECK-NEXT: %[[R:.*]] = weft.relu %[[Y]]
// CHECK-NEXT: return %[[R]]
module @folded {
func.func @main(%x: tensor<1x8x9x9xf32>, %w: tensor<16x8x3x3xf32> {weft.parameter = "p1"}, %m: tensor<16x1x1xf32> {weft.parameter = "p2"},
                %s: tensor<16x1x1xf32> {weft.parameter = "s"}, %b: tensor<16x1x1xf32> {weft.parameter = "p3"}) -> tensor<1x16x7x7xf32> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x8x9x9xf32>, tensor<16x8x3x3xf32>
  %1 = weft.broadcast %m : tensor<16x1x1xf32> to tensor<1x16x7x7xf32>
  %2 = weft.sub %0, %1 : tensor<1x16x7x7xf32>
  %3 = weft.broadcast %s : tensor<16x1x1xf32> to tensor<1x16x7x7xf32>
  %4 = weft.mul %2, %3 : tensor<1x16x7x7xf32>
  %5 = weft.broadcast %b : tensor<16x1x1xf32> to tensor<1x16x7x7xf32>
  %6 = weft.add %5, %4 : tensor<1x16x7x7xf32>
  %7 = weft.relu %6 : tensor<1x16x7x7xf32>
  return %7 : tensor<1x16x7x7xf32>
}
}

// -----
// Nothing to gain: a weight that may change, a number of which that is only found out as it runs, a value with another reader, a bias, a number for each column.
// CHECK-LABEL: module @left
// CHECK: weft.conv2d {{.*}}, %arg1
// CHECK-NEXT: weft.mul
// CHECK-NEXT: weft.conv2d {{.*}}, %arg2
// CHECK-NEXT: weft.mul
// CHECK-NEXT: weft.conv2d {{.*}}, %arg2
// CHECK-NEXT: weft.mul
// CHECK-NEXT: weft.conv2d {{.*}}, %arg2
// CHECK-NEXT: weft.mul
// CHECK-NEXT: weft.mul
// CHECK-NEXT: return
module @left {
func.func @main(%x: tensor<1x4x4x4xf32>, %w: tensor<4x4x1x1xf32>, %v: tensor<4x4x1x1xf32> {weft.parameter = "p4"}, %s: tensor<4x1x1xf32> {weft.parameter = "p5"},
                %t: tensor<4x1x1xf32> {weft.stable}, %c: tensor<4xf32> {weft.parameter = "p6"})
    -> (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) {
  %a = weft.broadcast %s : tensor<4x1x1xf32> to tensor<1x4x4x4xf32>
  %b = weft.broadcast %t : tensor<4x1x1xf32> to tensor<1x4x4x4xf32>
  %d = weft.broadcast %c : tensor<4xf32> to tensor<1x4x4x4xf32>
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>
  %1 = weft.mul %0, %a : tensor<1x4x4x4xf32>
  %2 = weft.conv2d %1, %v {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>
  %3 = weft.mul %2, %b : tensor<1x4x4x4xf32>
  %4 = weft.conv2d %3, %v {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>
  %5 = weft.mul %4, %a : tensor<1x4x4x4xf32>
  %6 = weft.conv2d %5, %v {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>
  %7 = weft.mul %6, %d : tensor<1x4x4x4xf32>
  %8 = weft.mul %4, %7 : tensor<1x4x4x4xf32>
  return %1, %3, %5, %7, %8 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>
}
}

// -----
// The product right behind the convolution.
// CHECK-LABEL: module @adjacent
// CHECK: weft.mul %arg1
// CHECK-NEXT: weft.conv2d
// CHECK-NEXT: return
module @adjacent {
func.func @main(%x: tensor<1x4x4x4xf32>, %w: tensor<4x4x1x1xf32> {weft.parameter = "w"}, %s: tensor<4x1x1xf32> {weft.parameter = "s"}) -> tensor<1x4x4x4xf32> {
  %a = weft.broadcast %s : tensor<4x1x1xf32> to tensor<1x4x4x4xf32>
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>
  %1 = weft.mul %0, %a : tensor<1x4x4x4xf32>
  return %1 : tensor<1x4x4x4xf32>
}
}

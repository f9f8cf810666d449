// The folders under MLIR's own driver: chains collapse, folds in place come to an end, what is not exact stays.
// RUN: weft-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @movements
// CHECK-NEXT: %[[R:.*]] = weft.reshape %arg0 : tensor<2x6xf32> to tensor<3x4xf32>
// CHECK-NEXT: %[[T:.*]] = weft.transpose %arg1, [2, 0, 1] : tensor<2x3x4xf32>
// CHECK-NEXT: %[[B:.*]] = weft.broadcast %arg2 : tensor<3xf32> to tensor<5x4x3xf32>
// CHECK-NEXT: return %[[R]], %[[T]], %[[B]]
func.func @movements(%x: tensor<2x6xf32>, %y: tensor<2x3x4xf32>, %z: tensor<3xf32>) -> (tensor<3x4xf32>, tensor<4x2x3xf32>, tensor<5x4x3xf32>) {
  %0 = weft.reshape %x : tensor<2x6xf32> to tensor<12xf32>
  %1 = weft.reshape %0 : tensor<12xf32> to tensor<4x3xf32>
  %2 = weft.reshape %1 : tensor<4x3xf32> to tensor<3x4xf32>
  %3 = weft.transpose %y, [1, 2, 0] : tensor<2x3x4xf32>
  %4 = weft.transpose %3, [1, 2, 0] : tensor<3x4x2xf32>
  %5 = weft.reshape %z : tensor<3xf32> to tensor<1x3xf32>
  %6 = weft.broadcast %5 : tensor<1x3xf32> to tensor<4x3xf32>
  %7 = weft.broadcast %6 : tensor<4x3xf32> to tensor<5x4x3xf32>
  return %2, %4, %7 : tensor<3x4xf32>, tensor<4x2x3xf32>, tensor<5x4x3xf32>
}

// -----
// CHECK-LABEL: func.func @random
// CHECK-DAG: %[[U:.*]] = weft.random_uniform %arg0 {offset = 48 : i64} : tensor<8xf32>
// CHECK-DAG: %[[D:.*]], %{{.*}} = weft.dropout %[[U]], %arg0 {offset = 16 : i64, rate = 5.000000e-01 : f64} : tensor<8xf32>
// CHECK-DAG: %[[S:.*]] = weft.random_advance %arg0, 64 : tensor<2xi64>
// CHECK: return %[[D]], %[[S]]
func.func @random(%s: tensor<2xi64>) -> (tensor<8xf32>, tensor<2xi64>) {
  %0 = weft.random_advance %s, 16 : tensor<2xi64>
  %1 = weft.random_advance %0, 32 : tensor<2xi64>
  %2 = weft.random_uniform %1 : tensor<8xf32>
  %3:2 = weft.dropout %2, %0 {rate = 0.5 : f64} : tensor<8xf32>
  %4 = weft.random_advance %1, 16 : tensor<2xi64>
  return %3#0, %4 : tensor<8xf32>, tensor<2xi64>
}

// -----
// A splat stays a splat through everything, and x + 0 stays.
// CHECK-LABEL: func.func @constants
// CHECK-DAG: %[[SPLAT:.*]] = weft.constant dense<6.000000e+00> : tensor<100000x100000xf32>
// CHECK-DAG: %[[ZERO:.*]] = weft.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK: %[[SUM:.*]] = weft.add %arg0, %[[ZERO]] : tensor<4xf32>
// CHECK: return %[[SPLAT]], %[[SUM]], %arg0
func.func @constants(%x: tensor<4xf32>) -> (tensor<100000x100000xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = weft.constant dense<2.0> : tensor<1x1xf32>
  %1 = weft.broadcast %0 : tensor<1x1xf32> to tensor<100000x100000xf32>
  %2 = weft.constant dense<3.0> : tensor<100000x100000xf32>
  %3 = weft.mul %1, %2 : tensor<100000x100000xf32>
  %4 = weft.transpose %3, [1, 0] : tensor<100000x100000xf32>
  %zero = weft.constant dense<0.0> : tensor<4xf32>
  %5 = weft.add %x, %zero : tensor<4xf32>
  %one = weft.constant dense<1.0> : tensor<4xf32>
  %6 = weft.mul %x, %one : tensor<4xf32>
  return %4, %5, %6 : tensor<100000x100000xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----
// Folds hold inside a fusion as well; its body keeps its arguments.
// CHECK-LABEL: func.func @fusion
// CHECK: weft.fusion(%[[A:.*]] = %arg0 : tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT: weft.yield %[[A]] : tensor<4xf32>
func.func @fusion(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = weft.fusion(%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %n = weft.neg %a : tensor<4xf32>
    %m = weft.neg %n : tensor<4xf32>
    weft.yield %m : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

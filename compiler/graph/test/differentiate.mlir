// RUN: weft-opt %s --weft-differentiate --split-input-file --verify-diagnostics | FileCheck %s

// A number: its cotangent is 1. The cotangents of a value with two users add up.
// CHECK-LABEL: func.func @scalar(
// CHECK-NOT: weft.differentiate
// CHECK-LABEL: func.func @scalar_grad(%arg0: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK: %[[Y:.*]] = weft.exp %arg0
// CHECK: %[[Z:.*]] = weft.mul %[[Y]], %arg0
// CHECK: %[[ONE:.*]] = weft.constant dense<1.000000e+00> : tensor<f32>
// CHECK: %[[GY:.*]] = weft.mul %[[ONE]], %arg0
// CHECK: %[[GX:.*]] = weft.mul %[[ONE]], %[[Y]]
// CHECK: %[[CHAIN:.*]] = weft.mul %[[GY]], %[[Y]]
// CHECK: %[[SUM:.*]] = weft.add %[[GX]], %[[CHAIN]]
// CHECK: return %[[Z]], %[[SUM]]
func.func @scalar(%x: tensor<f32>) -> tensor<f32> attributes {weft.differentiate} {
  %0 = weft.exp %x : tensor<f32>
  %1 = weft.mul %0, %x : tensor<f32>
  return %1 : tensor<f32>
}

// More than one element: the cotangent is the last argument. Matmul's gradients are matmuls that read their inputs as they lie; the
// batch of a shared right side is part of the contraction.
// CHECK-LABEL: func.func @tensor_grad(%arg0: tensor<2x3x4xf32>, %arg1: tensor<4x5xf32>, %arg2: tensor<2x3x5xf32>)
// CHECK-SAME: -> (tensor<2x3x5xf32>, tensor<2x3x4xf32>, tensor<4x5xf32>)
// CHECK: %[[R:.*]] = weft.matmul %arg0, %arg1
// CHECK: %[[DX:.*]] = weft.matmul %arg2, %arg1 {transpose_rhs = true}
// CHECK: %[[X:.*]] = weft.reshape %arg0 : tensor<2x3x4xf32> to tensor<6x4xf32>
// CHECK: %[[G:.*]] = weft.reshape %arg2 : tensor<2x3x5xf32> to tensor<6x5xf32>
// CHECK: %[[DW:.*]] = weft.matmul %[[X]], %[[G]] {transpose_lhs = true}
// CHECK-NOT: weft.transpose
// CHECK: return %[[R]], %[[DX]], %[[DW]]
func.func @tensor(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x3x5xf32> attributes {weft.differentiate = {}} {
  %0 = weft.matmul %x, %w : tensor<2x3x4xf32>, tensor<4x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// One argument and the second result by attribute; an argument that the result does not depend on gets zeros.
// CHECK-LABEL: func.func @chosen_grad(%arg0: tensor<f64>, %arg1: tensor<i32>, %arg2: tensor<3xf64>) -> (tensor<f64>, tensor<f64>, tensor<3xf64>)
// CHECK: %[[T:.*]] = weft.tanh %arg0
// CHECK: %[[ZERO:.*]] = weft.constant dense<0.000000e+00> : tensor<3xf64>
// CHECK: return %arg0, %[[T]], %[[ZERO]]
func.func @chosen(%x: tensor<f64>, %i: tensor<i32>, %y: tensor<3xf64>) -> (tensor<f64>, tensor<f64>)
    attributes {weft.differentiate = {arguments = array<i64: 2>, result = 1 : i64}} {
  %0 = weft.tanh %x : tensor<f64>
  return %x, %0 : tensor<f64>, tensor<f64>
}

// The rule of softmax needs its result only.
// CHECK-LABEL: func.func @row_grad(
// CHECK: %[[Y:.*]] = weft.softmax %arg0, dim = 1
// CHECK: %[[GY:.*]] = weft.mul %arg1, %[[Y]]
// CHECK: %[[S:.*]] = weft.reduce_sum %[[GY]], dims = [1]
// CHECK: %[[B:.*]] = weft.broadcast
// CHECK: %[[D:.*]] = weft.sub %arg1, %[[B]]
// CHECK: weft.mul %[[Y]], %[[D]]
func.func @row(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {weft.differentiate} {
  %0 = weft.softmax %x, dim = 1 : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// expected-error @+1 {{cannot differentiate by argument 0 of type 'tensor<i32>': only floating-point tensors have derivatives}}
func.func @integer(%x: tensor<i32>) -> tensor<i32> attributes {weft.differentiate = {arguments = array<i64: 0>}} {
  return %x : tensor<i32>
}

// -----

// expected-error @+1 {{cannot differentiate result 1: there are 1}}
func.func @missing(%x: tensor<f32>) -> tensor<f32> attributes {weft.differentiate = {result = 1 : i64}} {
  return %x : tensor<f32>
}

// -----

// expected-error @+1 {{weft.differentiate takes arguments = array<i64> and result = i64, not "wrt"}}
func.func @unknown(%x: tensor<f32>) -> tensor<f32> attributes {weft.differentiate = {wrt = 1 : i64}} {
  return %x : tensor<f32>
}

// -----

func.func private @callee(tensor<f32>) -> tensor<f32>
func.func @call(%x: tensor<f32>) -> tensor<f32> attributes {weft.differentiate} {
  // expected-error @+1 {{has no derivative: only ops of weft have one}}
  %0 = func.call @callee(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

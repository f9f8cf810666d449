// RUN: weft-opt %s --weft-differentiate="function=two arguments=1 result=1" | FileCheck %s

// CHECK-LABEL: func.func @two_grad(%arg0: tensor<f32>, %arg1: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
// CHECK: %[[A:.*]] = weft.add
// CHECK: %[[M:.*]] = weft.mul
// CHECK: %[[ONE:.*]] = weft.constant dense<1.000000e+00>
// CHECK: %[[D:.*]] = weft.mul %[[ONE]], %arg0
// CHECK: return %[[A]], %[[M]], %[[D]]
func.func @two(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = weft.add %x, %y : tensor<f32>
  %1 = weft.mul %x, %y : tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// RUN: weft-opt %s --weft-simplify --split-input-file | FileCheck %s

// What IEEE rounds correctly folds; exp, whose kernel has a budget of some ULPs, does not.
// CHECK-LABEL: @exact_only
// CHECK-DAG: %[[SUM:.*]] = weft.constant dense<5.000000e-01> : tensor<4xf32>
// CHECK-DAG: %[[ONE:.*]] = weft.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: %[[EXP:.*]] = weft.exp %[[ONE]]
// CHECK: return %[[SUM]], %[[EXP]]
module @exact_only {
func.func @main() -> (tensor<4xf32>, tensor<4xf32>) {
  %half = weft.constant dense<0.25> : tensor<f32>
  %0 = weft.broadcast %half : tensor<f32> to tensor<4xf32>
  %1 = weft.add %0, %0 : tensor<4xf32>
  %one = weft.constant dense<1.0> : tensor<4xf32>
  %2 = weft.exp %one : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
}

// -----
// Small tables fold, element for element.
// CHECK-LABEL: @tables
// CHECK: weft.constant dense<{{\[}}[2, 6], [4, 8]]> : tensor<2x2xi64>
module @tables {
func.func @main() -> tensor<2x2xi64> {
  %0 = weft.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %1 = weft.transpose %0, [1, 0] : tensor<2x2xi64>
  %2 = weft.add %1, %1 : tensor<2x2xi64>
  return %2 : tensor<2x2xi64>
}
}

// -----
// Repeats of a vector stay, which a library may read as a bias; a factor of one goes.
// CHECK-LABEL: @repeats
// CHECK: %[[BIAS:.*]] = weft.constant dense<3.000000e-01> : tensor<4xf32>
// CHECK: %[[REPEATS:.*]] = weft.broadcast %[[BIAS]] : tensor<4xf32> to tensor<2x4xf32>
// CHECK: %[[SUM:.*]] = weft.add %arg0, %[[REPEATS]]
// CHECK: return %[[SUM]]
module @repeats {
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %bias = weft.constant dense<0.3> : tensor<4xf32>
  %0 = weft.broadcast %bias : tensor<4xf32> to tensor<2x4xf32>
  %1 = weft.add %x, %0 : tensor<2x4xf32>
  %one = weft.constant dense<1.0> : tensor<4xf32>
  %2 = weft.broadcast %one : tensor<4xf32> to tensor<2x4xf32>
  %3 = weft.mul %1, %2 : tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}
}

// -----
// A condition that is known picks a side.
// CHECK-LABEL: @known_condition
// CHECK: return %arg1
module @known_condition {
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = weft.constant dense<1.0> : tensor<4xf32>
  %b = weft.constant dense<2.0> : tensor<4xf32>
  %c = weft.compare gt %a, %b : tensor<4xf32>
  %0 = weft.select %c, %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}
}

// RUN: weft-opt %s --weft-assign-layouts --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @main(%arg0: tensor<4x8xf32> {weft.layout = array<i64: 0, 1>})
func.func @main(%x: tensor<4x8xf32> {weft.layout = array<i64: 0, 1>}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----
// expected-error@+1 {{argument 0 of @main is not row-major; backends read and write row-major tensors only}}
func.func @main(%x: tensor<4x8xf32> {weft.layout = array<i64: 1, 0>}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----
// expected-error@+1 {{argument 0 has weft.layout = array<i64: 0, 0>, which is no order of the dims of 'tensor<4x8xf32>'}}
func.func @main(%x: tensor<4x8xf32> {weft.layout = array<i64: 0, 0>}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

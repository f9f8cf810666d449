// RUN: weft-opt %s --weft-import --split-input-file --verify-diagnostics

// expected-error@+1 {{a slice needs a function @main}}
module {
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
}

// -----
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{a slice holds weft ops only, and 'arith.addf' is none}}
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----
func.func @main() -> tensor<4xf32> {
  // expected-error@+1 {{a leaf belongs to the recorder}}
  %0 = weft.leaf : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----
// expected-error@+1 {{argument 0 of @main has the type 'f32'; slices take tensors with static shapes}}
func.func @main(%x: f32) {
  return
}

// -----
// expected-error@+1 {{argument 0 of @main has the type 'tensor<2xcomplex<f32>>'; tensors have elements of f32, f64}}
func.func @main(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  return %x : tensor<2xcomplex<f32>>
}

// -----
// expected-error@+1 {{argument 1 of @main has the type 'tensor<2xindex>'; tensors have elements of}}
func.func @main(%x: tensor<2xf32>, %i: tensor<2xindex>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----
// expected-error@+1 {{argument 0 of @main has the type 'tensor<2xvector<2xf32>>'; tensors have elements of}}
func.func @main(%x: tensor<2xvector<2xf32>>) -> tensor<2xvector<2xf32>> {
  return %x : tensor<2xvector<2xf32>>
}

// -----
// expected-error@+1 {{argument 0 of @main has the type 'tensor<2xi7>'; tensors have elements of}}
func.func @main(%x: tensor<2xi7>) -> tensor<2xi7> {
  return %x : tensor<2xi7>
}

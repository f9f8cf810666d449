// RUN: weft-opt %s -split-input-file -verify-diagnostics | FileCheck %s
// Sizes that vary up to a largest one: a number and a name.

// CHECK-LABEL: @rows
// CHECK-SAME: tensor<64x4xf32, #weft.dims<n, _>>
func.func @rows(%x: tensor<64x4xf32, #weft.dims<n, _>>, %b: tensor<4xf32>) -> tensor<64x4xf32, #weft.dims<n, _>> {
  // CHECK: weft.broadcast {{.*}} to tensor<64x4xf32, #weft.dims<n, _>>
  %0 = weft.broadcast %b : tensor<4xf32> to tensor<64x4xf32, #weft.dims<n, _>>
  %1 = weft.add %x, %0 : tensor<64x4xf32, #weft.dims<n, _>>
  return %1 : tensor<64x4xf32, #weft.dims<n, _>>
}

// CHECK-LABEL: @product
func.func @product(%x: tensor<64x4xf32, #weft.dims<n, _>>) -> tensor<256xf32, #weft.dims<n.4>> {
  %0 = weft.reshape %x : tensor<64x4xf32, #weft.dims<n, _>> to tensor<256xf32, #weft.dims<n.4>>
  return %0 : tensor<256xf32, #weft.dims<n.4>>
}

// -----
// As many elements at the largest size are not as many at each.
func.func @f(%x: tensor<64x4xf32, #weft.dims<n, _>>) {
  // expected-error@+1 {{weft.reshape: cannot reshape float32[n, 4] to float32[256]: the numbers of elements differ}}
  %0 = weft.reshape %x : tensor<64x4xf32, #weft.dims<n, _>> to tensor<256xf32>
  return
}

// -----
func.func @f(%x: tensor<64xf32>) {
  // expected-error@+1 {{weft.broadcast: cannot broadcast float32[64] to float32[n]}}
  %0 = weft.broadcast %x : tensor<64xf32> to tensor<64xf32, #weft.dims<n>>
  return
}

// layer_norm reads a row once in vectors of 128 bits, and folds twice (mean, variance); the reductions over rows of its gradient are partial
// results and a second launch.
// RUN: weft-compile %s --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s
// RUN: weft-compile %s --target=cuda:sm_90 --emit=asm --name=net -o - | FileCheck %s

// CHECK-NOT: {{\.local|call}}
// CHECK: .visible .entry weft_net_
// CHECK-COUNT-3: ld.global{{(\.nc)?}}.v4
// CHECK: shfl.sync.bfly
// CHECK: shfl.sync.bfly
// CHECK-NOT: {{\.local|call}}
// CHECK: st.global.v4
// CHECK-NOT: {{\.local|call}}
func.func @main(%x: tensor<512x384xf32>, %w: tensor<384xf32>, %b: tensor<384xf32>) -> tensor<512x384xf32> {
  %0:3 = weft.layer_norm %x weight %w bias %b {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<512x384xf32>, tensor<384xf32>, tensor<384xf32>) -> (tensor<512x384xf32>, tensor<512xf32>, tensor<512xf32>)
  return %0#0 : tensor<512x384xf32>
}

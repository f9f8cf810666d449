// Reductions over everything and over the rows: vectors of 128 bits, partial results, and a second launch that adds them up in order.
// RUN: weft-compile %s --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s
// RUN: weft-compile %s --target=cuda:sm_80 --emit=plan -o - | FileCheck %s --check-prefix=PLAN

// CHECK-NOT: {{\.local|call|atom|[[:space:]]red\.}}
// CHECK: .visible .entry weft_net_
// CHECK: ld.global{{(\.nc)?}}.v4
// CHECK: .visible .entry weft_net_{{.*}}_finish
// CHECK-NOT: {{\.local|call|atom|[[:space:]]red\.}}
// PLAN: finish
func.func @main(%x: tensor<4096x256xf32>) -> (tensor<f32>, tensor<256xf32>) {
  %0 = weft.reduce_sum %x, dims = [0, 1] : tensor<4096x256xf32>
  %1 = weft.reduce_max %x, dims = [0] : tensor<4096x256xf32>
  return %0, %1 : tensor<f32>, tensor<256xf32>
}

// Elements of 8 and 16 bits: vectors of 8 a thread, computed in float32 and rounded after each op (bfloat16 by one instruction for two), or in integers; no local memory, no contraction to FMA.
// RUN: weft-compile %s --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s
// RUN: weft-compile %s --target=cuda:sm_90 --emit=asm --name=net -o - | FileCheck %s

// CHECK-NOT: .local
// CHECK: .visible .entry weft_net_k0_mul_add
// CHECK: ld.global{{(\.nc)?}}.v4.b32
// CHECK-NOT: fma
// CHECK-COUNT-8: mul.rn.f32
// CHECK-NOT: fma
// CHECK-COUNT-4: cvt.rn.bf16x2.f32
// CHECK-NOT: fma
// CHECK-COUNT-8: add.rn.f32
// CHECK-NOT: fma
// CHECK-COUNT-4: cvt.rn.bf16x2.f32
// CHECK: st.global.v4.b32
// CHECK: ret;

// CHECK: .visible .entry weft_net_k1_mul_add
// CHECK: ld.global{{(\.nc)?}}.v4.b32
// CHECK-NOT: fma
// CHECK: st.global.v4.b32
// CHECK: ret;

// CHECK: .visible .entry weft_net_k2_mul
// CHECK: ld.global{{(\.nc)?}}.v2.b32
// CHECK-COUNT-8: mul.lo.s16
// CHECK: st.global.v2.b32
// CHECK-NOT: .local

// Extrema of 16-bit integers are in 32 bits.
// CHECK: .visible .entry weft_net_k3_pow
// CHECK-NOT: max.s16
// CHECK: max.s32
func.func @main(%a: tensor<4096xbf16>, %b: tensor<4096xf16>, %c: tensor<4096xi8>, %d: tensor<4097xi16>) -> (tensor<4096xbf16>, tensor<4096xf16>, tensor<4096xi8>, tensor<4097xi16>) {
  %0 = weft.mul %a, %a : tensor<4096xbf16>
  %1 = weft.add %0, %a : tensor<4096xbf16>
  %2 = weft.mul %b, %b : tensor<4096xf16>
  %3 = weft.add %2, %b : tensor<4096xf16>
  %4 = weft.mul %c, %c : tensor<4096xi8>
  %5 = weft.pow %d, %d : tensor<4097xi16>
  return %1, %3, %4, %5 : tensor<4096xbf16>, tensor<4096xf16>, tensor<4096xi8>, tensor<4097xi16>
}

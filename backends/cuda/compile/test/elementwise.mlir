// One vector of 128 bits a thread, no local memory, no contraction to FMA, and a tail of scalars where the last vector is not full.
// RUN: weft-compile %s --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s
// RUN: weft-compile %s --target=cuda:sm_90 --emit=asm --name=net -o - | FileCheck %s --check-prefix=SM90
// RUN: weft-compile %s --target=cuda --emit=llvm --name=net -o - | FileCheck %s --check-prefix=LLVM
// RUN: not weft-compile %s --target=cuda:sm_10 --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=ARCHITECTURE
// RUN: not weft-compile %s --target=cuda:sm_80 --mcpu=sm_90 --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=TWICE

// CHECK: .target sm_80
// CHECK-NOT: .local
// CHECK: .visible .entry weft_net_
// CHECK: .reqntid 256
// CHECK-DAG: ld.global{{(\.nc)?}}.v4
// CHECK: mul.rn.f32
// CHECK: add.rn.f32
// CHECK-NOT: fma
// CHECK: st.global.v4
// CHECK: ret;
// SM90: .target sm_90
// LLVM: define ptx_kernel void @weft_net_
// ARCHITECTURE: there is no code generation for the GPU architecture 'sm_10'; known: sm_80
// TWICE: names a processor, and so does --mcpu=sm_90
func.func @main(%a: tensor<1000x130xf32>, %b: tensor<1000x130xf32>, %c: tensor<f32>) -> tensor<1000x130xf32> {
  %0 = weft.broadcast %c : tensor<f32> to tensor<1000x130xf32>
  %1 = weft.mul %a, %b : tensor<1000x130xf32>
  %2 = weft.add %1, %0 : tensor<1000x130xf32>
  return %2 : tensor<1000x130xf32>
}

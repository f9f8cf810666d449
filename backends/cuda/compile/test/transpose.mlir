// A transpose moves tiles through shared memory: each thread reads and writes what its neighbours' neighbours are.
// RUN: weft-compile %s --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s
// RUN: sed -e s/1000/8/g %s | weft-compile - --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s --check-prefix=THIN

// CHECK-NOT: {{\.local|call}}
// CHECK: .reqntid 256
// CHECK: .shared .align 16 .b8 {{.*}}[4224]
// CHECK: ld.global
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
// CHECK: st.global
// CHECK-NOT: {{\.local|call}}
// THIN-NOT: .shared
// THIN: st.global
func.func @main(%x: tensor<1000x1024xf32>) -> tensor<1024x1000xf32> {
  %0 = weft.transpose %x, [1, 0] : tensor<1000x1024xf32>
  %1 = weft.tanh %0 : tensor<1024x1000xf32>
  return %1 : tensor<1024x1000xf32>
}

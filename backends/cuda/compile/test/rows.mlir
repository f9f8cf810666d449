// softmax is one kernel that reads a row once: its vectors stay in registers; a warp folds by shuffles, a block through shared memory.
// RUN: weft-compile %s --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s
// RUN: sed -e s/384/4096/g %s | weft-compile - --target=cuda:sm_80 --emit=asm --name=net -o - | FileCheck %s --check-prefix=BLOCK

// CHECK-NOT: {{\.local|call}}
// CHECK-NOT: .shared
// CHECK: .visible .entry
// CHECK: .reqntid 128
// CHECK-COUNT-3: ld.global{{(\.nc)?}}.v4
// CHECK: shfl.sync.bfly
// CHECK-NOT: ld.global
// CHECK: st.global.v4
// BLOCK-NOT: {{\.local|call}}
// BLOCK: .reqntid 256
// BLOCK: .shared
// BLOCK: bar.sync
func.func @main(%x: tensor<512x384xf32>) -> tensor<512x384xf32> {
  %0 = weft.softmax %x, dim = 1 : tensor<512x384xf32>
  return %0 : tensor<512x384xf32>
}

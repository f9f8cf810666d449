// RUN: weft-opt %s | weft-opt | FileCheck %s
// RUN: weft-opt %s --emit-bytecode | weft-opt | FileCheck %s

// CHECK-LABEL: plan.kernel @k0_tanh(%{{.*}}: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {count = 4 : i64, {{.*}}in_place = array<i64: 0, 0>
plan.kernel @k0_tanh(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {count = 4 : i64, in_place = array<i64: 0, 0>} {
  %y = weft.fusion(%a = %x : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
    %0 = weft.tanh %a : tensor<4x4xf32>
    weft.yield %0 : tensor<4x4xf32>
  }
  plan.return %y : tensor<4x4xf32>
}

// CHECK-LABEL: plan.program @main(
// CHECK-SAME: !plan.buffer<64> {plan.donatable, plan.name = "x", plan.type = tensor<4x4xf32>}
plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<4x4xf32>, plan.name = "x", plan.donatable})
    -> (!plan.buffer<64> {plan.type = tensor<4x4xf32>}, !plan.buffer<0> {plan.type = tensor<0x4xf32>}) {
  // CHECK: %[[ARENA:.*]] = plan.arena : !plan.buffer<128>
  %arena = plan.arena : !plan.buffer<128>
  // CHECK: plan.view %[[ARENA]][64] : !plan.buffer<128> to !plan.buffer<64>
  %t = plan.view %arena[64] : !plan.buffer<128> to !plan.buffer<64>
  // CHECK: plan.constant dense<2.000000e+00> : tensor<4x4xf32> : !plan.buffer<64>
  %c = plan.constant dense<2.0> : tensor<4x4xf32> : !plan.buffer<64>
  %y = plan.output : !plan.buffer<64>
  %none = plan.output : !plan.buffer<0>
  // CHECK: plan.launch @k0_tanh ins(%{{.*}} : !plan.buffer<64>) outs(%{{.*}} : !plan.buffer<64>) serial
  plan.launch @k0_tanh ins(%x : !plan.buffer<64>) outs(%t : !plan.buffer<64>) serial
  // CHECK: plan.library_call "onednn.matmul" ins(%{{.*}}, %{{.*}} : !plan.buffer<64>, !plan.buffer<64>) outs(%{{.*}} : !plan.buffer<64>) as [tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>] config {transpose_lhs = true}
  plan.library_call "onednn.matmul" ins(%t, %c : !plan.buffer<64>, !plan.buffer<64>) outs(%y : !plan.buffer<64>) as [tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>] config {transpose_lhs = true}
  // CHECK: plan.return
  plan.return %y, %none : !plan.buffer<64>, !plan.buffer<0>
}

// CHECK-LABEL: plan.program @other
plan.program @other() -> (!plan.buffer<8> {plan.type = tensor<2xf32>}, !plan.buffer<8> {plan.type = tensor<2xf32>}) {
  %c = plan.constant dense<[1.0, 2.0]> : tensor<2xf32> : !plan.buffer<8>
  %0 = plan.output : !plan.buffer<8>
  %1 = plan.output : !plan.buffer<8>
  // CHECK: plan.copy %{{.*}} to %{{.*}} : !plan.buffer<8> to !plan.buffer<8>
  plan.copy %c to %0 : !plan.buffer<8> to !plan.buffer<8>
  // CHECK: plan.fill %{{.*}} with 0 width 4 : !plan.buffer<8>
  plan.fill %1 with 0 width 4 : !plan.buffer<8>
  plan.return %0, %1 : !plan.buffer<8>, !plan.buffer<8>
}

// CHECK-LABEL: plan.program @pieces
plan.program @pieces(%x: !plan.buffer<128> {plan.type = tensor<4x8xf32>}, %y: !plan.buffer<64> {plan.type = tensor<4x4xf32>})
    -> (!plan.buffer<128> {plan.type = tensor<8x4xf32>}) {
  %z = plan.output : !plan.buffer<128>
  // CHECK: plan.pieces 2 ins(%{{.*}}, %{{.*}} : !plan.buffer<128>, !plan.buffer<64>) outs(%{{.*}} : !plan.buffer<128>) steps [16, 0, 64] {
  // CHECK-NEXT: ^bb0(%{{.*}}: !plan.buffer<112>, %{{.*}}: !plan.buffer<64>, %{{.*}}: !plan.buffer<64>):
  plan.pieces 2 ins(%x, %y : !plan.buffer<128>, !plan.buffer<64>) outs(%z : !plan.buffer<128>) steps [16, 0, 64] {
  ^bb0(%xi: !plan.buffer<112>, %yi: !plan.buffer<64>, %zi: !plan.buffer<64>):
    // CHECK: plan.library_call {{.*}} config {transpose_lhs = true} {plan.strides = [array<i64: 8, 1>, array<i64>, array<i64>]}
    plan.library_call "onednn.matmul" ins(%xi, %yi : !plan.buffer<112>, !plan.buffer<64>) outs(%zi : !plan.buffer<64>)
        as [tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>] config {transpose_lhs = true} {plan.strides = [array<i64: 8, 1>, array<i64>, array<i64>]}
  }
  plan.return %z : !plan.buffer<128>
}

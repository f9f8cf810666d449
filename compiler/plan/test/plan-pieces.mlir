// RUN: weft-opt %s --plan-pieces="least=32768 most=16384" --split-input-file | FileCheck %s
// RUN: weft-opt %s --plan-pieces="least=32768 most=16384 report=true" --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT
// RUN: weft-opt %s --plan-pieces="least=32768 most=16384" --plan-order --plan-in-place --plan-pack --plan-verify --split-input-file | FileCheck %s --check-prefix=MEMORY
// RUN: weft-opt %s --plan-pieces="least=32768 most=8192" --split-input-file | FileCheck %s --check-prefix=FEWEST

// Momentum: the gradient of 256 rows is made 64 at a time. Rows of dy^T are columns of dy.
// CHECK-NOT: @sgd(
// CHECK: plan.kernel @sgd_rows64(%{{.*}}: tensor<64x64xf32>, %{{.*}}: tensor<64x64xf32>, %{{.*}}: tensor<64x64xf32>, %{{.*}}: tensor<f32>) -> (tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK: weft.constant dense<0.899999976> : tensor<64x64xf32>
// CHECK: weft.broadcast %{{.*}} : tensor<f32> to tensor<64x64xf32>
// CHECK-NOT: 256x64
plan.kernel @sgd(%m: tensor<256x64xf32>, %g: tensor<256x64xf32>, %w: tensor<256x64xf32>, %lr: tensor<f32>) -> (tensor<256x64xf32>, tensor<256x64xf32>)
    attributes {in_place = array<i64: 0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2>} {
  %0:2 = weft.fusion(%arg0 = %m : tensor<256x64xf32>, %arg1 = %g : tensor<256x64xf32>, %arg2 = %w : tensor<256x64xf32>, %arg3 = %lr : tensor<f32>)
      -> (tensor<256x64xf32>, tensor<256x64xf32>) {
    %1 = weft.constant dense<0.9> : tensor<256x64xf32>
    %2 = weft.mul %arg0, %1 : tensor<256x64xf32>
    %3 = weft.add %2, %arg1 : tensor<256x64xf32>
    %4 = weft.neg %arg3 : tensor<f32>
    %5 = weft.broadcast %4 : tensor<f32> to tensor<256x64xf32>
    %6 = weft.mul %3, %5 : tensor<256x64xf32>
    %7 = weft.add %arg2, %6 : tensor<256x64xf32>
    weft.yield %3, %7 : tensor<256x64xf32>, tensor<256x64xf32>
  }
  plan.return %0#0, %0#1 : tensor<256x64xf32>, tensor<256x64xf32>
}
// CHECK-LABEL: plan.program @main
// CHECK-SAME: %[[DY:[^:]*]]: !plan.buffer<8192> {{{[^}]*}}}, %[[X:[^:]*]]: !plan.buffer<2048> {{{[^}]*}}}, %[[W:[^:]*]]: !plan.buffer<65536> {{{[^}]*}}}, %[[M:[^:]*]]: !plan.buffer<65536> {{{[^}]*}}}, %[[LR:[^:]*]]: !plan.buffer<4>
// What is written in place is written piece by piece: nothing but a piece lies in the arena.
// The library cuts no fewer than 64 rows, so a piece has that many where they are more bytes than a
// piece should be.
// FEWEST-LABEL: plan.program @main
// FEWEST: plan.pieces 4
// MEMORY-LABEL: plan.program @main
// MEMORY-SAME: %[[W:[^:]*]]: !plan.buffer<65536> {{{[^}]*}}}, %[[M:[^:]*]]: !plan.buffer<65536>
plan.program @main(%dy: !plan.buffer<8192> {plan.type = tensor<8x256xf32>}, %x: !plan.buffer<2048> {plan.type = tensor<8x64xf32>},
                   %w: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable}, %m: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable},
                   %lr: !plan.buffer<4> {plan.type = tensor<f32>})
    -> (!plan.buffer<65536> {plan.type = tensor<256x64xf32>}, !plan.buffer<65536> {plan.type = tensor<256x64xf32>}) {
  // CHECK-DAG: %[[M2:.*]] = plan.output : !plan.buffer<65536>
  // CHECK-DAG: %[[W2:.*]] = plan.output : !plan.buffer<65536>
  // CHECK: %[[G:.*]] = plan.alloc : !plan.buffer<16384>
  // CHECK: plan.pieces 4 ins(%[[DY]], %[[X]], %[[M]], %[[W]], %[[LR]] :
  // CHECK-SAME: outs(%{{.*}}, %{{.*}} : !plan.buffer<65536>, !plan.buffer<65536>) locals(%[[G]] : !plan.buffer<16384>) steps [256, 0, 16384, 16384, 0, 16384, 16384, 0]
  // CHECK-NEXT: ^bb0(%[[DYI:[^:]*]]: !plan.buffer<7424>, %[[XI:[^:]*]]: !plan.buffer<2048>, %[[MI:[^:]*]]: !plan.buffer<16384>, %[[WI:[^:]*]]: !plan.buffer<16384>, %[[LRI:[^:]*]]: !plan.buffer<4>, %[[M2I:[^:]*]]: !plan.buffer<16384>, %[[W2I:[^:]*]]: !plan.buffer<16384>, %[[GI:[^:]*]]: !plan.buffer<16384>)
  // CHECK-NEXT: plan.library_call "onednn.matmul" ins(%[[DYI]], %[[XI]] : !plan.buffer<7424>, !plan.buffer<2048>) outs(%[[GI]] : !plan.buffer<16384>)
  // CHECK-SAME: as [tensor<8x64xf32>, tensor<8x64xf32>, tensor<64x64xf32>] config {dense_lhs = 1 : i64, transpose_lhs = 1 : i64} {plan.strides = [array<i64: 256, 1>, array<i64>, array<i64>]}
  // CHECK-NEXT: plan.launch @sgd_rows64 ins(%[[MI]], %[[GI]], %[[WI]], %[[LRI]] :
  // CHECK-SAME: outs(%[[M2I]], %[[W2I]] :
  // MEMORY-DAG: plan.arena : !plan.buffer<16384>
  // MEMORY-DAG: %[[M2:.*]] = plan.view %[[M]][0]
  // MEMORY-DAG: %[[W2:.*]] = plan.view %[[W]][0]
  // MEMORY: plan.pieces 4
  // MEMORY-SAME: outs(%[[M2]], %[[W2]] :
  // MEMORY: plan.return %[[W2]], %[[M2]]
  %g = plan.alloc : !plan.buffer<65536>
  %m2 = plan.output : !plan.buffer<65536>
  %w2 = plan.output : !plan.buffer<65536>
  plan.library_call "onednn.matmul" ins(%dy, %x : !plan.buffer<8192>, !plan.buffer<2048>) outs(%g : !plan.buffer<65536>)
      as [tensor<8x256xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {transpose_lhs = 1 : i64}
  plan.launch @sgd ins(%m, %g, %w, %lr : !plan.buffer<65536>, !plan.buffer<65536>, !plan.buffer<65536>, !plan.buffer<4>)
      outs(%m2, %w2 : !plan.buffer<65536>, !plan.buffer<65536>)
  plan.return %w2, %m2 : !plan.buffer<65536>, !plan.buffer<65536>
}

// -----

// What lies in rows is cut as it lies.
plan.kernel @sgd(%w: tensor<256x64xf32>, %g: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %0 = weft.fusion(%arg0 = %w : tensor<256x64xf32>, %arg1 = %g : tensor<256x64xf32>) -> (tensor<256x64xf32>) {
    %1 = weft.sub %arg0, %arg1 : tensor<256x64xf32>
    weft.yield %1 : tensor<256x64xf32>
  }
  plan.return %0 : tensor<256x64xf32>
}
// CHECK-LABEL: plan.program @main
plan.program @main(%a: !plan.buffer<8192> {plan.type = tensor<256x8xf32>}, %b: !plan.buffer<2048> {plan.type = tensor<8x64xf32>},
                   %w: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable})
    -> (!plan.buffer<65536> {plan.type = tensor<256x64xf32>}) {
  // CHECK: plan.pieces 4
  // CHECK-SAME: steps [2048, 0, 16384, 16384, 0]
  // CHECK: plan.library_call
  // CHECK-SAME: as [tensor<64x8xf32>, tensor<8x64xf32>, tensor<64x64xf32>] config {} {plan.strides = [array<i64>, array<i64>, array<i64>]}
  %g = plan.alloc : !plan.buffer<65536>
  %w2 = plan.output : !plan.buffer<65536>
  plan.library_call "onednn.matmul" ins(%a, %b : !plan.buffer<8192>, !plan.buffer<2048>) outs(%g : !plan.buffer<65536>)
      as [tensor<256x8xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {}
  plan.launch @sgd ins(%w, %g : !plan.buffer<65536>, !plan.buffer<65536>) outs(%w2 : !plan.buffer<65536>)
  plan.return %w2 : !plan.buffer<65536>
}

// -----

// A gradient that somebody holds, or that the norm of gradients reads, stays whole.
plan.kernel @sgd(%w: tensor<256x64xf32>, %g: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %0 = weft.fusion(%arg0 = %w : tensor<256x64xf32>, %arg1 = %g : tensor<256x64xf32>) -> (tensor<256x64xf32>) {
    %1 = weft.sub %arg0, %arg1 : tensor<256x64xf32>
    weft.yield %1 : tensor<256x64xf32>
  }
  plan.return %0 : tensor<256x64xf32>
}
plan.kernel @norm(%g: tensor<256x64xf32>) -> tensor<f32> {
  %0 = weft.fusion(%arg0 = %g : tensor<256x64xf32>) -> (tensor<f32>) {
    %1 = weft.reduce_sum %arg0, dims = [0, 1] : tensor<256x64xf32>
    weft.yield %1 : tensor<f32>
  }
  plan.return %0 : tensor<f32>
}
// CHECK-LABEL: plan.program @main
// REPORT-DAG: refused 1 x gradient-is-held:
// REPORT-DAG: refused 1 x gradient-read-elsewhere:
plan.program @main(%a: !plan.buffer<8192> {plan.type = tensor<256x8xf32>}, %b: !plan.buffer<2048> {plan.type = tensor<8x64xf32>},
                   %v: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable}, %w: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable})
    -> (!plan.buffer<65536> {plan.type = tensor<256x64xf32>}, !plan.buffer<65536> {plan.type = tensor<256x64xf32>},
        !plan.buffer<65536> {plan.type = tensor<256x64xf32>}, !plan.buffer<4> {plan.type = tensor<f32>}) {
  // CHECK-NOT: plan.pieces
  %g = plan.alloc : !plan.buffer<65536>
  %held = plan.output : !plan.buffer<65536>
  %v2 = plan.output : !plan.buffer<65536>
  %w2 = plan.output : !plan.buffer<65536>
  %n = plan.output : !plan.buffer<4>
  plan.library_call "onednn.matmul" ins(%a, %b : !plan.buffer<8192>, !plan.buffer<2048>) outs(%held : !plan.buffer<65536>)
      as [tensor<256x8xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {}
  plan.launch @sgd ins(%v, %held : !plan.buffer<65536>, !plan.buffer<65536>) outs(%v2 : !plan.buffer<65536>)
  plan.library_call "onednn.matmul" ins(%a, %b : !plan.buffer<8192>, !plan.buffer<2048>) outs(%g : !plan.buffer<65536>)
      as [tensor<256x8xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {}
  plan.launch @norm ins(%g : !plan.buffer<65536>) outs(%n : !plan.buffer<4>)
  plan.launch @sgd ins(%w, %g : !plan.buffer<65536>, !plan.buffer<65536>) outs(%w2 : !plan.buffer<65536>)
  plan.return %w2, %held, %v2, %n : !plan.buffer<65536>, !plan.buffer<65536>, !plan.buffer<65536>, !plan.buffer<4>
}

// -----

// So does one whose rows depend on each other, one that no count divides, one of a call that is more
// than a product, and one of a library that is not known; of a product that updates nothing, nothing
// is said.
plan.kernel @centred(%w: tensor<256x64xf32>, %g: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %0 = weft.fusion(%arg0 = %w : tensor<256x64xf32>, %arg1 = %g : tensor<256x64xf32>) -> (tensor<256x64xf32>) {
    %1 = weft.reduce_sum %arg1, dims = [0] : tensor<256x64xf32>
    %2 = weft.broadcast %1 : tensor<64xf32> to tensor<256x64xf32>
    %3 = weft.sub %arg0, %2 : tensor<256x64xf32>
    weft.yield %3 : tensor<256x64xf32>
  }
  plan.return %0 : tensor<256x64xf32>
}
plan.kernel @sgd(%w: tensor<256x64xf32>, %g: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %0 = weft.fusion(%arg0 = %w : tensor<256x64xf32>, %arg1 = %g : tensor<256x64xf32>) -> (tensor<256x64xf32>) {
    %1 = weft.sub %arg0, %arg1 : tensor<256x64xf32>
    weft.yield %1 : tensor<256x64xf32>
  }
  plan.return %0 : tensor<256x64xf32>
}
plan.kernel @prime(%w: tensor<257x64xf32>, %g: tensor<257x64xf32>) -> tensor<257x64xf32> {
  %0 = weft.fusion(%arg0 = %w : tensor<257x64xf32>, %arg1 = %g : tensor<257x64xf32>) -> (tensor<257x64xf32>) {
    %1 = weft.sub %arg0, %arg1 : tensor<257x64xf32>
    weft.yield %1 : tensor<257x64xf32>
  }
  plan.return %0 : tensor<257x64xf32>
}
// CHECK-LABEL: plan.program @main
// REPORT-NOT: refused 2
// REPORT-DAG: refused 1 x update-not-by-rows:
// REPORT-DAG: refused 1 x uneven-rows:
// REPORT-DAG: refused 1 x more-than-a-product:
// REPORT-DAG: refused 1 x no-rows:
plan.program @main(%a: !plan.buffer<8192> {plan.type = tensor<256x8xf32>}, %b: !plan.buffer<2048> {plan.type = tensor<8x64xf32>}, %c: !plan.buffer<8224> {plan.type = tensor<257x8xf32>},
                   %u: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable}, %v: !plan.buffer<65792> {plan.type = tensor<257x64xf32>, plan.donatable},
                   %w: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable}, %y: !plan.buffer<65536> {plan.type = tensor<256x64xf32>, plan.donatable},
                   %z: !plan.buffer<65536> {plan.type = tensor<256x64xf32>})
    -> (!plan.buffer<65536> {plan.type = tensor<256x64xf32>}, !plan.buffer<65792> {plan.type = tensor<257x64xf32>}, !plan.buffer<65536> {plan.type = tensor<256x64xf32>},
        !plan.buffer<65536> {plan.type = tensor<256x64xf32>}, !plan.buffer<65536> {plan.type = tensor<256x64xf32>}) {
  // CHECK-NOT: plan.pieces
  %0 = plan.alloc : !plan.buffer<65536>
  %1 = plan.alloc : !plan.buffer<65792>
  %2 = plan.alloc : !plan.buffer<65536>
  %3 = plan.alloc : !plan.buffer<65536>
  %4 = plan.alloc : !plan.buffer<65536>
  %u2 = plan.output : !plan.buffer<65536>
  %v2 = plan.output : !plan.buffer<65792>
  %w2 = plan.output : !plan.buffer<65536>
  %y2 = plan.output : !plan.buffer<65536>
  %z2 = plan.output : !plan.buffer<65536>
  plan.library_call "onednn.matmul" ins(%a, %b : !plan.buffer<8192>, !plan.buffer<2048>) outs(%0 : !plan.buffer<65536>)
      as [tensor<256x8xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {}
  plan.launch @centred ins(%u, %0 : !plan.buffer<65536>, !plan.buffer<65536>) outs(%u2 : !plan.buffer<65536>)
  plan.library_call "onednn.matmul" ins(%c, %b : !plan.buffer<8224>, !plan.buffer<2048>) outs(%1 : !plan.buffer<65792>)
      as [tensor<257x8xf32>, tensor<8x64xf32>, tensor<257x64xf32>] config {}
  plan.launch @prime ins(%v, %1 : !plan.buffer<65792>, !plan.buffer<65792>) outs(%v2 : !plan.buffer<65792>)
  plan.library_call "onednn.matmul" ins(%a, %b : !plan.buffer<8192>, !plan.buffer<2048>) outs(%2 : !plan.buffer<65536>)
      as [tensor<256x8xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {post_ops = "relu"}
  plan.launch @sgd ins(%w, %2 : !plan.buffer<65536>, !plan.buffer<65536>) outs(%w2 : !plan.buffer<65536>)
  plan.library_call "other.matmul" ins(%a, %b : !plan.buffer<8192>, !plan.buffer<2048>) outs(%3 : !plan.buffer<65536>)
      as [tensor<256x8xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {}
  plan.launch @sgd ins(%y, %3 : !plan.buffer<65536>, !plan.buffer<65536>) outs(%y2 : !plan.buffer<65536>)
  plan.library_call "onednn.matmul" ins(%a, %b : !plan.buffer<8192>, !plan.buffer<2048>) outs(%4 : !plan.buffer<65536>)
      as [tensor<256x8xf32>, tensor<8x64xf32>, tensor<256x64xf32>] config {}
  plan.launch @sgd ins(%z, %4 : !plan.buffer<65536>, !plan.buffer<65536>) outs(%z2 : !plan.buffer<65536>)
  plan.return %u2, %v2, %w2, %y2, %z2 : !plan.buffer<65536>, !plan.buffer<65792>, !plan.buffer<65536>, !plan.buffer<65536>, !plan.buffer<65536>
}

// RUN: weft-opt %s --weft-schedule="cpu=x86-64-v3" | FileCheck %s --check-prefixes=CHECK,V3
// RUN: weft-opt %s --weft-schedule="cpu=x86-64-v4" | FileCheck %s --check-prefixes=CHECK,V4
// RUN: weft-opt %s --weft-schedule="cpu=x86-64-v3" -o %t && weft-opt %t --weft-schedule="cpu=x86-64-v3" | diff %t -
// RUN: weft-opt %s --weft-schedule="cpu=x86-64-v3 alternatives" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALSO
// RUN: not weft-opt %s --weft-schedule="cpu=none" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: weft-opt %s --weft-pin-schedules="file=%S/pins.txt" --weft-schedule="cpu=x86-64-v3" 2>&1 | FileCheck %s --check-prefix=PINNED
// RUN: weft-opt %s --weft-pin-schedules="file=%S/pins.txt" --weft-phase=plan | FileCheck %s --check-prefix=PLAN
// RUN: weft-opt %s --weft-pin-schedules="file=%S/pins.txt" --weft-phase=plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOTTAKEN
// RUN: not weft-opt %s --weft-pin-schedules="file=%S/no.txt" 2>&1 | FileCheck %s --check-prefix=NOFILE

// What holds is written on the fusion, and is the same when it is read again.
// CHECK: weft.fusion({{.*}}) -> (tensor<64xf32>) attributes {weft.schedule = {body = "rows_together", grain = {{[0-9]+}} : i64,
// V3-SAME: rows = 2 : i64, vectors = 2 : i64}}
// V4-SAME: rows = 4 : i64, vectors = 2 : i64}}
// CHECK: weft.fusion({{.*}}) -> (tensor<4000xf32>) attributes {weft.schedule = {{.*}}piece = 1024 : i64, vectors = 1 : i64}}

// ALSO-NOT: see current operation
// ALSO: remark: schedule: body = rows_together of rows, rows_together
// ALSO: remark: schedule: rows = 2 of 2, 3, 4, 8
// ALSO: remark: schedule: vectors = 1 of 1, 2, 4, 8
// ALSO-NOT: see current operation
// NONE: error: {{.*}}none

// Pinned values hold where the kernel can have them.
// PINNED: warning: schedule: vectors = 3 is none of 1, 2, 4, 8
// PINNED: warning: schedule: the kernel has no choice 'tiles', but vectors, piece, grain
// PINNED: rows = 4 : i64, vectors = 4 : i64}}
// PINNED: vectors = 1 : i64}}

// The plan says what was chosen; what the fusion had pinned stays beside it.
// PLAN: plan.kernel @k0_mul_reduce_sum{{.*}}plan.schedule = {body = "rows_together", grain = {{[0-9]+}} : i64, rows = 4 : i64, vectors = 4 : i64}
// PLAN: weft.schedule = {rows = 4 : i64, vectors = 4 : i64}
// NOTTAKEN: warning: schedule: refused 2 x pin-not-taken: vectors = 3 is none of 1, 2, 4, 8
// NOFILE: error: cannot read the schedules in '{{.*}}no.txt'
func.func @main(%x: tensor<64x5000xf32>, %v: tensor<5000xf32>, %y: tensor<4000xf32>) -> (tensor<64xf32>, tensor<4000xf32>) {
  %0 = weft.fusion(%a = %x : tensor<64x5000xf32>, %b = %v : tensor<5000xf32>) -> (tensor<64xf32>) {
    %1 = weft.broadcast %b : tensor<5000xf32> to tensor<64x5000xf32>
    %2 = weft.mul %a, %1 : tensor<64x5000xf32>
    %3 = weft.reduce_sum %2, dims = [1] : tensor<64x5000xf32>
    weft.yield %3 : tensor<64xf32>
  }
  %4 = weft.fusion(%a = %y : tensor<4000xf32>) -> (tensor<4000xf32>) {
    %5 = weft.tanh %a : tensor<4000xf32>
    weft.yield %5 : tensor<4000xf32>
  }
  return %0, %4 : tensor<64xf32>, tensor<4000xf32>
}

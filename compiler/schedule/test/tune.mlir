// RUN: weft-opt %s --weft-tune="seconds=20 pins=%t.txt" -o %t.mlir 2>&1 | FileCheck %s --check-prefix=SAID
// RUN: weft-opt %t.mlir --weft-schedule | FileCheck %s
// RUN: weft-opt %s --weft-pin-schedules="file=%t.txt" --weft-schedule -o %t.pinned.mlir
// RUN: weft-opt %t.mlir --weft-schedule | diff - %t.pinned.mlir
// RUN: weft-opt %s --weft-tune="seconds=0" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not weft-opt %s --weft-tune="seconds=0 pins=/no/such/folder/file" 2>&1 | FileCheck %s --check-prefix=FILE

// Equal kernels are measured once, and pinned alike.
// SAID: remark: schedule: measured 2 of 2 kernels, and pinned choices of {{[0-2]}}
// NONE: remark: schedule: measured 0 of 2 kernels, and pinned choices of 0
// FILE: error: cannot write the schedules to '/no/such/folder/file'
// CHECK-COUNT-3: attributes {weft.schedule
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
  %6 = weft.fusion(%a = %4 : tensor<4000xf32>) -> (tensor<4000xf32>) {
    %7 = weft.tanh %a : tensor<4000xf32>
    weft.yield %7 : tensor<4000xf32>
  }
  return %0, %6 : tensor<64xf32>, tensor<4000xf32>
}

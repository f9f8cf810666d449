// RUN: weft-opt %s --weft-to-plan --split-input-file | FileCheck %s

// Equal fusions are one kernel; the values between them get buffers, the returned one the caller's.
// CHECK: plan.kernel @k0_tanh
// CHECK-NOT: plan.kernel
// CHECK: plan.program @main(
// CHECK-SAME: %[[X:.*]]: !plan.buffer<32> {plan.donatable, plan.name = "x", plan.type = tensor<8xf32>}
// CHECK-SAME: -> (!plan.buffer<32> {plan.type = tensor<8xf32>})
func.func @main(%x: tensor<8xf32> {weft.donatable, weft.name = "x"}) -> tensor<8xf32> {
  // CHECK: %[[T:.*]] = plan.alloc : !plan.buffer<32>
  // CHECK: plan.launch @k0_tanh ins(%[[X]] : !plan.buffer<32>) outs(%[[T]] : !plan.buffer<32>)
  %0 = weft.fusion(%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %t = weft.tanh %a : tensor<8xf32>
    weft.yield %t : tensor<8xf32>
  }
  // CHECK: %[[Y:.*]] = plan.output : !plan.buffer<32>
  // CHECK: plan.launch @k0_tanh ins(%[[T]] : !plan.buffer<32>) outs(%[[Y]] : !plan.buffer<32>)
  %1 = weft.fusion(%a = %0 : tensor<8xf32>) -> (tensor<8xf32>) {
    %t = weft.tanh %a : tensor<8xf32>
    weft.yield %t : tensor<8xf32>
  }
  // CHECK: plan.return %[[Y]] : !plan.buffer<32>
  return %1 : tensor<8xf32>
}

// -----

// A reshape is the same buffer; an input and a buffer returned twice need no copy, a constant needs one.
// CHECK: plan.program @main(
// CHECK-SAME: %[[X:[^:]*]]:
func.func @main(%x: tensor<2x3xf32>) -> (tensor<6xf32>, tensor<2xf32>, tensor<2xf32>, tensor<6xf32>, tensor<3x2xf32>) {
  // CHECK: %[[C:.*]] = plan.constant dense<1.000000e+00>
  %c = weft.constant dense<1.0> : tensor<2xf32>
  %r = weft.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  // CHECK: %[[Y:.*]] = plan.output : !plan.buffer<24>
  // CHECK: plan.launch @k0_neg ins(%[[X]] : !plan.buffer<24>) outs(%[[Y]] : !plan.buffer<24>)
  %n = weft.fusion(%a = %r : tensor<6xf32>) -> (tensor<6xf32>) {
    %t = weft.neg %a : tensor<6xf32>
    weft.yield %t : tensor<6xf32>
  }
  %m = weft.reshape %n : tensor<6xf32> to tensor<3x2xf32>
  // CHECK: %[[COPY:.*]] = plan.output : !plan.buffer<8>
  // CHECK: plan.copy %[[C]] to %[[COPY]]
  // CHECK: plan.return %[[X]], %[[COPY]], %[[COPY]], %[[Y]], %[[Y]]
  return %r, %c, %c, %n, %m : tensor<6xf32>, tensor<2xf32>, tensor<2xf32>, tensor<6xf32>, tensor<3x2xf32>
}

// -----

// What writes only empty tensors is no instruction.
// CHECK: plan.program @main(
// CHECK-NOT: plan.launch
func.func @main(%x: tensor<0x3xf32>) -> tensor<0x3xf32> {
  // CHECK: %[[Y:.*]] = plan.output : !plan.buffer<0>
  %n = weft.fusion(%a = %x : tensor<0x3xf32>) -> (tensor<0x3xf32>) {
    %t = weft.neg %a : tensor<0x3xf32>
    weft.yield %t : tensor<0x3xf32>
  }
  // CHECK: plan.return %[[Y]]
  return %n : tensor<0x3xf32>
}

// -----

// CHECK: plan.program @main(
func.func @main(%x: tensor<2x3xf32>, %w: tensor<4x3xf32> {weft.parameter = "w", weft.stable}) -> tensor<2x4xf32> {
  // CHECK: plan.library_call "onednn.matmul" ins(%{{.*}}, %{{.*}} : !plan.buffer<24>, !plan.buffer<48>) outs(%{{.*}} : !plan.buffer<32>) as [tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x4xf32>] config {transpose_rhs = true}
  %y = weft.provider_call "onednn.matmul"(%a = %x : tensor<2x3xf32>, %b = %w : tensor<4x3xf32>) -> (tensor<2x4xf32>) config {transpose_rhs = true} {
    %0 = weft.matmul %a, %b {transpose_rhs = true} : tensor<2x3xf32>, tensor<4x3xf32>
    weft.yield %0 : tensor<2x4xf32>
  }
  return %y : tensor<2x4xf32>
}

// -----

// A slice whose bytes are in a row is a view: kernels that differ in where they slice only are one, and copies are none.
// CHECK: plan.kernel @k0_add(%{{.*}}: tensor<1x16xf32>, %{{.*}}: tensor<1x16xf32>)
// CHECK-NOT: weft.slice
// CHECK-NOT: plan.kernel
// CHECK: plan.program @main(
// CHECK-SAME: %[[X:[^:]*]]: !plan.buffer<192>
func.func @main(%x: tensor<3x16xf32>, %y: tensor<1x16xf32>) -> tensor<1x16xf32> {
  // CHECK: %[[P:.*]] = plan.view %[[X]][64] {plan.part} : !plan.buffer<192> to !plan.buffer<64>
  // CHECK: plan.launch @k0_add ins(%[[P]], %{{.*}}) outs(%[[A:.*]] : !plan.buffer<64>)
  %0 = weft.fusion(%a = %x : tensor<3x16xf32>, %b = %y : tensor<1x16xf32>) -> (tensor<1x16xf32>) {
    %s = weft.slice %a[[1, 0] : [2, 16] : [1, 1]] : tensor<3x16xf32>
    %t = weft.add %s, %b : tensor<1x16xf32>
    weft.yield %t : tensor<1x16xf32>
  }
  // CHECK: %[[Q:.*]] = plan.view %[[X]][128] {plan.part}
  // CHECK: plan.launch @k0_add ins(%[[Q]], %[[A]]
  %1 = weft.fusion(%a = %x : tensor<3x16xf32>, %b = %0 : tensor<1x16xf32>) -> (tensor<1x16xf32>) {
    %s = weft.slice %a[[2, 0] : [3, 16] : [1, 1]] : tensor<3x16xf32>
    %t = weft.add %s, %b : tensor<1x16xf32>
    weft.yield %t : tensor<1x16xf32>
  }
  // CHECK: %[[R:.*]] = plan.view %[[X]][0] {plan.part}
  // CHECK: %[[S:.*]] = plan.view %[[X]][64] {plan.part}
  // CHECK: plan.launch @k0_add ins(%[[R]], %[[S]]
  %2:2 = weft.fusion(%a = %x : tensor<3x16xf32>) -> (tensor<1x16xf32>, tensor<1x16xf32>) {
    %s = weft.slice %a[[0, 0] : [1, 16] : [1, 1]] : tensor<3x16xf32>
    %t = weft.slice %a[[1, 0] : [2, 16] : [1, 1]] : tensor<3x16xf32>
    weft.yield %s, %t : tensor<1x16xf32>, tensor<1x16xf32>
  }
  %3 = weft.fusion(%a = %2#0 : tensor<1x16xf32>, %b = %2#1 : tensor<1x16xf32>) -> (tensor<1x16xf32>) {
    %t = weft.add %a, %b : tensor<1x16xf32>
    weft.yield %t : tensor<1x16xf32>
  }
  %4 = weft.fusion(%a = %1 : tensor<1x16xf32>, %b = %3 : tensor<1x16xf32>) -> (tensor<1x16xf32>) {
    %t = weft.add %a, %b : tensor<1x16xf32>
    weft.yield %t : tensor<1x16xf32>
  }
  return %4 : tensor<1x16xf32>
}

// -----

// A part that a kernel reads may begin at any element.
// CHECK: plan.kernel @k0_tanh(%{{.*}}: tensor<1x5xf32>)
// CHECK-NOT: plan.kernel
// CHECK: plan.program @main(%[[X:[^:]*]]:
// CHECK: %[[R:.*]] = plan.view %[[X]][20] {plan.part}
// CHECK: plan.launch @k0_tanh ins(%[[R]]
// CHECK: %[[S:.*]] = plan.view %[[X]][40] {plan.part}
// CHECK: plan.launch @k0_tanh ins(%[[S]]
func.func @main(%x: tensor<3x5xf32>) -> (tensor<1x5xf32>, tensor<1x5xf32>) {
  %0 = weft.fusion(%a = %x : tensor<3x5xf32>) -> (tensor<1x5xf32>) {
    %s = weft.slice %a[[1, 0] : [2, 5] : [1, 1]] : tensor<3x5xf32>
    %t = weft.tanh %s : tensor<1x5xf32>
    weft.yield %t : tensor<1x5xf32>
  }
  %1 = weft.fusion(%a = %x : tensor<3x5xf32>) -> (tensor<1x5xf32>) {
    %s = weft.slice %a[[2, 0] : [3, 5] : [1, 1]] : tensor<3x5xf32>
    %t = weft.tanh %s : tensor<1x5xf32>
    weft.yield %t : tensor<1x5xf32>
  }
  return %0, %1 : tensor<1x5xf32>, tensor<1x5xf32>
}

// -----

// Of four fusions that are equal but for where they read, the operand is a part of several runs: step t of x [2, 4, 5] begins
// at element 5 t, and its second run lies 20 elements, 4 of its own size, behind the first.
// CHECK: plan.kernel @k0_slice_tanh(%{{.*}}: tensor<5x5xf32>)
// CHECK: weft.slice %{{.*}}{{\[\[}}0, 0] : [5, 5] : [4, 1]] : tensor<5x5xf32>
// CHECK: weft.reshape %{{.*}} : tensor<2x5xf32> to tensor<2x1x5xf32>
// CHECK-NOT: plan.kernel
// CHECK: plan.program @main(%[[X:[^:]*]]:
// CHECK: plan.view %[[X]][0] {plan.part} : !plan.buffer<160> to !plan.buffer<100>
// CHECK: plan.launch @k0_slice_tanh
// CHECK: plan.view %[[X]][20] {plan.part} : !plan.buffer<160> to !plan.buffer<100>
// CHECK: plan.launch @k0_slice_tanh
// CHECK: plan.view %[[X]][40] {plan.part} : !plan.buffer<160> to !plan.buffer<100>
// CHECK: plan.launch @k0_slice_tanh
// CHECK: plan.view %[[X]][60] {plan.part} : !plan.buffer<160> to !plan.buffer<100>
// CHECK: plan.launch @k0_slice_tanh
func.func @main(%x: tensor<2x4x5xf32>) -> (tensor<2x1x5xf32>, tensor<2x1x5xf32>, tensor<2x1x5xf32>, tensor<2x1x5xf32>) {
  %0 = weft.fusion(%a = %x : tensor<2x4x5xf32>) -> (tensor<2x1x5xf32>) {
    %s = weft.slice %a[[0, 0, 0] : [2, 1, 5] : [1, 1, 1]] : tensor<2x4x5xf32>
    %t = weft.tanh %s : tensor<2x1x5xf32>
    weft.yield %t : tensor<2x1x5xf32>
  }
  %1 = weft.fusion(%a = %x : tensor<2x4x5xf32>) -> (tensor<2x1x5xf32>) {
    %s = weft.slice %a[[0, 1, 0] : [2, 2, 5] : [1, 1, 1]] : tensor<2x4x5xf32>
    %t = weft.tanh %s : tensor<2x1x5xf32>
    weft.yield %t : tensor<2x1x5xf32>
  }
  %2 = weft.fusion(%a = %x : tensor<2x4x5xf32>) -> (tensor<2x1x5xf32>) {
    %s = weft.slice %a[[0, 2, 0] : [2, 3, 5] : [1, 1, 1]] : tensor<2x4x5xf32>
    %t = weft.tanh %s : tensor<2x1x5xf32>
    weft.yield %t : tensor<2x1x5xf32>
  }
  %3 = weft.fusion(%a = %x : tensor<2x4x5xf32>) -> (tensor<2x1x5xf32>) {
    %s = weft.slice %a[[0, 3, 0] : [2, 4, 5] : [1, 1, 1]] : tensor<2x4x5xf32>
    %t = weft.tanh %s : tensor<2x1x5xf32>
    weft.yield %t : tensor<2x1x5xf32>
  }
  return %0, %1, %2, %3 : tensor<2x1x5xf32>, tensor<2x1x5xf32>, tensor<2x1x5xf32>, tensor<2x1x5xf32>
}

// -----

// Some parts of one operand are operands each.
// CHECK: plan.kernel @k0_mul(%{{.*}}: tensor<1x5xf32>, %{{.*}}: tensor<1x5xf32>)
// CHECK-NOT: plan.kernel
// CHECK: plan.program @main(%[[X:[^:]*]]:
// CHECK: %[[A:.*]] = plan.view %[[X]][0] {plan.part}
// CHECK: %[[B:.*]] = plan.view %[[X]][20] {plan.part}
// CHECK: plan.launch @k0_mul ins(%[[A]], %[[B]]
// CHECK-COUNT-3: plan.launch @k0_mul
func.func @main(%x: tensor<8x5xf32>) -> (tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32>) {
  %0 = weft.fusion(%a = %x : tensor<8x5xf32>) -> (tensor<1x5xf32>) {
    %s = weft.slice %a[[0, 0] : [1, 5] : [1, 1]] : tensor<8x5xf32>
    %t = weft.slice %a[[1, 0] : [2, 5] : [1, 1]] : tensor<8x5xf32>
    %u = weft.mul %s, %t : tensor<1x5xf32>
    weft.yield %u : tensor<1x5xf32>
  }
  %1 = weft.fusion(%a = %x : tensor<8x5xf32>) -> (tensor<1x5xf32>) {
    %s = weft.slice %a[[2, 0] : [3, 5] : [1, 1]] : tensor<8x5xf32>
    %t = weft.slice %a[[3, 0] : [4, 5] : [1, 1]] : tensor<8x5xf32>
    %u = weft.mul %s, %t : tensor<1x5xf32>
    weft.yield %u : tensor<1x5xf32>
  }
  %2 = weft.fusion(%a = %x : tensor<8x5xf32>) -> (tensor<1x5xf32>) {
    %s = weft.slice %a[[4, 0] : [5, 5] : [1, 1]] : tensor<8x5xf32>
    %t = weft.slice %a[[5, 0] : [6, 5] : [1, 1]] : tensor<8x5xf32>
    %u = weft.mul %s, %t : tensor<1x5xf32>
    weft.yield %u : tensor<1x5xf32>
  }
  %3 = weft.fusion(%a = %x : tensor<8x5xf32>) -> (tensor<1x5xf32>) {
    %s = weft.slice %a[[6, 0] : [7, 5] : [1, 1]] : tensor<8x5xf32>
    %t = weft.slice %a[[7, 0] : [8, 5] : [1, 1]] : tensor<8x5xf32>
    %u = weft.mul %s, %t : tensor<1x5xf32>
    weft.yield %u : tensor<1x5xf32>
  }
  return %0, %1, %2, %3 : tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32>
}

// -----

// A lone part of several runs stays with its kernel. A part that begins where no buffer does, and that libraries may read, is copied.
// CHECK: plan.kernel @k0_slice
// CHECK: plan.kernel @k1_copy(
// CHECK: plan.program @main(%{{[^:]*}}: {{.*}}, %[[Y:[^:]*]]:
// CHECK: plan.launch @k0_slice
// CHECK: %[[R:.*]] = plan.view %[[Y]][20] {plan.part}
// CHECK: plan.launch @k1_copy ins(%[[R]]
func.func @main(%x: tensor<3x16xf32>, %y: tensor<3x5xf32>) -> (tensor<3x1xf32>, tensor<1x5xf32>) {
  %0 = weft.fusion(%a = %x : tensor<3x16xf32>) -> (tensor<3x1xf32>) {
    %s = weft.slice %a[[0, 1] : [3, 2] : [1, 1]] : tensor<3x16xf32>
    weft.yield %s : tensor<3x1xf32>
  }
  %1 = weft.fusion(%a = %y : tensor<3x5xf32>) -> (tensor<1x5xf32>) {
    %s = weft.slice %a[[1, 0] : [2, 5] : [1, 1]] : tensor<3x5xf32>
    weft.yield %s : tensor<1x5xf32>
  }
  return %0, %1 : tensor<3x1xf32>, tensor<1x5xf32>
}

// -----

// Draws from two places of a stream are one kernel: the first place is an operand, later draws keep their distance from it.
// CHECK: plan.kernel @k0_{{.*}}random_uniform
// CHECK: %[[THERE:.*]] = weft.add %{{.*}}, %{{.*}} : tensor<2xi64>
// CHECK: weft.random_uniform %[[THERE]] : tensor<70xf32>
// CHECK: weft.random_uniform %[[THERE]] {offset = 32 : i64} : tensor<70xf32>
// CHECK-NOT: plan.kernel
// CHECK: plan.program @main(%[[S:[^:]*]]:
func.func @main(%s: tensor<2xi64>) -> (tensor<70xf32>, tensor<70xf32>) {
  // CHECK: %[[A:.*]] = plan.constant dense<[0, 64]>
  // CHECK: plan.launch @k0_{{.*}} ins(%[[S]], %[[A]] : !plan.buffer<16>, !plan.buffer<16>)
  %0 = weft.fusion(%a = %s : tensor<2xi64>) -> (tensor<70xf32>) {
    %u = weft.random_uniform %a {offset = 64 : i64} : tensor<70xf32>
    %v = weft.random_uniform %a {offset = 96 : i64} : tensor<70xf32>
    %w = weft.add %u, %v : tensor<70xf32>
    weft.yield %w : tensor<70xf32>
  }
  // CHECK: %[[B:.*]] = plan.constant dense<[0, 128]>
  // CHECK: plan.launch @k0_{{.*}} ins(%[[S]], %[[B]] : !plan.buffer<16>, !plan.buffer<16>)
  %1 = weft.fusion(%a = %s : tensor<2xi64>) -> (tensor<70xf32>) {
    %u = weft.random_uniform %a {offset = 128 : i64} : tensor<70xf32>
    %v = weft.random_uniform %a {offset = 160 : i64} : tensor<70xf32>
    %w = weft.add %u, %v : tensor<70xf32>
    weft.yield %w : tensor<70xf32>
  }
  return %0, %1 : tensor<70xf32>, tensor<70xf32>
}

// -----

// An operand whose size varies keeps its dims: a step of a batch is read where it lies.
// CHECK: plan.kernel @k0_slice_tanh(%{{.*}}: tensor<64x4x5xf32, #weft.dims<n, _, _>>)
// CHECK-NOT: plan.view
#n = #weft.dims<n, _, _>
module attributes {weft.sizes = {n = array<i64: 2, 64>}} {
func.func @main(%x: tensor<64x4x5xf32, #n>) -> (tensor<64x1x5xf32, #n>, tensor<64x1x5xf32, #n>, tensor<64x1x5xf32, #n>, tensor<64x1x5xf32, #n>) {
  %0 = weft.fusion(%a = %x : tensor<64x4x5xf32, #n>) -> (tensor<64x1x5xf32, #n>) {
    %s = weft.slice %a[[0, 0, 0] : [-9223372036854775808, 1, 5] : [1, 1, 1]] : tensor<64x4x5xf32, #n>
    %t = weft.tanh %s : tensor<64x1x5xf32, #n>
    weft.yield %t : tensor<64x1x5xf32, #n>
  }
  %1 = weft.fusion(%a = %x : tensor<64x4x5xf32, #n>) -> (tensor<64x1x5xf32, #n>) {
    %s = weft.slice %a[[0, 1, 0] : [-9223372036854775808, 2, 5] : [1, 1, 1]] : tensor<64x4x5xf32, #n>
    %t = weft.tanh %s : tensor<64x1x5xf32, #n>
    weft.yield %t : tensor<64x1x5xf32, #n>
  }
  %2 = weft.fusion(%a = %x : tensor<64x4x5xf32, #n>) -> (tensor<64x1x5xf32, #n>) {
    %s = weft.slice %a[[0, 2, 0] : [-9223372036854775808, 3, 5] : [1, 1, 1]] : tensor<64x4x5xf32, #n>
    %t = weft.tanh %s : tensor<64x1x5xf32, #n>
    weft.yield %t : tensor<64x1x5xf32, #n>
  }
  %3 = weft.fusion(%a = %x : tensor<64x4x5xf32, #n>) -> (tensor<64x1x5xf32, #n>) {
    %s = weft.slice %a[[0, 3, 0] : [-9223372036854775808, 4, 5] : [1, 1, 1]] : tensor<64x4x5xf32, #n>
    %t = weft.tanh %s : tensor<64x1x5xf32, #n>
    weft.yield %t : tensor<64x1x5xf32, #n>
  }
  return %0, %1, %2, %3 : tensor<64x1x5xf32, #n>, tensor<64x1x5xf32, #n>, tensor<64x1x5xf32, #n>, tensor<64x1x5xf32, #n>
}
}

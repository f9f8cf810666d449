// RUN: weft-opt %s --plan-verify --split-input-file --verify-diagnostics

// Two live values in one place.
plan.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  plan.return %x : tensor<16xf32>
}
plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %arena = plan.arena : !plan.buffer<128>
  // expected-note @below {{this value}}
  %a = plan.view %arena[0] : !plan.buffer<128> to !plan.buffer<64>
  %b = plan.view %arena[32] : !plan.buffer<128> to !plan.buffer<64>
  %y = plan.output : !plan.buffer<64>
  plan.copy %x to %a : !plan.buffer<64> to !plan.buffer<64>
  // expected-error @below {{writes bytes 32 to 96 of a buffer, which hold a value that is still needed}}
  plan.copy %x to %b : !plan.buffer<64> to !plan.buffer<64>
  plan.launch @add ins(%a, %b : !plan.buffer<64>, !plan.buffer<64>) outs(%y : !plan.buffer<64>)
  plan.return %y : !plan.buffer<64>
}

// -----

// In place without the kernel's leave.
plan.kernel @reverse(%x: tensor<16xf32>) -> tensor<16xf32> {
  plan.return %x : tensor<16xf32>
}
plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %y = plan.output : !plan.buffer<64>
  // expected-note @below {{this value}}
  %a = plan.view %y[0] : !plan.buffer<64> to !plan.buffer<64>
  plan.launch @reverse ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<64>)
  // expected-error @below {{hold a value that is still needed}}
  plan.launch @reverse ins(%a : !plan.buffer<64>) outs(%y : !plan.buffer<64>)
  plan.return %y : !plan.buffer<64>
}

// -----

plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %v = plan.view %x[0] : !plan.buffer<64> to !plan.buffer<64>
  // expected-error @below {{writes input 0, which is not donatable}}
  plan.fill %v with 0 width 4 : !plan.buffer<64>
  plan.return %v : !plan.buffer<64>
}

// -----

plan.program @main() -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  // expected-note @below {{never written}}
  %y = plan.output : !plan.buffer<64>
  // expected-error @below {{do not hold the value meant}}
  plan.return %y : !plan.buffer<64>
}

// -----

plan.program @main() -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %y = plan.output : !plan.buffer<64>
  plan.fill %y with 0 width 4 : !plan.buffer<64>
  // expected-error @below {{writes a buffer value that another instruction writes}}
  plan.fill %y with 1 width 4 : !plan.buffer<64>
  plan.return %y : !plan.buffer<64>
}

// -----

// A part is bytes of its whole, which must still be there when the part is read.
plan.program @main(%x: !plan.buffer<128> {plan.type = tensor<32xf32>}, %z: !plan.buffer<64> {plan.type = tensor<16xf32>})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %arena = plan.arena : !plan.buffer<128>
  // expected-note @below {{this value}}
  %a = plan.view %arena[0] : !plan.buffer<128> to !plan.buffer<128>
  %p = plan.view %a[64] {plan.part} : !plan.buffer<128> to !plan.buffer<64>
  %b = plan.view %arena[64] : !plan.buffer<128> to !plan.buffer<64>
  %y = plan.output : !plan.buffer<64>
  plan.copy %x to %a : !plan.buffer<128> to !plan.buffer<128>
  // expected-error @below {{writes bytes 64 to 128 of a buffer, which hold a value that is still needed}}
  plan.copy %z to %b : !plan.buffer<64> to !plan.buffer<64>
  plan.copy %p to %y : !plan.buffer<64> to !plan.buffer<64>
  plan.return %y : !plan.buffer<64>
}

// -----

// A kept input must hold its value while an index may still be out of range.
plan.kernel @lookup(%table: tensor<16xf32>, %i: tensor<8xi64>) -> tensor<8xf32> {
  %0 = weft.fusion(%t = %table : tensor<16xf32>, %j = %i : tensor<8xi64>) -> (tensor<8xf32>) {
    %1 = weft.index_select %t, %j, dim = 0 : tensor<16xf32>, tensor<8xi64>
    weft.yield %1 : tensor<8xf32>
  }
  plan.return %0 : tensor<8xf32>
}
plan.program @main(%p: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable, plan.kept}, %g: !plan.buffer<64> {plan.type = tensor<16xf32>},
                   %i: !plan.buffer<64> {plan.type = tensor<8xi64>})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<32> {plan.type = tensor<8xf32>}) {
  %new = plan.view %p[0] : !plan.buffer<64> to !plan.buffer<64>
  %y = plan.output : !plan.buffer<32>
  // expected-error @below {{writes input 0, which is kept, before the last instruction that may end the run}}
  plan.copy %g to %new : !plan.buffer<64> to !plan.buffer<64>
  plan.launch @lookup ins(%g, %i : !plan.buffer<64>, !plan.buffer<64>) outs(%y : !plan.buffer<32>)
  plan.return %new, %y : !plan.buffer<64>, !plan.buffer<32>
}

// -----

// Or while a call that may fail, as a kernel of a user, is still to come; another one does not.
plan.program @main(%p: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable, plan.kept}, %g: !plan.buffer<64> {plan.type = tensor<16xf32>})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %new = plan.view %p[0] : !plan.buffer<64> to !plan.buffer<64>
  %y = plan.output : !plan.buffer<64>
  %z = plan.output : !plan.buffer<64>
  // expected-error @below {{writes input 0, which is kept, before the last instruction that may end the run}}
  plan.copy %g to %new : !plan.buffer<64> to !plan.buffer<64>
  plan.library_call "weft.custom" ins(%g : !plan.buffer<64>) outs(%y : !plan.buffer<64>) as [tensor<16xf32>, tensor<16xf32>] config {kernel = "test.any"} {plan.may_fail}
  plan.return %new, %y, %z : !plan.buffer<64>, !plan.buffer<64>, !plan.buffer<64>
}

// -----

// Pieces may be written over those that the launch reads, where its kernel may do so.
plan.kernel @add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {in_place = array<i64: 0, 0>} {
  plan.return %x : tensor<8xf32>
}
// expected-note @below {{this value}}
plan.program @main(%p: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable}, %q: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %new = plan.view %p[0] : !plan.buffer<64> to !plan.buffer<64>
  %other = plan.view %q[0] : !plan.buffer<64> to !plan.buffer<64>
  plan.pieces 2 ins(%p, %q : !plan.buffer<64>, !plan.buffer<64>) outs(%new : !plan.buffer<64>) steps [32, 32, 32] {
  ^bb0(%pi: !plan.buffer<32>, %qi: !plan.buffer<32>, %newi: !plan.buffer<32>):
    plan.launch @add ins(%pi, %qi : !plan.buffer<32>, !plan.buffer<32>) outs(%newi : !plan.buffer<32>)
  }
  // The kernel says nothing of the second operand.
  // expected-error @below {{which hold a value that is still needed}}
  plan.pieces 2 ins(%new, %q : !plan.buffer<64>, !plan.buffer<64>) outs(%other : !plan.buffer<64>) steps [32, 32, 32] {
  ^bb0(%pi: !plan.buffer<32>, %qi: !plan.buffer<32>, %newi: !plan.buffer<32>):
    plan.launch @add ins(%pi, %qi : !plan.buffer<32>, !plan.buffer<32>) outs(%newi : !plan.buffer<32>)
  }
  plan.return %new, %other : !plan.buffer<64>, !plan.buffer<64>
}

// -----

// Not over pieces that another run reads, or another instruction of this one.
plan.kernel @add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {in_place = array<i64: 0, 0>} {
  plan.return %x : tensor<8xf32>
}
// expected-note @below {{this value}}
plan.program @main(%p: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable}) -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %new = plan.view %p[0] : !plan.buffer<64> to !plan.buffer<64>
  // expected-error @below {{which hold a value that is still needed}}
  plan.pieces 2 ins(%p : !plan.buffer<64>) outs(%new : !plan.buffer<64>) steps [0, 32] {
  ^bb0(%pi: !plan.buffer<32>, %newi: !plan.buffer<32>):
    plan.launch @add ins(%pi, %pi : !plan.buffer<32>, !plan.buffer<32>) outs(%newi : !plan.buffer<32>)
  }
  plan.return %new : !plan.buffer<64>
}

// RUN: weft-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{a buffer cannot have -1 bytes}}
func.func private @negative() -> !plan.buffer<-1>

// -----

// expected-error @below {{argument 0 needs the attribute plan.type}}
plan.program @main(%x: !plan.buffer<4>) {
  plan.return
}

// -----

// expected-error @below {{argument 0 is a '!plan.buffer<4>', which does not hold a 'tensor<2xf32>'}}
plan.program @main(%x: !plan.buffer<4> {plan.type = tensor<2xf32>}) {
  plan.return
}

// -----

plan.program @main() -> (!plan.buffer<4> {plan.type = tensor<f32>}) {
  %a = plan.alloc : !plan.buffer<4>
  // expected-error @below {{result 0 must be an input or a plan.output}}
  plan.return %a : !plan.buffer<4>
}

// -----

plan.program @main(%x: !plan.buffer<4> {plan.type = tensor<f32>}) {
  // expected-error @below {{bytes 4 to 8 lie outside a buffer of 4 bytes}}
  %v = plan.view %x[4] : !plan.buffer<4> to !plan.buffer<4>
  plan.return
}

// -----

plan.program @main() {
  // expected-error @below {{a '!plan.buffer<4>' does not hold a 'tensor<2xf32>'}}
  %c = plan.constant dense<0.0> : tensor<2xf32> : !plan.buffer<4>
  plan.return
}

// -----

plan.program @main(%x: !plan.buffer<4> {plan.type = tensor<f32>}) {
  // expected-error @below {{there is no plan.kernel @nowhere}}
  plan.launch @nowhere ins(%x : !plan.buffer<4>)
  plan.return
}

// -----

plan.kernel @k(%x: tensor<2xf32>) -> tensor<2xf32> {
  plan.return %x : tensor<2xf32>
}
plan.program @main(%x: !plan.buffer<4> {plan.type = tensor<f32>}) {
  %a = plan.alloc : !plan.buffer<8>
  // expected-error @below {{do not hold the kernel's arguments}}
  plan.launch @k ins(%x : !plan.buffer<4>) outs(%a : !plan.buffer<8>)
  plan.return
}

// -----

// expected-error @below {{in_place pair (0, 1) does not name an output and an input}}
plan.kernel @k(%x: tensor<2xf32>) -> tensor<2xf32> attributes {in_place = array<i64: 0, 1>} {
  plan.return %x : tensor<2xf32>
}

// -----

plan.program @main(%x: !plan.buffer<4> {plan.type = tensor<f32>}) {
  // expected-error @below {{states 0 tensor types}}
  plan.library_call "onednn.matmul" ins(%x : !plan.buffer<4>) as [] config {}
  plan.return
}

// -----

plan.program @main(%x: !plan.buffer<4> {plan.type = tensor<f32>}) {
  %a = plan.alloc : !plan.buffer<6>
  // expected-error @below {{copies whole buffers, which must have one size}}
  plan.copy %x to %a : !plan.buffer<4> to !plan.buffer<6>
  plan.return
}

// -----

plan.program @main() {
  %a = plan.alloc : !plan.buffer<6>
  // expected-error @below {{6 bytes are no multiple of the width 4}}
  plan.fill %a with 0 width 4 : !plan.buffer<6>
  plan.return
}

// -----

plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %a = plan.alloc : !plan.buffer<64>
  // expected-error @below {{needs a count of at least 1, and a step and an argument of its body for each of its 2 operands}}
  plan.pieces 2 ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<64>) steps [32] {
  ^bb0(%xi: !plan.buffer<32>, %ai: !plan.buffer<32>):
  }
  plan.return
}

// -----

// An output is all of its pieces.
plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %a = plan.alloc : !plan.buffer<128>
  // expected-error @below {{operand 1 has 128 bytes, which are not 2 pieces of '!plan.buffer<32>' with a step of 32}}
  plan.pieces 2 ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<128>) steps [32, 32] {
  ^bb0(%xi: !plan.buffer<32>, %ai: !plan.buffer<32>):
  }
  plan.return
}

// -----

plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  // expected-error @below {{operand 0 has 64 bytes, which are not 3 pieces of '!plan.buffer<32>' with a step of 32}}
  plan.pieces 3 ins(%x : !plan.buffer<64>) steps [32] {
  ^bb0(%xi: !plan.buffer<32>):
  }
  plan.return
}

// -----

plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %a = plan.alloc : !plan.buffer<64>
  plan.pieces 2 ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<64>) steps [32, 32] {
  ^bb0(%xi: !plan.buffer<32>, %ai: !plan.buffer<32>):
    // expected-error @below {{cannot be in plan.pieces, which takes launches and library calls}}
    plan.copy %xi to %ai : !plan.buffer<32> to !plan.buffer<32>
  }
  plan.return
}

// -----

plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %a = plan.alloc : !plan.buffer<64>
  // expected-error @below {{has 2 operands, and needs as many lists of strides in plan.strides}}
  plan.library_call "any" ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<64>) as [tensor<16xf32>, tensor<16xf32>] config {} {plan.strides = [array<i64: 1>]}
  plan.return
}

// -----

plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %a = plan.alloc : !plan.buffer<64>
  // expected-error @below {{a '!plan.buffer<64>' does not hold a tensor<4x2xf32>}}
  plan.library_call "any" ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<64>)
      as [tensor<4x2xf32>, tensor<16xf32>] config {} {plan.strides = [array<i64: 8, 1>, array<i64>]}
  plan.return
}

// -----

// expected-error @below {{attribute 'in_place' failed to satisfy constraint: i64 dense array attribute}}
plan.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32> attributes {in_place = array<i32: 0, 0>} {
  plan.return %a : tensor<4xf32>
}

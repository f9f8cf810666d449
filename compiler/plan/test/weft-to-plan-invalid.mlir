// RUN: weft-opt %s --weft-to-plan --split-input-file --verify-diagnostics

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{'weft.neg' op cannot be planned: only weft.fusion, weft.provider_call, weft.reshape, weft.slice and weft.constant may stand here}}
  %0 = weft.neg %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// expected-error @below {{there is no func.func @main to plan}}
module {
}

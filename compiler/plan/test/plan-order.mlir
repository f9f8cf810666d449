// RUN: weft-opt %s --plan-order | FileCheck %s

plan.kernel @wide(%x: tensor<16xf32>) -> tensor<1024xf32> attributes {count = 1 : i64} {
  %0 = weft.constant dense<0.0> : tensor<1024xf32>
  plan.return %0 : tensor<1024xf32>
}
plan.kernel @narrow(%x: tensor<1024xf32>) -> tensor<16xf32> attributes {count = 1 : i64} {
  %0 = weft.constant dense<0.0> : tensor<16xf32>
  plan.return %0 : tensor<16xf32>
}

// One branch after the other needs half the memory of level after level.
// CHECK-LABEL: plan.program @main
plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %a = plan.alloc : !plan.buffer<4096>
  %b = plan.alloc : !plan.buffer<4096>
  %y = plan.output : !plan.buffer<64>
  %z = plan.output : !plan.buffer<64>
  // CHECK: plan.launch @wide
  // CHECK-NEXT: plan.launch @narrow
  // CHECK-NEXT: plan.launch @wide
  // CHECK-NEXT: plan.launch @narrow
  plan.launch @wide ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<4096>)
  plan.launch @wide ins(%x : !plan.buffer<64>) outs(%b : !plan.buffer<4096>)
  plan.launch @narrow ins(%a : !plan.buffer<4096>) outs(%y : !plan.buffer<64>)
  plan.launch @narrow ins(%b : !plan.buffer<4096>) outs(%z : !plan.buffer<64>)
  plan.return %y, %z : !plan.buffer<64>, !plan.buffer<64>
}

// RUN: weft-opt %s --plan-launches | FileCheck %s

plan.kernel @sum(%x: tensor<1048576xf32>) -> tensor<f32> attributes {count = 64 : i64, partials = 4096 : i64, bytes = 4.0e6, flops = 1.0e6} {
  %0 = weft.constant dense<0.0> : tensor<f32>
  plan.return %0 : tensor<f32>
}
plan.kernel @small(%x: tensor<f32>) -> tensor<f32> attributes {count = 8 : i64, bytes = 8.0, flops = 1.0} {
  plan.return %x : tensor<f32>
}
// CHECK-LABEL: plan.program @main
plan.program @main(%x: !plan.buffer<4194304> {plan.type = tensor<1048576xf32>}) -> (!plan.buffer<4> {plan.type = tensor<f32>}) {
  %a = plan.alloc : !plan.buffer<4>
  %y = plan.output : !plan.buffer<4>
  // CHECK: %[[P:.*]] = plan.alloc : !plan.buffer<4096>
  // CHECK: plan.launch @sum ins(%{{.*}}) outs(%{{.*}}) partials(%[[P]] : !plan.buffer<4096>){{$}}
  plan.launch @sum ins(%x : !plan.buffer<4194304>) outs(%a : !plan.buffer<4>)
  // CHECK: plan.launch @small {{.*}} serial
  plan.launch @small ins(%a : !plan.buffer<4>) outs(%y : !plan.buffer<4>)
  plan.return %y : !plan.buffer<4>
}

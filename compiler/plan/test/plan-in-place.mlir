// RUN: weft-opt %s --plan-in-place --plan-verify --split-input-file | FileCheck %s

// A chain lives in the buffer of its output.
plan.kernel @neg(%x: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = array<i64: 0, 0>} {
  plan.return %x : tensor<16xf32>
}
// CHECK-LABEL: plan.program @main
// CHECK-SAME: %[[X:[^:]*]]:
plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
  // CHECK: %[[Y:.*]] = plan.output
  // CHECK-NEXT: %[[A:.*]] = plan.view %[[Y]][0]
  // CHECK-NOT: plan.alloc
  %a = plan.alloc : !plan.buffer<64>
  %y = plan.output : !plan.buffer<64>
  // CHECK: plan.launch @neg ins(%[[X]] : !plan.buffer<64>) outs(%[[A]] : !plan.buffer<64>)
  plan.launch @neg ins(%x : !plan.buffer<64>) outs(%a : !plan.buffer<64>)
  plan.launch @neg ins(%a : !plan.buffer<64>) outs(%y : !plan.buffer<64>)
  plan.return %y : !plan.buffer<64>
}

// -----

// The update of a donated parameter lands in its buffer; a second reader that comes later forbids it.
plan.kernel @sgd(%p: tensor<16xf32>, %g: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = array<i64: 0, 0>} {
  plan.return %p : tensor<16xf32>
}
// CHECK-LABEL: plan.program @main
// CHECK-SAME: %[[P:[^:]*]]: !plan.buffer<64>
plan.program @main(%p: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable}, %q: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable},
                   %g: !plan.buffer<64> {plan.type = tensor<16xf32>})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  // CHECK: %[[V:.*]] = plan.view %[[P]][0]
  // CHECK: plan.launch @sgd ins(%[[P]], %{{.*}}) outs(%[[V]] :
  %0 = plan.output : !plan.buffer<64>
  %1 = plan.output : !plan.buffer<64>
  %2 = plan.output : !plan.buffer<64>
  plan.launch @sgd ins(%p, %g : !plan.buffer<64>, !plan.buffer<64>) outs(%0 : !plan.buffer<64>)
  // CHECK: plan.launch @sgd ins(%[[Q:.*]], %{{.*}}) outs(%[[O:.*]] :
  plan.launch @sgd ins(%q, %g : !plan.buffer<64>, !plan.buffer<64>) outs(%1 : !plan.buffer<64>)
  // CHECK: plan.launch @sgd ins(%{{.*}}, %[[Q]] : !plan.buffer<64>, !plan.buffer<64>)
  plan.launch @sgd ins(%g, %q : !plan.buffer<64>, !plan.buffer<64>) outs(%2 : !plan.buffer<64>)
  // CHECK: plan.return %[[V]], %[[O]]
  plan.return %0, %1, %2 : !plan.buffer<64>, !plan.buffer<64>, !plan.buffer<64>
}

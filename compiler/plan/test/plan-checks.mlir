// Inputs that are kept are written after the last check that can still end a run; a check that is equal to an earlier one cannot.
// RUN: weft-opt %s --plan-in-place --plan-verify --split-input-file | FileCheck %s
// RUN: weft-opt %s --plan-order --plan-in-place --plan-verify --split-input-file | FileCheck %s --check-prefix=ORDER

plan.kernel @lookup(%table: tensor<16xf32>, %i: tensor<8xi64>) -> tensor<8xf32> {
  %0 = weft.fusion(%t = %table : tensor<16xf32>, %j = %i : tensor<8xi64>) -> (tensor<8xf32>) {
    %1 = weft.index_select %t, %j, dim = 0 : tensor<16xf32>, tensor<8xi64>
    weft.yield %1 : tensor<8xf32>
  }
  plan.return %0 : tensor<8xf32>
}
plan.kernel @update(%p: tensor<16xf32>, %g: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = array<i64: 0, 0>} {
  plan.return %p : tensor<16xf32>
}
// Updated before the indices are looked at, p cannot be written; ordered, both updates come after the check.
// CHECK-LABEL: plan.program @main
// CHECK-SAME: %[[P:[^:]*]]: !plan.buffer<64> {plan.donatable, plan.kept
// CHECK-SAME: %[[Q:[^:]*]]: !plan.buffer<64> {plan.donatable, plan.kept
// CHECK: %[[VQ:.*]] = plan.view %[[Q]][0]
// CHECK: plan.launch @update ins(%[[P]], %{{.*}}) outs(%[[NEW:.*]] :
// CHECK: plan.launch @lookup
// CHECK: plan.launch @update ins(%[[Q]], %{{.*}}) outs(%[[VQ]] :
// CHECK: plan.launch @lookup
// CHECK: plan.return %[[NEW]], %[[VQ]]
// ORDER-LABEL: plan.program @main
// ORDER: plan.launch @lookup
// ORDER: plan.launch @update
// ORDER: plan.launch @update
plan.program @main(%p: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable, plan.kept},
                   %q: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable, plan.kept},
                   %g: !plan.buffer<64> {plan.type = tensor<16xf32>}, %i: !plan.buffer<64> {plan.type = tensor<8xi64>})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<32> {plan.type = tensor<8xf32>}, !plan.buffer<32> {plan.type = tensor<8xf32>}) {
  %0 = plan.output : !plan.buffer<64>
  %1 = plan.output : !plan.buffer<64>
  %2 = plan.output : !plan.buffer<32>
  %3 = plan.output : !plan.buffer<32>
  plan.launch @update ins(%p, %g : !plan.buffer<64>, !plan.buffer<64>) outs(%0 : !plan.buffer<64>)
  plan.launch @lookup ins(%g, %i : !plan.buffer<64>, !plan.buffer<64>) outs(%2 : !plan.buffer<32>)
  plan.launch @update ins(%q, %g : !plan.buffer<64>, !plan.buffer<64>) outs(%1 : !plan.buffer<64>)
  plan.launch @lookup ins(%1, %i : !plan.buffer<64>, !plan.buffer<64>) outs(%3 : !plan.buffer<32>)
  plan.return %0, %1, %2, %3 : !plan.buffer<64>, !plan.buffer<64>, !plan.buffer<32>, !plan.buffer<32>
}

// -----

// A kernel that stores a slice of what it looks up may look at some of the indices only, so that the whole lookup behind it can still end the run.
plan.kernel @first(%table: tensor<16xf32>, %i: tensor<8xi64>) -> tensor<2xf32> {
  %0 = weft.fusion(%t = %table : tensor<16xf32>, %j = %i : tensor<8xi64>) -> (tensor<2xf32>) {
    %1 = weft.index_select %t, %j, dim = 0 : tensor<16xf32>, tensor<8xi64>
    %2 = weft.slice %1 [[0] : [2] : [1]] : tensor<8xf32>
    weft.yield %2 : tensor<2xf32>
  }
  plan.return %0 : tensor<2xf32>
}
plan.kernel @lookup(%table: tensor<16xf32>, %i: tensor<8xi64>) -> tensor<8xf32> {
  %0 = weft.fusion(%t = %table : tensor<16xf32>, %j = %i : tensor<8xi64>) -> (tensor<8xf32>) {
    %1 = weft.index_select %t, %j, dim = 0 : tensor<16xf32>, tensor<8xi64>
    weft.yield %1 : tensor<8xf32>
  }
  plan.return %0 : tensor<8xf32>
}
plan.kernel @update(%p: tensor<16xf32>, %g: tensor<16xf32>) -> tensor<16xf32> attributes {in_place = array<i64: 0, 0>} {
  plan.return %p : tensor<16xf32>
}
// CHECK-LABEL: plan.program @main
// CHECK-SAME: %[[P:[^:]*]]: !plan.buffer<64> {plan.donatable, plan.kept
// CHECK: plan.launch @first
// CHECK: plan.launch @update ins(%[[P]], %{{.*}}) outs(%[[NEW:.*]] :
// CHECK: plan.launch @lookup
// CHECK: plan.return %[[NEW]]
// ORDER-LABEL: plan.program @main
// ORDER: plan.launch @lookup
// ORDER: plan.launch @update
plan.program @main(%p: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable, plan.kept},
                   %g: !plan.buffer<64> {plan.type = tensor<16xf32>}, %i: !plan.buffer<64> {plan.type = tensor<8xi64>})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<8> {plan.type = tensor<2xf32>}, !plan.buffer<32> {plan.type = tensor<8xf32>}) {
  %0 = plan.output : !plan.buffer<64>
  %1 = plan.output : !plan.buffer<8>
  %2 = plan.output : !plan.buffer<32>
  plan.launch @first ins(%g, %i : !plan.buffer<64>, !plan.buffer<64>) outs(%1 : !plan.buffer<8>)
  plan.launch @update ins(%p, %g : !plan.buffer<64>, !plan.buffer<64>) outs(%0 : !plan.buffer<64>)
  plan.launch @lookup ins(%g, %i : !plan.buffer<64>, !plan.buffer<64>) outs(%2 : !plan.buffer<32>)
  plan.return %0, %1, %2 : !plan.buffer<64>, !plan.buffer<8>, !plan.buffer<32>
}

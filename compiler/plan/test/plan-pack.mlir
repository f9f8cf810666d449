// RUN: weft-opt %s --plan-pack --plan-verify --split-input-file | FileCheck %s

plan.kernel @neg(%x: tensor<20xf32>) -> tensor<20xf32> {
  plan.return %x : tensor<20xf32>
}
// Three values, two at a time: the third lies where the first one was. Offsets are multiples of 64.
// CHECK-LABEL: plan.program @main
plan.program @main(%x: !plan.buffer<80> {plan.type = tensor<20xf32>}) -> (!plan.buffer<80> {plan.type = tensor<20xf32>}) {
  // CHECK: %[[ARENA:.*]] = plan.arena : !plan.buffer<256>
  // CHECK: %[[A:.*]] = plan.view %[[ARENA]][0] : !plan.buffer<256> to !plan.buffer<80>
  // CHECK: %[[B:.*]] = plan.view %[[ARENA]][128]
  // CHECK: %[[C:.*]] = plan.view %[[ARENA]][0]
  // CHECK: plan.launch @neg ins(%[[B]] : !plan.buffer<80>) outs(%[[C]] : !plan.buffer<80>)
  %a = plan.alloc : !plan.buffer<80>
  %b = plan.alloc : !plan.buffer<80>
  %c = plan.alloc : !plan.buffer<80>
  %y = plan.output : !plan.buffer<80>
  plan.launch @neg ins(%x : !plan.buffer<80>) outs(%a : !plan.buffer<80>)
  plan.launch @neg ins(%a : !plan.buffer<80>) outs(%b : !plan.buffer<80>)
  plan.launch @neg ins(%b : !plan.buffer<80>) outs(%c : !plan.buffer<80>)
  plan.launch @neg ins(%c : !plan.buffer<80>) outs(%y : !plan.buffer<80>)
  plan.return %y : !plan.buffer<80>
}

// -----

// Scratch of a library call is live during that call alone: two calls share theirs, beside what they
// read and write.
// CHECK-LABEL: plan.program @scratch
plan.program @scratch(%x: !plan.buffer<80> {plan.type = tensor<20xf32>}) -> (!plan.buffer<80> {plan.type = tensor<20xf32>}) {
  // CHECK: %[[ARENA:.*]] = plan.arena : !plan.buffer<640>
  // CHECK-DAG: %[[A:.*]] = plan.view %[[ARENA]][{{.*}}] : !plan.buffer<640> to !plan.buffer<80>
  // CHECK-DAG: %[[S:.*]] = plan.view %[[ARENA]]{{.}}[[PLACE:[0-9]+]]] : !plan.buffer<640> to !plan.buffer<512>
  // CHECK-DAG: %[[T:.*]] = plan.view %[[ARENA]]{{.}}[[PLACE]]] : !plan.buffer<640> to !plan.buffer<500>
  // CHECK: plan.library_call "some.call" ins(%{{.*}} : !plan.buffer<80>) outs(%[[A]] : !plan.buffer<80>) scratch(%[[S]] : !plan.buffer<512>)
  // CHECK: plan.library_call "some.call" ins(%[[A]] : !plan.buffer<80>) outs(%{{.*}} : !plan.buffer<80>) scratch(%[[T]] : !plan.buffer<500>)
  %a = plan.alloc : !plan.buffer<80>
  %s = plan.alloc : !plan.buffer<512>
  %t = plan.alloc : !plan.buffer<500>
  %y = plan.output : !plan.buffer<80>
  plan.library_call "some.call" ins(%x : !plan.buffer<80>) outs(%a : !plan.buffer<80>) scratch(%s : !plan.buffer<512>) as [tensor<20xf32>, tensor<20xf32>] config {}
  plan.library_call "some.call" ins(%a : !plan.buffer<80>) outs(%y : !plan.buffer<80>) scratch(%t : !plan.buffer<500>) as [tensor<20xf32>, tensor<20xf32>] config {}
  plan.return %y : !plan.buffer<80>
}

// -----

// The value that the first launch writes is dead before the output is written, and lies in its buffer
// until then. The second one is read by the launch that writes the output.
plan.kernel @two(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
  plan.return %x : tensor<1048576xf32>
}
// CHECK-LABEL: plan.program @lend
plan.program @lend(%x: !plan.buffer<4194304> {plan.type = tensor<1048576xf32>}) -> (!plan.buffer<4194304> {plan.type = tensor<1048576xf32>}) {
  // CHECK: %[[Y:.*]] = plan.output
  // CHECK: %[[ARENA:.*]] = plan.arena : !plan.buffer<4194304>
  // CHECK-DAG: %[[A:.*]] = plan.view %[[Y]][0]
  // CHECK-DAG: %[[B:.*]] = plan.view %[[ARENA]][0]
  // CHECK: plan.launch @two ins(%{{.*}}) outs(%[[A]] : !plan.buffer<4194304>)
  // CHECK: plan.launch @two ins(%[[A]] : !plan.buffer<4194304>) outs(%[[B]] : !plan.buffer<4194304>)
  // CHECK: plan.launch @two ins(%[[B]] : !plan.buffer<4194304>) outs(%[[Y]] : !plan.buffer<4194304>)
  %a = plan.alloc : !plan.buffer<4194304>
  %b = plan.alloc : !plan.buffer<4194304>
  %y = plan.output : !plan.buffer<4194304>
  plan.launch @two ins(%x : !plan.buffer<4194304>) outs(%a : !plan.buffer<4194304>)
  plan.launch @two ins(%a : !plan.buffer<4194304>) outs(%b : !plan.buffer<4194304>)
  plan.launch @two ins(%b : !plan.buffer<4194304>) outs(%y : !plan.buffer<4194304>)
  plan.return %y : !plan.buffer<4194304>
}

// -----

// An output that stands first of all goes on doing so: its views follow it.
plan.kernel @two(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
  plan.return %x : tensor<1048576xf32>
}
// CHECK-LABEL: plan.program @first
plan.program @first(%x: !plan.buffer<4194304> {plan.type = tensor<1048576xf32>}) -> (!plan.buffer<4194304> {plan.type = tensor<1048576xf32>}) {
  // CHECK: %[[Y:.*]] = plan.output
  // CHECK: plan.view %[[Y]][0]
  // CHECK: plan.launch
  %y = plan.output : !plan.buffer<4194304>
  %a = plan.alloc : !plan.buffer<4194304>
  %b = plan.alloc : !plan.buffer<4194304>
  plan.launch @two ins(%x : !plan.buffer<4194304>) outs(%a : !plan.buffer<4194304>)
  plan.launch @two ins(%a : !plan.buffer<4194304>) outs(%b : !plan.buffer<4194304>)
  plan.launch @two ins(%b : !plan.buffer<4194304>) outs(%y : !plan.buffer<4194304>)
  plan.return %y : !plan.buffer<4194304>
}

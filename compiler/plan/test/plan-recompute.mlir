// RUN: weft-opt %s --plan-recompute=limit=500000 --plan-verify --split-input-file | FileCheck %s
// RUN: weft-opt %s --plan-recompute="limit=500000 files=true" --plan-verify --split-input-file | FileCheck %s --check-prefix=FILES
// RUN: weft-opt %s --plan-recompute --split-input-file | FileCheck %s --check-prefixes=NONE,FREE

plan.kernel @f(%x: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}
plan.kernel @g(%x: tensor<32768xf32>, %y: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}

// Forward %a, %b, %c; on the way back each is read again. Four values and the output are more than the
// limit: %a is given up, and written again, from the input, before the last launch.
// CHECK-LABEL: plan.program @back
// CHECK-SAME: (%[[X:.*]]: !plan.buffer<131072>
// CHECK: plan.launch @f ins(%[[X]] : !plan.buffer<131072>) outs(%[[A:.*]] : !plan.buffer<131072>)
// CHECK-NEXT: plan.launch @f ins(%[[A]] : !plan.buffer<131072>)
// CHECK: %[[AGAIN:.*]] = plan.alloc
// CHECK-NEXT: plan.launch @f ins(%[[X]] : !plan.buffer<131072>) outs(%[[AGAIN]] : !plan.buffer<131072>)
// CHECK-NEXT: plan.launch @g ins(%[[AGAIN]], %
// CHECK-NEXT: plan.return
// NONE-LABEL: plan.program @back
// NONE-COUNT-6: plan.launch
// NONE-NEXT: plan.return
plan.program @back(%x: !plan.buffer<131072> {plan.type = tensor<32768xf32>}) -> (!plan.buffer<131072> {plan.type = tensor<32768xf32>}) {
  %a = plan.alloc : !plan.buffer<131072>
  %b = plan.alloc : !plan.buffer<131072>
  %c = plan.alloc : !plan.buffer<131072>
  %d = plan.alloc : !plan.buffer<131072>
  %e = plan.alloc : !plan.buffer<131072>
  %y = plan.output : !plan.buffer<131072>
  plan.launch @f ins(%x : !plan.buffer<131072>) outs(%a : !plan.buffer<131072>)
  plan.launch @f ins(%a : !plan.buffer<131072>) outs(%b : !plan.buffer<131072>)
  plan.launch @f ins(%b : !plan.buffer<131072>) outs(%c : !plan.buffer<131072>)
  plan.launch @g ins(%c, %c : !plan.buffer<131072>, !plan.buffer<131072>) outs(%d : !plan.buffer<131072>)
  plan.launch @g ins(%b, %d : !plan.buffer<131072>, !plan.buffer<131072>) outs(%e : !plan.buffer<131072>)
  plan.launch @g ins(%a, %e : !plan.buffer<131072>, !plan.buffer<131072>) outs(%y : !plan.buffer<131072>)
  plan.return %y : !plan.buffer<131072>
}

// -----

// A part of what is written again is a part of the new buffer.
plan.kernel @f(%x: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}
plan.kernel @h(%x: tensor<16384xf32>, %y: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %y : tensor<32768xf32>
}
// CHECK-LABEL: plan.program @parts
// CHECK: plan.launch @h ins(%{{.*}} : !plan.buffer<65536>, !plan.buffer<131072>) outs(%[[E:.*]] : !plan.buffer<131072>)
// CHECK: %[[AGAIN:.*]] = plan.alloc : !plan.buffer<131072>
// CHECK-NEXT: plan.launch @f ins(%{{.*}} : !plan.buffer<131072>) outs(%[[AGAIN]] : !plan.buffer<131072>)
// CHECK-NEXT: %[[PART:.*]] = plan.view %[[AGAIN]][65536] {plan.part}
// CHECK-NEXT: plan.launch @h ins(%[[PART]], %[[E]]
plan.program @parts(%x: !plan.buffer<131072> {plan.type = tensor<32768xf32>}) -> (!plan.buffer<131072> {plan.type = tensor<32768xf32>}) {
  %a = plan.alloc : !plan.buffer<131072>
  %b = plan.alloc : !plan.buffer<131072>
  %c = plan.alloc : !plan.buffer<131072>
  %d = plan.alloc : !plan.buffer<131072>
  %e = plan.alloc : !plan.buffer<131072>
  %p = plan.view %a[65536] {plan.part} : !plan.buffer<131072> to !plan.buffer<65536>
  %q = plan.view %b[65536] {plan.part} : !plan.buffer<131072> to !plan.buffer<65536>
  %y = plan.output : !plan.buffer<131072>
  plan.launch @f ins(%x : !plan.buffer<131072>) outs(%a : !plan.buffer<131072>)
  plan.launch @f ins(%a : !plan.buffer<131072>) outs(%b : !plan.buffer<131072>)
  plan.launch @f ins(%b : !plan.buffer<131072>) outs(%c : !plan.buffer<131072>)
  plan.launch @f ins(%c : !plan.buffer<131072>) outs(%d : !plan.buffer<131072>)
  plan.launch @h ins(%q, %d : !plan.buffer<65536>, !plan.buffer<131072>) outs(%e : !plan.buffer<131072>)
  plan.launch @h ins(%p, %e : !plan.buffer<65536>, !plan.buffer<131072>) outs(%y : !plan.buffer<131072>)
  plan.return %y : !plan.buffer<131072>
}

// -----

// A launch that runs again for one of its results writes the others where nobody reads them: the
// output is read where it was written first.
plan.kernel @two(%x: tensor<32768xf32>) -> (tensor<32768xf32>, tensor<32768xf32>) {
  plan.return %x, %x : tensor<32768xf32>, tensor<32768xf32>
}
plan.kernel @f(%x: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}
plan.kernel @g(%x: tensor<32768xf32>, %y: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}
plan.kernel @t(%x: tensor<32768xf32>, %y: tensor<32768xf32>, %z: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}
// CHECK-LABEL: plan.program @output
// CHECK: plan.launch @two ins(%[[X:.*]] : !plan.buffer<131072>) outs(%[[O:.*]], %{{.*}} : !plan.buffer<131072>, !plan.buffer<131072>)
// CHECK: plan.launch @two ins(%[[X]] : !plan.buffer<131072>) outs(%{{.*}}, %[[AGAIN:.*]] : !plan.buffer<131072>, !plan.buffer<131072>)
// CHECK-NEXT: plan.launch @t ins(%[[AGAIN]], %[[O]], %
plan.program @output(%x: !plan.buffer<131072> {plan.type = tensor<32768xf32>}) -> (!plan.buffer<131072> {plan.type = tensor<32768xf32>}, !plan.buffer<131072> {plan.type = tensor<32768xf32>}) {
  %o = plan.output : !plan.buffer<131072>
  %a = plan.alloc : !plan.buffer<131072>
  %b = plan.alloc : !plan.buffer<131072>
  %c = plan.alloc : !plan.buffer<131072>
  %d = plan.alloc : !plan.buffer<131072>
  %y = plan.output : !plan.buffer<131072>
  plan.launch @two ins(%x : !plan.buffer<131072>) outs(%o, %a : !plan.buffer<131072>, !plan.buffer<131072>)
  plan.launch @f ins(%a : !plan.buffer<131072>) outs(%b : !plan.buffer<131072>)
  plan.launch @f ins(%b : !plan.buffer<131072>) outs(%c : !plan.buffer<131072>)
  plan.launch @g ins(%b, %c : !plan.buffer<131072>, !plan.buffer<131072>) outs(%d : !plan.buffer<131072>)
  plan.launch @t ins(%a, %o, %d : !plan.buffer<131072>, !plan.buffer<131072>, !plan.buffer<131072>) outs(%y : !plan.buffer<131072>)
  plan.return %o, %y : !plan.buffer<131072>, !plan.buffer<131072>
}

// -----

// Without a limit %a is given up: its kernel costs next to nothing beside the products, which run once.
plan.kernel @f(%x: tensor<8192x8192xf32>) -> tensor<8192x8192xf32> {
  plan.return %x : tensor<8192x8192xf32>
}
// FREE-LABEL: plan.program @free
// FREE: plan.launch @f
// FREE-COUNT-3: plan.library_call
// FREE: plan.launch @f
// FREE: plan.library_call
// FREE-NOT: plan.launch
// FREE: plan.return
plan.program @free(%x: !plan.buffer<268435456> {plan.type = tensor<8192x8192xf32>}) -> (!plan.buffer<268435456> {plan.type = tensor<8192x8192xf32>}) {
  %a = plan.alloc : !plan.buffer<268435456>
  %b = plan.alloc : !plan.buffer<268435456>
  %c = plan.alloc : !plan.buffer<268435456>
  %d = plan.alloc : !plan.buffer<268435456>
  %y = plan.output : !plan.buffer<268435456>
  plan.launch @f ins(%x : !plan.buffer<268435456>) outs(%a : !plan.buffer<268435456>)
  plan.library_call "some.product" ins(%a, %x : !plan.buffer<268435456>, !plan.buffer<268435456>) outs(%b : !plan.buffer<268435456>) as [tensor<8192x8192xf32>, tensor<8192x8192xf32>, tensor<8192x8192xf32>] config {}
  plan.library_call "some.product" ins(%b, %x : !plan.buffer<268435456>, !plan.buffer<268435456>) outs(%c : !plan.buffer<268435456>) as [tensor<8192x8192xf32>, tensor<8192x8192xf32>, tensor<8192x8192xf32>] config {}
  plan.library_call "some.product" ins(%b, %c : !plan.buffer<268435456>, !plan.buffer<268435456>) outs(%d : !plan.buffer<268435456>) as [tensor<8192x8192xf32>, tensor<8192x8192xf32>, tensor<8192x8192xf32>] config {}
  plan.library_call "some.product" ins(%d, %a : !plan.buffer<268435456>, !plan.buffer<268435456>) outs(%y : !plan.buffer<268435456>) as [tensor<8192x8192xf32>, tensor<8192x8192xf32>, tensor<8192x8192xf32>] config {}
  plan.return %y : !plan.buffer<268435456>
}

// -----

// %a costs more to compute again than a file takes: it is stored before its memory is another's, and loaded
// before the last launch.
plan.kernel @f(%x: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}
plan.kernel @g(%x: tensor<32768xf32>, %y: tensor<32768xf32>) -> tensor<32768xf32> {
  plan.return %x : tensor<32768xf32>
}
// FILES-LABEL: plan.program @file
// FILES: plan.library_call "some.product" ins(%{{.*}}) outs(%[[A:.*]] : !plan.buffer<131072>)
// FILES: plan.library_call "weft.file.store" ins(%[[A]] : !plan.buffer<131072>) outs(%[[TOKEN:.*]] : !plan.buffer<16>) as [tensor<131072xi8>, tensor<16xi8>]
// FILES: plan.launch @g
// FILES: plan.launch @g
// FILES: plan.library_call "weft.file.load" ins(%[[TOKEN]] : !plan.buffer<16>) outs(%[[AGAIN:.*]] : !plan.buffer<131072>) as [tensor<16xi8>, tensor<131072xi8>]
// FILES: plan.launch @g ins(%[[AGAIN]], %
plan.program @file(%x: !plan.buffer<131072> {plan.type = tensor<128x256xf32>}) -> (!plan.buffer<131072> {plan.type = tensor<32768xf32>}) {
  %a = plan.alloc : !plan.buffer<131072>
  %b = plan.alloc : !plan.buffer<131072>
  %c = plan.alloc : !plan.buffer<131072>
  %d = plan.alloc : !plan.buffer<131072>
  %e = plan.alloc : !plan.buffer<131072>
  %y = plan.output : !plan.buffer<131072>
  plan.library_call "some.product" ins(%x, %x : !plan.buffer<131072>, !plan.buffer<131072>) outs(%a : !plan.buffer<131072>) as [tensor<128x256xf32>, tensor<128x256xf32>, tensor<128x256xf32>] config {}
  plan.library_call "some.product" ins(%a, %x : !plan.buffer<131072>, !plan.buffer<131072>) outs(%b : !plan.buffer<131072>) as [tensor<128x256xf32>, tensor<128x256xf32>, tensor<128x256xf32>] config {}
  plan.launch @f ins(%b : !plan.buffer<131072>) outs(%c : !plan.buffer<131072>)
  plan.launch @g ins(%c, %c : !plan.buffer<131072>, !plan.buffer<131072>) outs(%d : !plan.buffer<131072>)
  plan.launch @g ins(%b, %d : !plan.buffer<131072>, !plan.buffer<131072>) outs(%e : !plan.buffer<131072>)
  plan.launch @g ins(%a, %e : !plan.buffer<131072>, !plan.buffer<131072>) outs(%y : !plan.buffer<131072>)
  plan.return %y : !plan.buffer<131072>
}

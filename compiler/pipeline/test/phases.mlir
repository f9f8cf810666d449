// RUN: weft-opt %s --weft-phase=graph | FileCheck %s --check-prefix=GRAPH
// RUN: weft-opt %s --weft-phase=import..claim | FileCheck %s --check-prefix=CLAIM
// RUN: weft-opt %s --weft-phase=..fuse | FileCheck %s --check-prefix=FUSE
// RUN: weft-opt %s --weft-phase=..fuse --weft-no-fuse | FileCheck %s --check-prefix=UNFUSED
// RUN: not weft-opt %s --weft-phase=nothing 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: rm -rf %t && weft-opt %s --weft-phase=..fuse --weft-dump-dir=%t -o /dev/null && weft-opt %t/30-claim.mlir --weft-fuse | FileCheck %s --check-prefix=FUSE
// RUN: weft-opt %s --weft-insert=after:graph:weft-decompose --weft-phase=graph | FileCheck %s --check-prefix=INSERTED
// RUN: not weft-opt %s --weft-insert=after:graph:weft-decompose 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: weft-opt %s --weft-plugin=%S/test_plugin.so --weft-phase=graph | FileCheck %s --check-prefix=PLUGIN
// RUN: not weft-opt %s --weft-plugin=%S/nowhere.so 2>&1 | FileCheck %s --check-prefix=NO-PLUGIN

// GRAPH: weft.softmax
// CLAIM-NOT: weft.softmax
// CLAIM: weft.exp
// FUSE-COUNT-1: = weft.fusion
// FUSE-NOT: = weft.fusion
// UNFUSED-COUNT-7: = weft.fusion
// WRONG: {{^}}weft-opt: --weft-phase: 'nothing' is no range of phases; the phases are import graph layout claim fuse plan{{$}}
// INSERTED: weft.exp
// ALONE: weft-opt: --weft-insert=after:graph:weft-decompose runs around a phase, and none runs; add --weft-phase=RANGE
// PLUGIN: module attributes {test.weft_ops = 2 : i64}
// NO-PLUGIN: weft-opt: cannot load the plugin {{.*}}nowhere.so
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = weft.softmax %x, dim = 1 : tensor<4x8xf32>
  %1 = weft.neg %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

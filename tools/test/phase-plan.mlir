// RUN: weft-opt %s --weft-phase=..plan | FileCheck %s
// RUN: weft-opt %s --weft-phase=..fuse | weft-opt --weft-phase=plan | FileCheck %s
// RUN: rm -rf %t && weft-opt %s --weft-phase=..plan --weft-dump-dir=%t -o /dev/null && ls %t/kernels | FileCheck %s --check-prefix=KERNELS

// A softmax over another dimension has other rows, and so a kernel of its own; what lies between them has its place in the arena.
// CHECK: plan.kernel @k0_{{.*}} attributes {{{.*}}count = {{[0-9]+}}{{.*}}symbol = "weft_
// CHECK: plan.program @main
// CHECK: plan.arena : !plan.buffer<{{[0-9]+}}>
// CHECK: plan.launch @k0_
// CHECK: plan.launch @k1_
// KERNELS-DAG: {{^}}k0_{{.*}}.ll{{$}}
// KERNELS-DAG: {{^}}k0_{{[a-z_0-9]*}}.mlir{{$}}
// KERNELS-DAG: {{^}}k1_{{.*}}.s{{$}}
func.func @main(%x: tensor<64x32xf32>) -> tensor<32xf32> {
  %0 = weft.softmax %x, dim = 1 : tensor<64x32xf32>
  %1 = weft.softmax %0, dim = 0 : tensor<64x32xf32>
  %2 = weft.reduce_max %1, dims = [0] : tensor<64x32xf32>
  return %2 : tensor<32xf32>
}

// Kernels of users become calls of the runtime's entry, whatever a backend claims. (The kernel is one that weft-opt's plugin registers.)
// RUN: weft-opt %s --weft-plugin=%S/test_kernels.so --weft-call-custom | FileCheck %s
// RUN: weft-opt %s --weft-plugin=%S/test_kernels.so --weft-no-claim --weft-phase=import..fuse | FileCheck %s
// RUN: not weft-opt %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: custom.mlir:13:{{.*}}no kernel named 'test.twice' is registered in this process (weft_register_kernel); load_plugin() or WEFT_PLUGINS loads a library of kernels; known: none

// CHECK-LABEL: func.func @main
// CHECK: weft.provider_call "weft.custom"(%{{.*}} = %{{.*}} : tensor<4xf32>) -> (tensor<4xf32>)
// CHECK-SAME: config {ints = array<i64: 3>, kernel = "test.twice", scalar_bits = array<i64: 4602678819172646912>}
// CHECK-NEXT: weft.custom "test.twice"
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = weft.custom "test.twice"(%x) {ints = array<i64: 3>, scalars = array<f64: 5.000000e-01>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

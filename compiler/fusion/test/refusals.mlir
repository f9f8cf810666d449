// RUN: weft-opt %s --weft-fuse=report 2>&1 >/dev/null | FileCheck %s

// Each refusal has a name, a sentence and a place.
// CHECK-DAG: fuse: refused {{.*}} x different-rows: the reductions are over different dimensions (first: weft.{{.*}} at {{.*}}refusals.mlir:{{[0-9]+}})
// CHECK-DAG: fuse: refused {{.*}} x recomputed: the kernel would compute an expensive value again for each element that reads it (first: weft.exp
func.func @main(%x: tensor<64x64xf32>, %s: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>) {
  %e = weft.tanh %x : tensor<64x64xf32>
  %0 = weft.reduce_sum %e, dims = [1] : tensor<64x64xf32>
  %m = weft.transpose %e, [1, 0] : tensor<64x64xf32>
  %1 = weft.reduce_max %m, dims = [1] : tensor<64x64xf32>
  %2 = weft.exp %s : tensor<64xf32>
  %3 = weft.broadcast %2 : tensor<64xf32> to tensor<64x64xf32>
  %4 = weft.mul %x, %3 : tensor<64x64xf32>
  return %0, %1, %4 : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>
}

// RUN: weft-opt %s --weft-schedule="cpu=x86-64-v3" | FileCheck %s

// Rows that lie across memory are turned into scratch, some vectors of them at a time; rows too
// long for that are not.
// CHECK: -> (tensor<512xf32>) attributes {weft.schedule = {{{.*}}body = "turned", {{.*}}turned_vectors = 4 : i64
// CHECK: -> (tensor<64xf32>) attributes {weft.schedule =
// CHECK-NOT: body = "turned"
func.func @main(%x: tensor<256x512xf32>, %y: tensor<200000x64xf32>) -> (tensor<512xf32>, tensor<64xf32>) {
  %0 = weft.fusion(%a = %x : tensor<256x512xf32>) -> (tensor<512xf32>) {
    %1 = weft.transpose %a, [1, 0] : tensor<256x512xf32>
    %2 = weft.reduce_sum %1, dims = [1] : tensor<512x256xf32>
    weft.yield %2 : tensor<512xf32>
  }
  %3 = weft.fusion(%a = %y : tensor<200000x64xf32>) -> (tensor<64xf32>) {
    %4 = weft.transpose %a, [1, 0] : tensor<200000x64xf32>
    %5 = weft.reduce_sum %4, dims = [1] : tensor<64x200000xf32>
    weft.yield %5 : tensor<64xf32>
  }
  return %0, %3 : tensor<512xf32>, tensor<64xf32>
}

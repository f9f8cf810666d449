// RUN: weft-opt %s --split-input-file --weft-fuse | FileCheck %s
// Products of few rows with a matrix of 8 bits.

// All that converts the matrix is in the product's kernel; what computes the other side is not.
// CHECK-LABEL: @converted
// CHECK: weft.fusion({{.*}} : tensor<4x64xbf16>)
// CHECK: weft.fusion({{.*}}tensor<48x64xi8>{{.*}}) -> (tensor<4x48xf32>)
// CHECK-DAG: weft.cast {{.*}} : tensor<48x64xi8> to tensor<48x64xf32>
// CHECK-DAG: weft.sub
// CHECK: weft.mul
// CHECK: weft.matmul
// CHECK: weft.yield
module @converted {
func.func @main(%x: tensor<4x64xbf16>, %q: tensor<48x64xi8>, %z: tensor<48x1xf32>, %s: tensor<48x1xf32>) -> tensor<4x48xf32> {
  %x32 = weft.cast %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %0 = weft.cast %q : tensor<48x64xi8> to tensor<48x64xf32>
  %1 = weft.broadcast %z : tensor<48x1xf32> to tensor<48x64xf32>
  %2 = weft.sub %0, %1 : tensor<48x64xf32>
  %3 = weft.broadcast %s : tensor<48x1xf32> to tensor<48x64xf32>
  %4 = weft.mul %2, %3 : tensor<48x64xf32>
  %y = weft.matmul %x32, %4 {transpose_rhs = true} : tensor<4x64xf32>, tensor<48x64xf32>
  return %y : tensor<4x48xf32>
}
}

// -----

// Of more rows, of 16 bits, of what others read as well, of what is expensive: apart.
// CHECK-LABEL: @apart
// CHECK-NOT: weft.fusion({{.*}}xi8>{{.*}}) -> (tensor<4x48xf32>)
// CHECK-NOT: weft.fusion({{.*}}xi8>{{.*}}) -> (tensor<33x48xf32>)
// CHECK-NOT: weft.fusion({{.*}}xf16>{{.*}}) -> (tensor<4x48xf32>)
// CHECK: return
module @apart {
func.func @main(%x: tensor<33x64xf32>, %y: tensor<4x64xf32>, %q: tensor<48x64xi8>, %p: tensor<48x64xi8>, %r: tensor<48x64xi8>, %h: tensor<48x64xf16>)
    -> (tensor<33x48xf32>, tensor<4x48xf32>, tensor<4x48xf32>, tensor<4x48xf32>, tensor<48x64xf32>) {
  %0 = weft.cast %q : tensor<48x64xi8> to tensor<48x64xf32>
  %a = weft.matmul %x, %0 {transpose_rhs = true} : tensor<33x64xf32>, tensor<48x64xf32>
  %1 = weft.cast %h : tensor<48x64xf16> to tensor<48x64xf32>
  %b = weft.matmul %y, %1 {transpose_rhs = true} : tensor<4x64xf32>, tensor<48x64xf32>
  %2 = weft.cast %p : tensor<48x64xi8> to tensor<48x64xf32>
  %n = weft.neg %2 : tensor<48x64xf32>
  %c = weft.matmul %y, %n {transpose_rhs = true} : tensor<4x64xf32>, tensor<48x64xf32>
  %3 = weft.cast %r : tensor<48x64xi8> to tensor<48x64xf32>
  %e = weft.exp %3 : tensor<48x64xf32>
  %d = weft.matmul %y, %e {transpose_rhs = true} : tensor<4x64xf32>, tensor<48x64xf32>
  return %a, %b, %c, %d, %n : tensor<33x48xf32>, tensor<4x48xf32>, tensor<4x48xf32>, tensor<4x48xf32>, tensor<48x64xf32>
}
}

// RUN: weft-opt %s --weft-claim --weft-pack-shared=report --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t

// One copy for the products of all steps, and another for those with the transposed matrix, which gain more and so may be fewer; its config
// is all of the product's.
// CHECK-LABEL: @both_ways
// CHECK: %[[PACK:.*]] = weft.provider_call "onednn.pack"({{.*}} = %arg1 : tensor<128x128xf32>) -> {{\(?}}tensor<128x128xf32>{{\)?}}
// CHECK-SAME: config {lhs = array<i64: 16, 128>, out = array<i64: 16, 128>}
// CHECK-NEXT: weft.yield
// CHECK-COUNT-24: weft.provider_call "onednn.matmul"({{.*}}, {{.*}} = %[[PACK]] : tensor<128x128xf32>) {{.*}} config {packed_rhs = 1 : i64}
// CHECK: %[[BACK:.*]] = weft.provider_call "onednn.pack"({{.*}} = %arg1 : tensor<128x128xf32>)
// CHECK-SAME: config {lhs = array<i64: 16, 128>, out = array<i64: 16, 128>, transpose_rhs = 1 : i64}
// CHECK-COUNT-4: weft.provider_call "onednn.matmul"({{.*}}, {{.*}} = %[[BACK]] : tensor<128x128xf32>) {{.*}} config {packed_rhs = 1 : i64, transpose_rhs = 1 : i64}
// CHECK-NOT: onednn.pack
module @both_ways {
func.func @main(%h: tensor<16x128xf32>, %w: tensor<128x128xf32>) -> tensor<16x128xf32> {
  %0 = weft.matmul %h, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %1 = weft.matmul %0, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %2 = weft.matmul %1, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %3 = weft.matmul %2, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %4 = weft.matmul %3, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %5 = weft.matmul %4, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %6 = weft.matmul %5, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %7 = weft.matmul %6, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %8 = weft.matmul %7, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %9 = weft.matmul %8, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %10 = weft.matmul %9, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %11 = weft.matmul %10, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %12 = weft.matmul %11, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %13 = weft.matmul %12, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %14 = weft.matmul %13, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %15 = weft.matmul %14, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %16 = weft.matmul %15, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %17 = weft.matmul %16, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %18 = weft.matmul %17, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %19 = weft.matmul %18, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %20 = weft.matmul %19, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %21 = weft.matmul %20, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %22 = weft.matmul %21, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %23 = weft.matmul %22, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %24 = weft.matmul %23, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %25 = weft.matmul %24, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %26 = weft.matmul %25, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %27 = weft.matmul %26, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  return %27 : tensor<16x128xf32>
}
}

// -----
// Not enough products to earn the copies back.
// CHECK-LABEL: @too_few
// CHECK-NOT: onednn.pack
module @too_few {
func.func @main(%h: tensor<16x128xf32>, %w: tensor<128x128xf32>) -> tensor<16x128xf32> {
  %0 = weft.matmul %h, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %1 = weft.matmul %0, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %2 = weft.matmul %1, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %3 = weft.matmul %2, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %4 = weft.matmul %3, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %5 = weft.matmul %4, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %6 = weft.matmul %5, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %7 = weft.matmul %6, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %8 = weft.matmul %7, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %9 = weft.matmul %8, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %10 = weft.matmul %9, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %11 = weft.matmul %10, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %12 = weft.matmul %11, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %13 = weft.matmul %12, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %14 = weft.matmul %13, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %15 = weft.matmul %14, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %16 = weft.matmul %15, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %17 = weft.matmul %16, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %18 = weft.matmul %17, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %19 = weft.matmul %18, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %20 = weft.matmul %19, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %21 = weft.matmul %20, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %22 = weft.matmul %21, %w : tensor<16x128xf32>, tensor<128x128xf32>
  %23 = weft.matmul %22, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %24 = weft.matmul %23, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %25 = weft.matmul %24, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  return %25 : tensor<16x128xf32>
}
}

// -----
// What is the same in many runs is packed for all of them, when the program has shown to be run.
// CHECK-LABEL: @stable
// CHECK-NOT: onednn.pack
module @stable {
func.func @main(%h: tensor<16x128xf32>, %w: tensor<128x128xf32> {weft.stable}) -> tensor<16x128xf32> {
  %0 = weft.matmul %h, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %1 = weft.matmul %0, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %2 = weft.matmul %1, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  %3 = weft.matmul %2, %w {transpose_rhs = true} : tensor<16x128xf32>, tensor<128x128xf32>
  return %3 : tensor<16x128xf32>
}
}

// -----
// Blocks of the form would reach beyond the matrix.
// CHECK-LABEL: @padded
// CHECK-NOT: onednn.pack
// REPORT: claim: refused 4 x padded-form: the library's form of this matrix takes more memory than the matrix; each product makes its own
module @padded {
func.func @main(%h: tensor<16x100xf32>, %w: tensor<100x100xf32>) -> tensor<16x100xf32> {
  %0 = weft.matmul %h, %w {transpose_rhs = true} : tensor<16x100xf32>, tensor<100x100xf32>
  %1 = weft.matmul %0, %w {transpose_rhs = true} : tensor<16x100xf32>, tensor<100x100xf32>
  %2 = weft.matmul %1, %w {transpose_rhs = true} : tensor<16x100xf32>, tensor<100x100xf32>
  %3 = weft.matmul %2, %w {transpose_rhs = true} : tensor<16x100xf32>, tensor<100x100xf32>
  return %3 : tensor<16x100xf32>
}
}

// -----
// Many rows hide the packing, whatever shares it.
// CHECK-LABEL: @many_rows
// CHECK-NOT: onednn.pack
module @many_rows {
func.func @main(%h: tensor<65x128xf32>, %w: tensor<128x128xf32>) -> tensor<65x128xf32> {
  %0 = weft.matmul %h, %w {transpose_rhs = true} : tensor<65x128xf32>, tensor<128x128xf32>
  %1 = weft.matmul %0, %w {transpose_rhs = true} : tensor<65x128xf32>, tensor<128x128xf32>
  %2 = weft.matmul %1, %w {transpose_rhs = true} : tensor<65x128xf32>, tensor<128x128xf32>
  %3 = weft.matmul %2, %w {transpose_rhs = true} : tensor<65x128xf32>, tensor<128x128xf32>
  return %3 : tensor<65x128xf32>
}
}

// -----

// A call that was written by hand, with too few operands: none is packed.
// CHECK-LABEL: @one_operand
// CHECK-NOT: onednn.pack
module @one_operand {
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = weft.provider_call "onednn.matmul"(%a = %x : tensor<4x4xf32>) -> (tensor<4x4xf32>) config {} {
    %1 = weft.tanh %a : tensor<4x4xf32>
    weft.yield %1 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}
}

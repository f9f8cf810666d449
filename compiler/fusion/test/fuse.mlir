// RUN: weft-opt %s --weft-phase=import..fuse --split-input-file | FileCheck %s

// Elementwise ops with broadcasts: one kernel; its scalar stays a scalar.
// CHECK-LABEL: @elementwise
// CHECK-COUNT-1: = weft.fusion
// CHECK-NOT: = weft.fusion
module @elementwise {
func.func @main(%x: tensor<64x64xf32>, %b: tensor<64xf32>, %s: tensor<f32>) -> tensor<64x64xf32> {
  %0 = weft.broadcast %b : tensor<64xf32> to tensor<64x64xf32>
  %1 = weft.add %x, %0 : tensor<64x64xf32>
  %2 = weft.broadcast %s : tensor<f32> to tensor<64x64xf32>
  %3 = weft.mul %1, %2 : tensor<64x64xf32>
  %4 = weft.tanh %3 : tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}
}

// -----
// Softmax, its statistics and what reads it by rows.
// CHECK-LABEL: @softmax
// CHECK-COUNT-1: = weft.fusion
// CHECK-NOT: = weft.fusion
module @softmax {
func.func @main(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {
  %c = weft.constant dense<0.5> : tensor<64x256xf32>
  %0 = weft.mul %x, %c : tensor<64x256xf32>
  %1 = weft.softmax %0, dim = 1 : tensor<64x256xf32>
  %2 = weft.neg %1 : tensor<64x256xf32>
  return %2 : tensor<64x256xf32>
}
}

// -----
// layer_norm behind a residual sum: both are results of one kernel.
// CHECK-LABEL: @residual_norm
// CHECK-COUNT-1: :4 = weft.fusion
// CHECK-NOT: = weft.fusion
module @residual_norm {
func.func @main(%x: tensor<64x256xf32>, %h: tensor<64x256xf32>, %w: tensor<256xf32>, %b: tensor<256xf32>)
    -> (tensor<64x256xf32>, tensor<64x256xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = weft.add %x, %h : tensor<64x256xf32>
  %1, %mean, %rstd = weft.layer_norm %0 weight %w bias %b {normalized_rank = 1 : i64, eps = 1.0e-5 : f64}
      : (tensor<64x256xf32>, tensor<256xf32>, tensor<256xf32>) -> (tensor<64x256xf32>, tensor<64xf32>, tensor<64xf32>)
  return %0, %1, %mean, %rstd : tensor<64x256xf32>, tensor<64x256xf32>, tensor<64xf32>, tensor<64xf32>
}
}

// -----
// Every reader of a value or none: no op is computed twice, and a value that a matmul reads is written once.
// CHECK-LABEL: @no_copies
// CHECK: %[[A:.*]]:2 = weft.fusion
// CHECK-COUNT-1: weft.exp
// CHECK-COUNT-1: weft.neg
// CHECK: weft.yield
// CHECK: weft.provider_call "onednn.matmul"
// CHECK-NOT: weft.exp
// CHECK: return
module @no_copies {
func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = weft.exp %x : tensor<64x64xf32>
  %1 = weft.matmul %0, %0 : tensor<64x64xf32>, tensor<64x64xf32>
  %2 = weft.neg %0 : tensor<64x64xf32>
  return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>
}
}

// -----
// Between the two there is a library call: two kernels, or the program would be a circle.
// CHECK-LABEL: @no_circle
// CHECK: = weft.fusion
// CHECK: weft.exp
// CHECK: weft.provider_call
// CHECK: = weft.fusion
// CHECK: weft.add
module @no_circle {
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = weft.exp %x : tensor<64x64xf32>
  %1 = weft.matmul %0, %0 : tensor<64x64xf32>, tensor<64x64xf32>
  %2 = weft.add %0, %1 : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
}

// -----
// The mask crosses from the one kernel to the other as bool, the widening cast is done by each reader.
// CHECK-LABEL: @narrow_cut
// CHECK: = weft.fusion({{.*}}) -> (tensor<64x64xi1>, tensor<64x64xf32>)
// CHECK: weft.provider_call
// CHECK: = weft.fusion({{.*}} : tensor<64x64xi1>
// CHECK: weft.cast
module @narrow_cut {
func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = weft.compare gt %x, %y : tensor<64x64xf32>
  %1 = weft.cast %0 : tensor<64x64xi1> to tensor<64x64xf32>
  %2 = weft.mul %x, %1 : tensor<64x64xf32>
  %3 = weft.matmul %2, %2 : tensor<64x64xf32>, tensor<64x64xf32>
  %4 = weft.mul %3, %1 : tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}
}

// -----
// Independent kernels over the same large input are one that reads it once.
// CHECK-LABEL: @siblings
// CHECK-COUNT-1: :2 = weft.fusion
// CHECK-NOT: = weft.fusion
module @siblings {
func.func @main(%x: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  %0 = weft.exp %x : tensor<256x256xf32>
  %1 = weft.tanh %x : tensor<256x256xf32>
  return %0, %1 : tensor<256x256xf32>, tensor<256x256xf32>
}
}

// -----
// An optimizer's scalars are one kernel that both updates read; they are not computed again for each element.
// CHECK-LABEL: @scalars
// CHECK: %[[S:.*]] = weft.fusion({{.*}} : tensor<f32>) -> {{\(?}}tensor<f32>
// CHECK: weft.pow
// CHECK: = weft.fusion
// CHECK-NOT: weft.pow
// CHECK: = weft.fusion
module @scalars {
func.func @main(%t: tensor<f32>, %p: tensor<64x64xf32>, %q: tensor<32xf32>) -> (tensor<64x64xf32>, tensor<32xf32>) {
  %beta = weft.constant dense<0.9> : tensor<f32>
  %0 = weft.pow %beta, %t : tensor<f32>
  %1 = weft.broadcast %0 : tensor<f32> to tensor<64x64xf32>
  %2 = weft.mul %p, %1 : tensor<64x64xf32>
  %3 = weft.broadcast %0 : tensor<f32> to tensor<32xf32>
  %4 = weft.mul %q, %3 : tensor<32xf32>
  return %2, %4 : tensor<64x64xf32>, tensor<32xf32>
}
}

// -----
// The scaled scores are not written: the second kernel scales the matmul's result again, which is in memory anyway.
// CHECK-LABEL: @rematerialized
// CHECK: %[[S:.*]] = weft.provider_call
// CHECK: %[[E:.*]] = weft.fusion({{.*}} = %[[S]] : tensor<64x64xf32>) -> {{\(?}}tensor<64x64xf32>{{\)? \{}}
// CHECK: weft.mul
// CHECK: weft.exp
// CHECK: %[[T:.*]] = weft.provider_call
// CHECK: weft.fusion({{.*}} = %[[S]] : tensor<64x64xf32>
// CHECK: weft.mul
// CHECK: weft.add
module @rematerialized {
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %s = weft.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32>
  %c = weft.constant dense<3.0> : tensor<64x64xf32>
  %0 = weft.mul %s, %c : tensor<64x64xf32>
  %1 = weft.exp %0 : tensor<64x64xf32>
  %2 = weft.matmul %1, %x : tensor<64x64xf32>, tensor<64x64xf32>
  %3 = weft.add %2, %0 : tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}
}

// -----
// Nor is the normalized row: the residual sum is in memory for others, and two numbers a row bring the rest.
// CHECK-LABEL: @rematerialized_norm
// CHECK: weft.fusion({{.*}}) -> (tensor<64x256xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x256xf32>)
// CHECK: weft.provider_call
// CHECK: weft.fusion
// CHECK: weft.sub
module @rematerialized_norm {
func.func @main(%x: tensor<64x256xf32>, %h: tensor<64x256xf32>, %w: tensor<256x256xf32>) -> tensor<64x256xf32> {
  %0 = weft.add %x, %h : tensor<64x256xf32>
  %1, %mean, %rstd = weft.layer_norm %0 {normalized_rank = 1 : i64, eps = 1.0e-5 : f64}
      : (tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64xf32>, tensor<64xf32>)
  %2 = weft.exp %1 : tensor<64x256xf32>
  %3 = weft.matmul %2, %w : tensor<64x256xf32>, tensor<256x256xf32>
  %4 = weft.mul %3, %1 : tensor<64x256xf32>
  %5 = weft.add %4, %0 : tensor<64x256xf32>
  return %5 : tensor<64x256xf32>
}
}

// -----
// What a reshape reads from memory is made there: the kernel behind it could only compute it again inside.
// CHECK-LABEL: @read_through_a_reshape
// CHECK: %[[A:.*]] = weft.fusion
// CHECK: weft.cast
// CHECK: %[[B:.*]] = weft.reshape %[[A]]
// CHECK: weft.fusion({{.*}} = %[[B]]
// CHECK: weft.matmul
module @read_through_a_reshape {
func.func @main(%x: tensor<3x8x2x17xf32>, %w: tensor<17x3xi64>) -> tensor<48x3xi64> {
  %0 = weft.cast %x : tensor<3x8x2x17xf32> to tensor<3x8x2x17xi64>
  %1 = weft.reshape %0 : tensor<3x8x2x17xi64> to tensor<48x17xi64>
  %2 = weft.matmul %1, %w : tensor<48x17xi64>, tensor<17x3xi64>
  return %2 : tensor<48x3xi64>
}
}

// -----
// The pool of a batch_norm in training, and its relu: one kernel, that normalises where the windows read. The indices are not asked for.
// CHECK-LABEL: @norm_and_pool
// CHECK-COUNT-1: = weft.fusion
// CHECK: weft.reduce_sum {{.*}}, dims = [0, 2, 3]
// CHECK-NOT: = weft.fusion
module @norm_and_pool {
func.func @main(%x: tensor<4x16x32x32xf32>, %w: tensor<16xf32>, %b: tensor<16xf32>) -> tensor<4x16x16x16xf32> {
  %y, %mean, %variance = weft.batch_norm %x weight %w bias %b {eps = 1.0e-5 : f64}
      : (tensor<4x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>)
  %r = weft.relu %y : tensor<4x16x32x32xf32>
  %p, %i = weft.max_pool2d %r {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : tensor<4x16x32x32xf32>
  return %p : tensor<4x16x16x16xf32>
}
}

// -----
// Two products of a row with an activation between them: bias and activation are the first product's kernel's, and each of their elements
// is computed once, not for each output of the second one. A bias that is stored in another shape changes nothing.
// CHECK-LABEL: @row_through_two_layers
// CHECK: %[[HIDDEN:.*]] = weft.fusion(
// CHECK: weft.reduce_sum
// CHECK: weft.add
// CHECK: weft.gelu
// CHECK: weft.yield
// CHECK: weft.fusion({{.*}}%[[HIDDEN]]
// CHECK-NOT: weft.gelu
// CHECK: weft.reduce_sum
// CHECK: weft.add
// CHECK: weft.yield
// CHECK-NOT: weft.fusion
// CHECK: return
module @row_through_two_layers {
func.func @main(%x: tensor<1x64xf32>, %u: tensor<256x64xf32>, %b: tensor<256xf32>, %v: tensor<64x256xf32>, %c: tensor<64xf32>) -> tensor<1x64xf32> {
  %0 = weft.matmul %x, %u {transpose_rhs = true} : tensor<1x64xf32>, tensor<256x64xf32>
  %1 = weft.broadcast %b : tensor<256xf32> to tensor<1x256xf32>
  %2 = weft.add %0, %1 : tensor<1x256xf32>
  %3 = weft.gelu %2 : tensor<1x256xf32>
  %4 = weft.matmul %3, %v {transpose_rhs = true} : tensor<1x256xf32>, tensor<64x256xf32>
  %5 = weft.broadcast %c : tensor<64xf32> to tensor<1x64xf32>
  %6 = weft.add %4, %5 : tensor<1x64xf32>
  return %6 : tensor<1x64xf32>
}
}

// -----
// Places in an image that all its channels are read at: a few cheap ops are computed again for each
// channel, the others are not, as they would be computed sixteen times.
// CHECK-LABEL: @places
// CHECK: %[[P:.*]] = weft.fusion
// CHECK: weft.yield {{.*}} : tensor<4x3136xi32>
// CHECK: %[[R:.*]] = weft.reshape %[[P]]
// CHECK: weft.fusion({{.*}} = %[[R]]
// CHECK-COUNT-2: weft.gather
module @places {
func.func @main(%x: tensor<4x3136xf32>, %y: tensor<4x3136xf32>, %t: tensor<4x16x3136xf32>) -> tensor<4x16x3136xf32> {
  %low = weft.constant dense<0.0> : tensor<4x3136xf32>
  %high = weft.constant dense<3135.0> : tensor<4x3136xf32>
  %0 = weft.maximum %x, %low : tensor<4x3136xf32>
  %1 = weft.minimum %0, %high : tensor<4x3136xf32>
  %2 = weft.cast %1 : tensor<4x3136xf32> to tensor<4x3136xi32>
  %3 = weft.reshape %2 : tensor<4x3136xi32> to tensor<4x1x3136xi32>
  %4 = weft.broadcast %3 : tensor<4x1x3136xi32> to tensor<4x16x3136xi32>
  %5 = weft.gather %t, %4, dim = 2 : tensor<4x16x3136xf32>, tensor<4x16x3136xi32>
  %6 = weft.maximum %y, %low : tensor<4x3136xf32>
  %7 = weft.minimum %6, %high : tensor<4x3136xf32>
  %8 = weft.cast %7 : tensor<4x3136xf32> to tensor<4x3136xi32>
  %9 = weft.reshape %8 : tensor<4x3136xi32> to tensor<4x1x3136xi32>
  %10 = weft.broadcast %9 : tensor<4x1x3136xi32> to tensor<4x16x3136xi32>
  %11 = weft.gather %t, %10, dim = 2 : tensor<4x16x3136xf32>, tensor<4x16x3136xi32>
  %12 = weft.add %5, %11 : tensor<4x16x3136xf32>
  return %12 : tensor<4x16x3136xf32>
}
}

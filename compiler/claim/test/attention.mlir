// RUN: weft-opt %s --weft-claim="composites report" --weft-decompose --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT < %t
// RUN: weft-opt %s --weft-claim="composites" --weft-decompose --weft-fuse --split-input-file | FileCheck %s --check-prefix=FUSED
// RUN: weft-opt %s --weft-decompose --split-input-file | FileCheck %s --check-prefix=PLAIN

// The backend's code generator has a kernel for it, and for its derivative.
// CHECK-LABEL: @whole
// CHECK: weft.attention {{.*}}weft.whole
// CHECK-NOT: weft.matmul
// CHECK: weft.attention_gradient {{.*}}weft.whole
// FUSED-LABEL: @whole
// FUSED: weft.fusion
// FUSED-NEXT: weft.attention
// FUSED: weft.fusion
// FUSED-NEXT: weft.attention_gradient
// FUSED-NOT: weft.fusion
// FUSED: return
// Without the mark, products.
// PLAIN-LABEL: @whole
// PLAIN-NOT: weft.attention
// PLAIN: weft.matmul
module @whole {
func.func @main(%x: tensor<2x64x8xf32>, %g: tensor<2x64x8xf32>) -> (tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<2x64x8xf32>) {
  %y, %l = weft.attention %x, %x, %x {causal = true, scale = 0.5 : f64} : (tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<2x64x8xf32>) -> (tensor<2x64x8xf32>, tensor<2x64xf32>)
  %a, %b, %c = weft.attention_gradient %x, %x, %x result %y, %l gradient %g {causal = true, scale = 0.5 : f64} : (tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<2x64xf32>, tensor<2x64x8xf32>) -> (tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<2x64x8xf32>)
  return %a, %b, %c : tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<2x64x8xf32>
}
}

// -----
// Heads are read where they lie.
// FUSED-LABEL: @heads
// FUSED: weft.fusion({{.*}} : tensor<2x64x3x8xf32>)
// FUSED-NEXT: weft.transpose
// FUSED-NEXT: weft.attention
// FUSED-NOT: weft.transpose
// FUSED: return
module @heads {
func.func @main(%x: tensor<2x64x3x8xf32>) -> tensor<2x3x64x8xf32> {
  %h = weft.transpose %x, [0, 2, 1, 3] : tensor<2x64x3x8xf32>
  %y, %l = weft.attention %h, %h, %h {scale = 0.5 : f64} : (tensor<2x3x64x8xf32>, tensor<2x3x64x8xf32>, tensor<2x3x64x8xf32>) -> (tensor<2x3x64x8xf32>, tensor<2x3x64xf32>)
  return %y : tensor<2x3x64x8xf32>
}
}

// -----
// So are those that serve several heads of queries.
// FUSED-LABEL: @grouped
// FUSED: weft.fusion({{.*}} : tensor<2x64x2x8xf32>
// FUSED-NEXT: weft.transpose
// FUSED-NEXT: weft.reshape
// FUSED-NEXT: weft.broadcast
// FUSED-NEXT: weft.reshape
// FUSED-NEXT: weft.attention
// FUSED-NOT: weft.fusion
// FUSED: return
module @grouped {
func.func @main(%q: tensor<2x6x64x8xf32>, %k: tensor<2x64x2x8xf32>) -> tensor<2x6x64x8xf32> {
  %h = weft.transpose %k, [0, 2, 1, 3] : tensor<2x64x2x8xf32>
  %a = weft.reshape %h : tensor<2x2x64x8xf32> to tensor<2x2x1x64x8xf32>
  %w = weft.broadcast %a : tensor<2x2x1x64x8xf32> to tensor<2x2x3x64x8xf32>
  %r = weft.reshape %w : tensor<2x2x3x64x8xf32> to tensor<2x6x64x8xf32>
  %y, %l = weft.attention %q, %r, %r {scale = 0.5 : f64} : (tensor<2x6x64x8xf32>, tensor<2x6x64x8xf32>, tensor<2x6x64x8xf32>) -> (tensor<2x6x64x8xf32>, tensor<2x6x64xf32>)
  return %y : tensor<2x6x64x8xf32>
}
}

// -----
// REPORT: refused 1 x few-queries: products and a softmax take less time than attention's kernel, whose lanes are queries
// CHECK-LABEL: @few_queries
// CHECK-NOT: weft.attention
// CHECK: weft.matmul
module @few_queries {
func.func @main(%q: tensor<2x1x8xf32>, %k: tensor<2x64x8xf32>) -> tensor<2x1x8xf32> {
  %y, %l = weft.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<2x1x8xf32>, tensor<2x64x8xf32>, tensor<2x64x8xf32>) -> (tensor<2x1x8xf32>, tensor<2x1xf32>)
  return %y : tensor<2x1x8xf32>
}
}

// -----
// REPORT: refused 1 x large-heads: with so many features the blocks of attention's kernel leave the caches
// CHECK-LABEL: @large_heads
// CHECK-NOT: weft.attention
module @large_heads {
func.func @main(%x: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %y, %l = weft.attention %x, %x, %x {scale = 0.5 : f64} : (tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>) -> (tensor<64x512xf32>, tensor<64xf32>)
  return %y : tensor<64x512xf32>
}
}

// -----
// REPORT: refused 1 x empty: there is nothing to attend to
// CHECK-LABEL: @empty
// CHECK-NOT: weft.attention
module @empty {
func.func @main(%q: tensor<64x8xf32>, %k: tensor<0x8xf32>) -> tensor<64x8xf32> {
  %y, %l = weft.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<64x8xf32>, tensor<0x8xf32>, tensor<0x8xf32>) -> (tensor<64x8xf32>, tensor<64xf32>)
  return %y : tensor<64x8xf32>
}
}

// -----
// What is in front of heads is in memory: the kernel reads, it does not compute.
// CHECK-LABEL: @slice
// FUSED-LABEL: @slice
// FUSED: weft.fusion
// FUSED-NEXT: weft.slice
// FUSED: weft.fusion
// FUSED-NEXT: weft.transpose
// FUSED-NEXT: weft.attention
// FUSED: return
module @slice {
func.func @main(%x: tensor<2x64x6x8xf32>) -> tensor<2x3x64x8xf32> {
  %s = weft.slice %x [[0,0,0,0] : [2,64,3,8] : [1,1,1,1]] : tensor<2x64x6x8xf32>
  %h = weft.transpose %s, [0, 2, 1, 3] : tensor<2x64x3x8xf32>
  %y, %l = weft.attention %h, %h, %h {scale = 0.5 : f64} : (tensor<2x3x64x8xf32>, tensor<2x3x64x8xf32>, tensor<2x3x64x8xf32>) -> (tensor<2x3x64x8xf32>, tensor<2x3x64xf32>)
  return %y : tensor<2x3x64x8xf32>
}
}

// -----
// CHECK-LABEL: @cast
// FUSED-LABEL: @cast
// FUSED: weft.fusion
// FUSED-NEXT: weft.cast
// FUSED: weft.fusion
// FUSED-NEXT: weft.transpose
// FUSED-NEXT: weft.attention
// FUSED: return
module @cast attributes {weft.sizes = {s0 = array<i64: 2, 32>}} {
func.func @main(%x: tensor<32x64x3x8xbf16, #weft.dims<s0, _, _, _>>) -> tensor<32x3x64x8xf32, #weft.dims<s0, _, _, _>> {
  %s = weft.cast %x : tensor<32x64x3x8xbf16, #weft.dims<s0, _, _, _>> to tensor<32x64x3x8xf32, #weft.dims<s0, _, _, _>>
  %h = weft.transpose %s, [0, 2, 1, 3] : tensor<32x64x3x8xf32, #weft.dims<s0, _, _, _>>
  %y, %l = weft.attention %h, %h, %h {scale = 0.5 : f64} : (tensor<32x3x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x3x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x3x64x8xf32, #weft.dims<s0, _, _, _>>) -> (tensor<32x3x64x8xf32, #weft.dims<s0, _, _, _>>, tensor<32x3x64xf32, #weft.dims<s0, _, _>>)
  return %y : tensor<32x3x64x8xf32, #weft.dims<s0, _, _, _>>
}
}

// -----
// One head of keys for all queries, repeated.
// CHECK-LABEL: @repeated
// FUSED-LABEL: @repeated
// FUSED: weft.fusion
// FUSED-NEXT: weft.broadcast
// FUSED-NEXT: weft.transpose
// FUSED-NEXT: weft.transpose
// FUSED-NEXT: weft.attention
// FUSED: return
module @repeated {
func.func @main(%q: tensor<2x64x3x8xf32>, %x: tensor<2x64x1x8xf32>) -> tensor<2x3x64x8xf32> {
  %s = weft.broadcast %x : tensor<2x64x1x8xf32> to tensor<2x64x3x8xf32>
  %k = weft.transpose %s, [0, 2, 1, 3] : tensor<2x64x3x8xf32>
  %h = weft.transpose %q, [0, 2, 1, 3] : tensor<2x64x3x8xf32>
  %y, %l = weft.attention %h, %k, %k {scale = 0.5 : f64} : (tensor<2x3x64x8xf32>, tensor<2x3x64x8xf32>, tensor<2x3x64x8xf32>) -> (tensor<2x3x64x8xf32>, tensor<2x3x64xf32>)
  return %y : tensor<2x3x64x8xf32>
}
}

// RUN: weft-opt %s --split-input-file --weft-fuse | FileCheck %s

// A large result of one value is written by a kernel, once however often it is returned; a small one is a constant of the program.
// CHECK-LABEL: @results
// CHECK: %[[SMALL:.*]] = weft.constant dense<0.000000e+00> : tensor<8xf32>
// CHECK: %[[LARGE:.*]] = weft.fusion() -> (tensor<512x512xf32>) {
// CHECK-NEXT: %[[ONE:.*]] = weft.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: weft.broadcast %[[ONE]] : tensor<f32> to tensor<512x512xf32>
// CHECK-NEXT: weft.yield
// CHECK: return %[[SMALL]], %[[LARGE]], %[[LARGE]]
module @results {
func.func @main() -> (tensor<8xf32>, tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = weft.constant dense<0.0> : tensor<8xf32>
  %1 = weft.constant dense<2.0> : tensor<512x512xf32>
  return %0, %1, %1 : tensor<8xf32>, tensor<512x512xf32>, tensor<512x512xf32>
}
}

// -----

// What reads the constant in a kernel keeps it.
// CHECK-LABEL: @reader
// CHECK: weft.fusion({{.*}}tensor<512x512xf32>)
// CHECK-DAG: weft.constant dense<2.000000e+00> : tensor<512x512xf32>
// CHECK-DAG: weft.broadcast
// CHECK: weft.yield
// CHECK-NOT: weft.fusion
// CHECK: return
module @reader {
func.func @main(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = weft.constant dense<2.0> : tensor<512x512xf32>
  %1 = weft.mul %x, %0 : tensor<512x512xf32>
  return %0, %1 : tensor<512x512xf32>, tensor<512x512xf32>
}
}

// -----

// A constant has the largest of sizes that vary, so that a kernel writes the result, whatever its bytes.
// CHECK-LABEL: @varies
// CHECK: %[[SIZED:.*]] = weft.fusion() -> (tensor<64x2xf32, #weft.dims<n, _>>) {
// CHECK-NEXT: %[[ONE:.*]] = weft.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: weft.broadcast %[[ONE]] : tensor<f32> to tensor<64x2xf32, #weft.dims<n, _>>
// CHECK: return %[[SIZED]]
module @varies {
func.func @main(%x: tensor<64xf32, #weft.dims<n>>) -> tensor<64x2xf32, #weft.dims<n, _>> {
  %0 = weft.constant dense<1.0> : tensor<64x2xf32, #weft.dims<n, _>>
  return %0 : tensor<64x2xf32, #weft.dims<n, _>>
}
}

// -----

// What a library's call reads is memory: a kernel writes it, once for all calls.
// CHECK-LABEL: @calls
// CHECK: %[[ONES:.*]] = weft.fusion() -> (tensor<512x512xf32>) {
// CHECK: weft.broadcast
// CHECK: weft.provider_call "onednn.matmul"(%{{.*}} = %[[ONES]]
// CHECK: weft.provider_call "onednn.matmul"(%{{.*}} = %{{.*}}, %{{.*}} = %[[ONES]]
// CHECK-NOT: weft.constant dense<1.000000e+00> : tensor<512x512xf32>
module @calls {
func.func @main(%w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = weft.constant dense<1.0> : tensor<512x512xf32>
  %1 = weft.provider_call "onednn.matmul"(%a = %0 : tensor<512x512xf32>, %b = %w : tensor<512x512xf32>) -> (tensor<512x512xf32>) config {} {
    %3 = weft.matmul %a, %b : tensor<512x512xf32>, tensor<512x512xf32>
    weft.yield %3 : tensor<512x512xf32>
  }
  %2 = weft.provider_call "onednn.matmul"(%a = %1 : tensor<512x512xf32>, %b = %0 : tensor<512x512xf32>) -> (tensor<512x512xf32>) config {} {
    %3 = weft.matmul %a, %b : tensor<512x512xf32>, tensor<512x512xf32>
    weft.yield %3 : tensor<512x512xf32>
  }
  return %2 : tensor<512x512xf32>
}
}

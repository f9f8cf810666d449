// Every op reads back what it prints, as text and as bytecode.
// RUN: weft-opt %s | FileCheck %s
// RUN: weft-opt %s | weft-opt | FileCheck %s
// RUN: weft-opt %s --emit-bytecode | weft-opt | FileCheck %s

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %p: tensor<2x3xi1>, %i: tensor<4xi32>) {
  // CHECK: weft.neg %{{.*}} : tensor<2x3xf32>
  %0 = weft.neg %x : tensor<2x3xf32>
  // CHECK: weft.gelu %{{.*}} {tanh_approximation = true} : tensor<2x3xf32>
  %1 = weft.gelu %x {tanh_approximation = true} : tensor<2x3xf32>
  // CHECK: weft.gelu %{{.*}} : tensor<2x3xf32>
  %2 = weft.gelu %x : tensor<2x3xf32>
  // CHECK: weft.add %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %3 = weft.add %x, %y : tensor<2x3xf32>
  // CHECK: weft.and %{{.*}}, %{{.*}} : tensor<2x3xi1>
  %4 = weft.and %p, %p : tensor<2x3xi1>
  // CHECK: weft.compare lt %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %5 = weft.compare lt %x, %y : tensor<2x3xf32>
  // CHECK: weft.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %6 = weft.select %5, %x, %y : tensor<2x3xf32>
  // CHECK: weft.cast %{{.*}} : tensor<2x3xf32> to tensor<2x3xbf16>
  %7 = weft.cast %x : tensor<2x3xf32> to tensor<2x3xbf16>
  // CHECK: weft.rem %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %8 = weft.rem %x, %y : tensor<2x3xf32>
  // CHECK: weft.softplus %{{.*}} : tensor<2x3xf32>
  %9 = weft.softplus %x : tensor<2x3xf32>
  // CHECK: weft.xor %{{.*}}, %{{.*}} : tensor<2x3xi1>
  %10 = weft.xor %p, %p : tensor<2x3xi1>
  // CHECK: weft.shift_left %{{.*}}, %{{.*}} : tensor<4xi32>
  %11 = weft.shift_left %i, %i : tensor<4xi32>
  // CHECK: weft.shift_right %{{.*}}, %{{.*}} : tensor<4xi32>
  %12 = weft.shift_right %i, %i : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @scans
func.func @scans(%x: tensor<2x3xf32>, %p: tensor<2x3xi1>, %i: tensor<4xi64>, %u: tensor<2x4xf32>) {
  // CHECK: weft.reduce_min %{{.*}}, dims = [1] : tensor<2x3xi1>
  %0 = weft.reduce_min %p, dims = [1] : tensor<2x3xi1>
  // CHECK: weft.reduce_prod %{{.*}}, dims = [0] : tensor<2x3xf32>
  %1 = weft.reduce_prod %x, dims = [0] : tensor<2x3xf32>
  // CHECK: weft.cumsum %{{.*}}, dim = 1 : tensor<2x3xf32>
  %2 = weft.cumsum %x, dim = 1 : tensor<2x3xf32>
  // CHECK: weft.cumsum %{{.*}}, dim = 0 {reverse = true} : tensor<2x3xf32>
  %3 = weft.cumsum %x, dim = 0 {reverse = true} : tensor<2x3xf32>
  // CHECK: weft.cumprod %{{.*}}, dim = 1 : tensor<2x3xf32>
  %cumprod = weft.cumprod %x, dim = 1 : tensor<2x3xf32>
  // CHECK: weft.recurrence %{{.*}}, %{{.*}}, dim = 0 {reverse = true} : tensor<2x3xf32>
  %recurrence = weft.recurrence %x, %cumprod, dim = 0 {reverse = true} : tensor<2x3xf32>
  // CHECK: weft.cum_arg_max %{{.*}}, dim = 1 : tensor<2x3xf32>
  %largest = weft.cum_arg_max %x, dim = 1 : tensor<2x3xf32>
  // CHECK: weft.cum_arg_min %{{.*}}, dim = 0 : tensor<2x3xf32>
  %smallest = weft.cum_arg_min %x, dim = 0 : tensor<2x3xf32>
  // CHECK: %[[A:.*]] = weft.arg_max %{{.*}}, dim = 1 : tensor<2x3xf32>
  %4 = weft.arg_max %x, dim = 1 : tensor<2x3xf32>
  // CHECK: weft.cast %[[A]] : tensor<2xi64> to tensor<2xf32>
  %5 = weft.cast %4 : tensor<2xi64> to tensor<2xf32>
  // CHECK: weft.index_put %{{.*}}, %{{.*}}, %{{.*}}, dim = 1 : tensor<2x3xf32>, tensor<4xi64>, tensor<2x4xf32>
  %6 = weft.index_put %x, %i, %u, dim = 1 : tensor<2x3xf32>, tensor<4xi64>, tensor<2x4xf32>
  // CHECK: %[[S:.*]] = weft.arg_sort %{{.*}}, dim = 1 : tensor<2x3xf32>
  %7 = weft.arg_sort %x, dim = 1 : tensor<2x3xf32>
  // CHECK: weft.gather %{{.*}}, %[[S]], dim = 1 : tensor<2x3xf32>, tensor<2x3xi64>
  %8 = weft.gather %x, %7, dim = 1 : tensor<2x3xf32>, tensor<2x3xi64>
  // CHECK: %[[K:.*]] = weft.arg_sort %{{.*}}, dim = 0 {count = 1 : i64, descending = true} : tensor<2x3xi1>
  %9 = weft.arg_sort %p, dim = 0 {count = 1 : i64, descending = true} : tensor<2x3xi1>
  // CHECK: weft.cast %[[K]] : tensor<1x3xi64> to tensor<1x3xf32>
  %10 = weft.cast %9 : tensor<1x3xi64> to tensor<1x3xf32>
  return
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x3xf32>, %u: tensor<1x2xf32>) {
  // CHECK: weft.constant dense<1.000000e+00> : tensor<f32>
  %0 = weft.constant dense<1.0> : tensor<f32>
  // CHECK: weft.iota {dim = 1 : i64} : tensor<2x3xi64>
  %1 = weft.iota {dim = 1 : i64} : tensor<2x3xi64>
  // CHECK: weft.reshape %{{.*}} : tensor<2x3xf32> to tensor<6xf32>
  %2 = weft.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  // CHECK: %[[T:.*]] = weft.transpose %{{.*}}, [1, 0] : tensor<2x3xf32>
  %3 = weft.transpose %x, [1, 0] : tensor<2x3xf32>
  // CHECK: weft.reshape %[[T]] : tensor<3x2xf32> to tensor<6xf32>
  %4 = weft.reshape %3 : tensor<3x2xf32> to tensor<6xf32>
  // CHECK: weft.broadcast %{{.*}} : tensor<2x3xf32> to tensor<4x2x3xf32>
  %5 = weft.broadcast %x : tensor<2x3xf32> to tensor<4x2x3xf32>
  // CHECK: weft.slice %{{.*}}[{{\[}}0, 2] : [2, -1] : [1, -2]] : tensor<2x3xf32>
  %6 = weft.slice %x [[0, 2] : [2, -1] : [1, -2]] : tensor<2x3xf32>
  // CHECK: weft.insert_slice %{{.*}} into %{{.*}}[{{\[}}1, 0] : [1, 2]] : tensor<1x2xf32> into tensor<2x3xf32>
  %7 = weft.insert_slice %u into %x [[1, 0] : [1, 2]] : tensor<1x2xf32> into tensor<2x3xf32>
  // CHECK: weft.concat %{{.*}}, %{{.*}} dim = 0 : tensor<2x3xf32>, tensor<2x3xf32>
  %8 = weft.concat %x, %x dim = 0 : tensor<2x3xf32>, tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %i: tensor<2xi64>, %j: tensor<1x3xi64>, %s: tensor<2xi64>, %t: tensor<4xi64>) {
  // CHECK: weft.reduce_sum %{{.*}}, dims = [1] : tensor<4x3xf32>
  %0 = weft.reduce_sum %x, dims = [1] : tensor<4x3xf32>
  // CHECK: weft.matmul %{{.*}}, %{{.*}} {transpose_rhs = true} : tensor<4x3xf32>, tensor<4x3xf32>
  %1 = weft.matmul %x, %x {transpose_rhs = true} : tensor<4x3xf32>, tensor<4x3xf32>
  // CHECK: weft.index_select %{{.*}}, %{{.*}}, dim = 0 : tensor<4x3xf32>, tensor<2xi64>
  %2 = weft.index_select %x, %i, dim = 0 : tensor<4x3xf32>, tensor<2xi64>
  // CHECK: weft.index_add %{{.*}}, %{{.*}}, %{{.*}}, dim = 0 : tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>
  %3 = weft.index_add %x, %i, %2, dim = 0 : tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>
  // CHECK: weft.gather %{{.*}}, %{{.*}}, dim = 0 {user = "weft.take_along_dim"} : tensor<4x3xf32>, tensor<1x3xi64>
  %4 = weft.gather %x, %j, dim = 0 {user = "weft.take_along_dim"} : tensor<4x3xf32>, tensor<1x3xi64>
  // CHECK: weft.scatter_add %{{.*}}, %{{.*}}, %{{.*}}, dim = 0 : tensor<4x3xf32>, tensor<1x3xi64>, tensor<1x3xf32>
  %5 = weft.scatter_add %x, %j, %4, dim = 0 : tensor<4x3xf32>, tensor<1x3xi64>, tensor<1x3xf32>
  // CHECK: weft.scatter_reduce max %{{.*}}, %{{.*}}, %{{.*}}, dim = 0 : tensor<4x3xf32>, tensor<1x3xi64>, tensor<1x3xf32>
  %extreme = weft.scatter_reduce max %x, %j, %4, dim = 0 : tensor<4x3xf32>, tensor<1x3xi64>, tensor<1x3xf32>
  // CHECK: weft.random_uniform %{{.*}} {offset = 16 : i64} : tensor<8xf32>
  %6 = weft.random_uniform %s {offset = 16 : i64} : tensor<8xf32>
  // CHECK: weft.random_normal %{{.*}} : tensor<8xf64>
  %7 = weft.random_normal %s : tensor<8xf64>
  // CHECK: weft.random_advance %{{.*}}, 32 : tensor<2xi64>
  %8 = weft.random_advance %s, 32 : tensor<2xi64>
  // CHECK: weft.softmax %{{.*}}, dim = 1 : tensor<4x3xf32>
  %9 = weft.softmax %x, dim = 1 : tensor<4x3xf32>
  // CHECK: weft.layer_norm %{{.*}} weight %{{.*}} {{.*}} : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  %10:3 = weft.layer_norm %x weight %w {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: weft.batch_norm_inference %{{.*}} mean %{{.*}} variance %{{.*}} weight %{{.*}} {{.*}} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %15 = weft.batch_norm_inference %x mean %w variance %w weight %w {eps = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK: weft.attention %{{.*}}, %{{.*}}, %{{.*}} {causal = true, scale = 5.000000e-01 : f64}
  %11:2 = weft.attention %x, %x, %x {causal = true, scale = 0.5 : f64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>)
  // CHECK: weft.attention_gradient %{{.*}}, %{{.*}}, %{{.*}} result %{{.*}}, %{{.*}} gradient %{{.*}}, %{{.*}} {scale = 5.000000e-01 : f64}
  %14:3 = weft.attention_gradient %x, %x, %x result %11#0, %11#1 gradient %x, %11#1 {scale = 0.5 : f64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4xf32>, tensor<4x3xf32>, tensor<4xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>)
  // CHECK: weft.cross_entropy %{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<4xi64>
  %12:2 = weft.cross_entropy %x, %t : tensor<4x3xf32>, tensor<4xi64>
  // CHECK: weft.dropout %{{.*}}, %{{.*}} {rate = 1.000000e-01 : f64} : tensor<4x3xf32>
  %13:2 = weft.dropout %x, %s {rate = 0.1 : f64} : tensor<4x3xf32>
  return
}

// CHECK-LABEL: func.func @structure
func.func @structure(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK: weft.leaf : tensor<3xf32>
  %0 = weft.leaf : tensor<3xf32>
  // CHECK: %{{.*}}:2 = weft.fusion(%[[A:.*]] = %{{.*}} : tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) attributes {name = "pair"} {
  // CHECK-NEXT: weft.neg %[[A]]
  // CHECK: weft.yield %{{.*}}, %{{.*}} : tensor<2x2xf32>, tensor<2x2xf32>
  %1:2 = weft.fusion(%a = %x : tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) attributes {name = "pair"} {
    %n = weft.neg %a : tensor<2x2xf32>
    %e = weft.exp %a : tensor<2x2xf32>
    weft.yield %n, %e : tensor<2x2xf32>, tensor<2x2xf32>
  }
  // CHECK: weft.provider_call "onednn.matmul"(%{{.*}} = %{{.*}} : tensor<2x2xf32>, %{{.*}} = %{{.*}} : tensor<2x2xf32>) -> (tensor<2x2xf32>) config {relu = true} {
  %2 = weft.provider_call "onednn.matmul"(%a = %1#0 : tensor<2x2xf32>, %b = %1#1 : tensor<2x2xf32>) -> (tensor<2x2xf32>) config {relu = true} {
    %m = weft.matmul %a, %b : tensor<2x2xf32>, tensor<2x2xf32>
    weft.yield %m : tensor<2x2xf32>
  }
  // CHECK: weft.fusion() -> () {
  weft.fusion() -> () {
    weft.yield
  }
  return %2, %1#0 : tensor<2x2xf32>, tensor<2x2xf32>
}

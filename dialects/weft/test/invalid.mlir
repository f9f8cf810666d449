// Errors name the op, the arguments and both shapes, and say what to do.
// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.reshape: cannot reshape float32[2, 3] to float32[7]: the numbers of elements differ}}
  %0 = weft.reshape %x : tensor<2x3xf32> to tensor<7xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.reshape: cannot reshape float32[2, 3] to int32[6]: a reshape keeps the dtype; cast apart from it}}
  %0 = weft.reshape %x : tensor<2x3xf32> to tensor<6xi32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.broadcast: cannot broadcast float32[2, 3] to float32[4, 3]: aligned at the end, each size must be equal or 1}}
  %0 = weft.broadcast %x : tensor<2x3xf32> to tensor<4x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // expected-error@+1 {{weft.matmul: lhs, float32[2, 3], and rhs, float32[4, 5], do not fit: the columns of lhs, [3], must be as many as the rows of rhs, [4]}}
  %0 = weft.matmul %x, %y : tensor<2x3xf32>, tensor<4x5xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x5xf64>) {
  // expected-error@+1 {{weft.matmul: lhs is float32[2, 3] but rhs is float64[3, 5]; cast one, so that their dtypes are equal}}
  %0 = weft.matmul %x, %y : tensor<2x3xf32>, tensor<3x5xf64>
  return
}

// -----
func.func @f(%x: tensor<2x4x3xf32>, %y: tensor<5x3x4xf32>) {
  // expected-error@+1 {{do not fit: aligned at the end, each of their leading sizes must be equal or 1}}
  %0 = weft.matmul %x, %y : tensor<2x4x3xf32>, tensor<5x3x4xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.transpose: permutation [0, 0] of float32[2, 3] repeats dimension 0; name each dimension once}}
  %0 = weft.transpose %x, [0, 0] : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.reduce_sum: dim 2 is out of range for input, float32[2, 3]; use 0 to 1}}
  %0 = weft.reduce_sum %x, dims = [2] : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.reduce_max: dims [1, 0] of float32[2, 3] must be sorted, each once}}
  %0 = weft.reduce_max %x, dims = [1, 0] : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{weft.softmax: input is float32[], a scalar, which has no dimension 0}}
  %0 = weft.softmax %x, dim = 0 : tensor<f32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.slice: slice 0:4:1 of dimension 1 does not lie in input, float32[2, 3]; start and limit must lie in it, in the step's direction}}
  %0 = weft.slice %x [[0, 0] : [2, 4] : [1, 1]] : tensor<2x3xf32>
  return
}

// -----

func.func @slice_of_nothing(%x: tensor<0xf32>) {
  // expected-error@+1 {{weft.slice: slice 0:-1:-1 of dimension 0 does not lie in input, float32[0]}}
  %0 = weft.slice %x[[0] : [-1] : [-1]] : tensor<0xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{the step must not be 0}}
  %0 = weft.slice %x [[0, 0] : [2, 3] : [1, 0]] : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x4x1xf32>) {
  // expected-error@+1 {{weft.concat: input 0 is float32[2, 3] but input 1 is float32[2, 4, 1]; all inputs must have one rank, and one size in each dimension but 1}}
  %0 = weft.concat %x, %y dim = 1 : tensor<2x3xf32>, tensor<2x4x1xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %u: tensor<1x3xf32>) {
  // expected-error@+1 {{weft.insert_slice: update, float32[1, 3], placed from 1 in steps of 1 along dimension 1, does not lie in base, float32[2, 3]}}
  %0 = weft.insert_slice %u into %x [[0, 1] : [1, 1]] : tensor<1x3xf32> into tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %i: tensor<4xi64>, %s: tensor<4x2xf32>) {
  // expected-error@+1 {{weft.index_add: base is float32[2, 3] and indices is int64[4], so source must have the shape [4, 3], but is float32[4, 2]}}
  %0 = weft.index_add %x, %i, %s, dim = 0 : tensor<2x3xf32>, tensor<4xi64>, tensor<4x2xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{weft.gather: input is float32[2, 3] but indices is int64[4]; they must have one rank}}
  %0 = weft.gather %x, %i, dim = 0 : tensor<2x3xf32>, tensor<4xi64>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %t: tensor<3xi64>) {
  // expected-error@+1 {{weft.cross_entropy: logits is float32[2, 3] and targets is int64[3]; targets must have the shape of logits without its last dimension, the classes}}
  %0:2 = weft.cross_entropy %x, %t : tensor<2x3xf32>, tensor<3xi64>
  return
}

// -----
func.func @f(%q: tensor<4x8xf32>, %k: tensor<5x7xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{query and key must have equally many features, their last size}}
  %0:2 = weft.attention %q, %k, %k {scale = 1.0 : f64} : (tensor<4x8xf32>, tensor<5x7xf32>, tensor<5x7xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
  return
}

// -----
func.func @f(%q: tensor<4x8xf32>, %l: tensor<5xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{log_sum_exp is float32[5] but attention's log_sum_exp is float32[4]; they must have one type}}
  %0:3 = weft.attention_gradient %q, %q, %q result %q, %l gradient %q {scale = 1.0 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<5xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %s: tensor<2xi64>) {
  // expected-error@+1 {{weft.dropout: rate is 1.500000; it must lie in [0, 1]}}
  %0:2 = weft.dropout %x, %s {rate = 1.5 : f64} : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %s: tensor<2xi64>) {
  // expected-error@+1 {{requires attribute 'rate'}}
  %0:2 = weft.dropout %x, %s : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<?xf32, #weft.dims<n>>) {
  // expected-error@+1 {{weft.cast: cannot cast float32[n] to int32[m]: a cast keeps the shape; reshape or broadcast apart from it}}
  %0 = weft.cast %x : tensor<?xf32, #weft.dims<n>> to tensor<?xi32, #weft.dims<m>>
  return
}

// -----
func.func @f(%x: tensor<2x3xi32>) {
  // expected-error@+1 {{operand #0 must be a tensor of floating-point numbers}}
  %0 = weft.exp %x : tensor<2x3xi32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.fusion: the arguments of the body must have the number and types of the operands}}
  %0 = "weft.fusion"(%x) ({
  ^bb0(%a: tensor<3x2xf32>):
    weft.yield %a : tensor<3x2xf32>
  }) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.fusion: what the body yields must have the number and types of the results}}
  %0 = weft.fusion(%a = %x : tensor<2x3xf32>) -> (tensor<3xf32>) {
    weft.yield %a : tensor<2x3xf32>
  }
  return
}

// -----
// A dynamic dim needs a name.
func.func @f(%x: tensor<?x3xf32>) {
  // expected-error@+1 {{operand #0 must be a tensor of floating-point numbers (each `?` named by #weft.dims), but got 'tensor<?x3xf32>'}}
  %0 = weft.exp %x : tensor<?x3xf32>
  return
}

// -----
// expected-error@+1 {{#weft.dims gives dimension 0 no name, but its size is `?`; name it}}
func.func @f(%x: tensor<?x3xf32, #weft.dims<_, _>>)

// -----
// expected-error@+1 {{#weft.dims names dimension 1 'm', but its largest size is 1; write `_`}}
func.func @f(%x: tensor<?x1xf32, #weft.dims<n, m>>)

// -----
// expected-error@+1 {{#weft.dims names 1 dimensions, but the tensor has 2}}
func.func @f(%x: tensor<?x3xf32, #weft.dims<n>>)

// -----
// Different names are different sizes.
func.func @f(%x: tensor<?xf32, #weft.dims<n>>) {
  // expected-error@+1 {{weft.broadcast: cannot broadcast float32[n] to float32[m]}}
  %0 = weft.broadcast %x : tensor<?xf32, #weft.dims<n>> to tensor<?xf32, #weft.dims<m>>
  return
}

// -----
func.func @f(%x: tensor<?xf32, #weft.dims<n>>) {
  // expected-error@+1 {{weft.concat: the size of dimension 0 of the result would be the sum of those of input 0, float32[n], and input 1, float32[n], which has no name}}
  %0 = weft.concat %x, %x dim = 0 : tensor<?xf32, #weft.dims<n>>, tensor<?xf32, #weft.dims<n>>
  return
}

// -----
func.func @f(%x: tensor<?xf32, #weft.dims<n>>) {
  // expected-error@+1 {{dimension 0 of input, float32[n], is symbolic and can only be taken whole}}
  %0 = weft.slice %x [[0] : [4] : [1]] : tensor<?xf32, #weft.dims<n>>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.cumsum: dim 2 is out of range for input, float32[2, 3]; use 0 to 1}}
  %0 = weft.cumsum %x, dim = 2 : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3x5x5xf32>, %w: tensor<4x2x3x3xf32>) {
  // expected-error@+1 {{weft.conv2d: input is float32[2, 3, 5, 5] and weight is float32[4, 2, 3, 3]; with groups 1, dimension 1 of weight must be 3, the channels of input divided by groups}}
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x3x5x5xf32>, tensor<4x2x3x3xf32>
  return
}

// -----
func.func @f(%x: tensor<0x3xf32>) {
  // expected-error@+1 {{weft.arg_max: input is float32[0, 3]: dimension 0 has no elements to choose from}}
  %0 = weft.arg_max %x, dim = 0 : tensor<0x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.arg_sort: dim 2 is out of range for input, float32[2, 3]; use 0 to 1}}
  %0 = weft.arg_sort %x, dim = 2 : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{weft.arg_sort: count is 4, but dimension 1 of input, float32[2, 3], has from 0 to 3 elements to choose}}
  %0 = weft.arg_sort %x, dim = 1 {count = 4 : i64} : tensor<2x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3x5x5xf32>, %w: tensor<4x3x7x3xf32>) {
  // expected-error@+1 {{weft.conv2d: input is float32[2, 3, 5, 5] and weight is float32[4, 3, 7, 3]; the kernel of size 7, which covers 7 with dilation 1, does not fit into dimension 2 of size 5 with padding 0}}
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x3x5x5xf32>, tensor<4x3x7x3xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3xf32>, %i: tensor<4xi64>, %u: tensor<4x2xf32>) {
  // expected-error@+1 {{weft.index_put: base is float32[2, 3] and indices is int64[4], so source must have the shape [4, 3], but is float32[4, 2]}}
  %0 = weft.index_put %x, %i, %u, dim = 0 : tensor<2x3xf32>, tensor<4xi64>, tensor<4x2xf32>
  return
}

// -----
func.func @f(%g: tensor<2x4x4x3xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{so gradient must have the shape [2, 4, 3, 3] of their convolution, but is float32[2, 4, 4, 3]}}
  %0 = weft.conv2d_input_gradient %g, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x4x4x3xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x5x5xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3x5x5xf32>, %m: tensor<3xf32>, %v: tensor<5xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{input is float32[2, 3, 5, 5], so variance must have the shape [3] of its channels, but is float32[5]}}
  %0 = weft.batch_norm_inference %x mean %m variance %v {eps = 1.0e-5 : f64} : (tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<5xf32>) -> tensor<2x3x5x5xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3x5x5xf32>) {
  // expected-error@+1 {{weft.max_pool2d: padding 2 is more than half of the window's size, 3}}
  %0, %1 = weft.max_pool2d %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, padding = array<i64: 2, 1>, dilation = array<i64: 1, 1>} : tensor<2x3x5x5xf32>
  return
}

// -----
func.func @f(%x: tensor<2x3x5x5xf32>) {
  // expected-error@+1 {{weft.avg_pool2d: stride is 0; it must lie in [1, 2147483647]}}
  %0 = weft.avg_pool2d %x {kernel = array<i64: 3, 3>, strides = array<i64: 0, 1>, padding = array<i64: 0, 0>} : tensor<2x3x5x5xf32>
  return
}

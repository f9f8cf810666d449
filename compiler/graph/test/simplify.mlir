// RUN: weft-opt %s --weft-simplify --split-input-file | FileCheck %s

// CHECK-LABEL: @transposes_into_matmul
// CHECK: weft.matmul %arg0, %arg1 {transpose_rhs = true}
// CHECK-NOT: weft.transpose
module @transposes_into_matmul {
func.func @main(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>) -> tensor<2x8xf32> {
  %0 = weft.transpose %w, [1, 0] : tensor<8x4xf32>
  %1 = weft.matmul %x, %0 : tensor<2x4xf32>, tensor<4x8xf32>
  return %1 : tensor<2x8xf32>
}
}

// -----
// Converted as it lies.
// CHECK-LABEL: @converted_transpose_into_matmul
// CHECK: %[[W:.*]] = weft.cast %arg1 : tensor<8x4xi8> to tensor<8x4xf32>
// CHECK: weft.matmul %arg0, %[[W]] {transpose_rhs = true}
// CHECK-NOT: weft.transpose
module @converted_transpose_into_matmul {
func.func @main(%x: tensor<2x4xf32>, %w: tensor<8x4xi8>) -> tensor<2x8xf32> {
  %0 = weft.transpose %w, [1, 0] : tensor<8x4xi8>
  %1 = weft.cast %0 : tensor<4x8xi8> to tensor<4x8xf32>
  %2 = weft.matmul %x, %1 : tensor<2x4xf32>, tensor<4x8xf32>
  return %2 : tensor<2x8xf32>
}
}

// -----
// CHECK-LABEL: @transpose_of_matmul
// CHECK: weft.matmul %arg1, %arg0 {transpose_lhs = true, transpose_rhs = true}
module @transpose_of_matmul {
func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>) -> tensor<8x2xf32> {
  %0 = weft.matmul %x, %w : tensor<2x4xf32>, tensor<4x8xf32>
  %1 = weft.transpose %0, [1, 0] : tensor<2x8xf32>
  return %1 : tensor<8x2xf32>
}
}

// -----
// CHECK-LABEL: @batch_becomes_rows
// CHECK: %[[FLAT:.*]] = weft.reshape %arg0 : tensor<3x2x4xf32> to tensor<6x4xf32>
// CHECK: %[[PRODUCT:.*]] = weft.matmul %[[FLAT]], %arg1 : tensor<6x4xf32>, tensor<4x8xf32>
// CHECK: weft.reshape %[[PRODUCT]] : tensor<6x8xf32> to tensor<3x2x8xf32>
module @batch_becomes_rows {
func.func @main(%x: tensor<3x2x4xf32>, %w: tensor<4x8xf32>) -> tensor<3x2x8xf32> {
  %0 = weft.matmul %x, %w : tensor<3x2x4xf32>, tensor<4x8xf32>
  return %0 : tensor<3x2x8xf32>
}
}

// -----
// A quotient by a power of two is a product; by another number it stays.
// CHECK-LABEL: @quotients
// CHECK-DAG: %[[QUARTER:.*]] = weft.constant dense<2.500000e-01>
// CHECK-DAG: %[[THREE:.*]] = weft.constant dense<3.000000e+00>
// CHECK: %[[A:.*]] = weft.mul %arg0, %[[QUARTER]]
// CHECK: weft.div %[[A]], %[[THREE]]
module @quotients {
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %four = weft.constant dense<4.0> : tensor<8xf32>
  %three = weft.constant dense<3.0> : tensor<8xf32>
  %0 = weft.div %x, %four : tensor<8xf32>
  %1 = weft.div %0, %three : tensor<8xf32>
  return %1 : tensor<8xf32>
}
}

// -----
// Powers of small whole and half exponents are products, quotients and roots; in 16 bits a cube would round twice.
// CHECK-LABEL: @powers
// CHECK-NOT: weft.pow %arg0
// CHECK: weft.mul %arg0, %arg0
// CHECK: weft.sqrt
// CHECK: weft.pow %arg1
module @powers {
func.func @main(%x: tensor<8xf32>, %h: tensor<8xf16>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf16>) {
  %three = weft.constant dense<3.0> : tensor<8xf32>
  %half = weft.constant dense<-1.5> : tensor<8xf32>
  %narrow = weft.constant dense<3.0> : tensor<8xf16>
  %0 = weft.pow %x, %three : tensor<8xf32>
  %1 = weft.pow %x, %half : tensor<8xf32>
  %2 = weft.pow %h, %narrow : tensor<8xf16>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf16>
}
}

// -----
// x + 0 makes 0 of -0 and stays; x + -0, x - 0 and x * 1 are x.
// CHECK-LABEL: @neutral_elements
// CHECK: %[[ZERO:.*]] = weft.constant dense<0.000000e+00>
// CHECK: %[[SUM:.*]] = weft.add %arg0, %[[ZERO]]
// CHECK: return %[[SUM]], %arg0, %arg0, %arg0
module @neutral_elements {
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zero = weft.constant dense<0.0> : tensor<8xf32>
  %minus_zero = weft.constant dense<-0.0> : tensor<8xf32>
  %one = weft.constant dense<1.0> : tensor<8xf32>
  %0 = weft.add %x, %zero : tensor<8xf32>
  %1 = weft.add %x, %minus_zero : tensor<8xf32>
  %2 = weft.sub %x, %zero : tensor<8xf32>
  %3 = weft.mul %x, %one : tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
}

// -----
// Casts merge where the first one loses nothing.
// CHECK-LABEL: @casts
// CHECK: %[[ROUNDED:.*]] = weft.cast %arg0 : tensor<8xf32> to tensor<8xi32>
// CHECK: %[[BACK:.*]] = weft.cast %[[ROUNDED]] : tensor<8xi32> to tensor<8xf32>
// CHECK: %[[MASK:.*]] = weft.cast %arg1 : tensor<8xi1> to tensor<8xf64>
// CHECK: return %arg0, %[[BACK]], %[[MASK]]
module @casts {
func.func @main(%x: tensor<8xf32>, %m: tensor<8xi1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf64>) {
  %0 = weft.cast %x : tensor<8xf32> to tensor<8xf64>
  %1 = weft.cast %0 : tensor<8xf64> to tensor<8xf32>
  %2 = weft.cast %x : tensor<8xf32> to tensor<8xi32>
  %3 = weft.cast %2 : tensor<8xi32> to tensor<8xf32>
  %4 = weft.cast %m : tensor<8xi1> to tensor<8xf32>
  %5 = weft.cast %4 : tensor<8xf32> to tensor<8xf64>
  return %1, %3, %5 : tensor<8xf32>, tensor<8xf32>, tensor<8xf64>
}
}

// -----
// Through a float an integer saturates, where one cast would wrap: one cast only where it fits.
// CHECK-LABEL: module @saturating_casts
// CHECK: %[[F:.*]] = weft.cast %arg0 : tensor<8xui8> to tensor<8xf32>
// CHECK: %[[NARROW:.*]] = weft.cast %[[F]] : tensor<8xf32> to tensor<8xi8>
// CHECK: %[[WIDE:.*]] = weft.cast %arg0 : tensor<8xui8> to tensor<8xi16>
// CHECK: %[[BOOL:.*]] = weft.cast %arg0 : tensor<8xui8> to tensor<8xi1>
// CHECK: return %[[NARROW]], %[[WIDE]], %[[BOOL]]
module @saturating_casts {
func.func @main(%x: tensor<8xui8>) -> (tensor<8xi8>, tensor<8xi16>, tensor<8xi1>) {
  %0 = weft.cast %x : tensor<8xui8> to tensor<8xf32>
  %1 = weft.cast %0 : tensor<8xf32> to tensor<8xi8>
  %2 = weft.cast %0 : tensor<8xf32> to tensor<8xi16>
  %3 = weft.cast %0 : tensor<8xf32> to tensor<8xi1>
  return %1, %2, %3 : tensor<8xi8>, tensor<8xi16>, tensor<8xi1>
}
}

// -----
// Scalars stay scalars: one broadcast at the end.
// CHECK-LABEL: @broadcasts_sink
// CHECK: %[[LR:.*]] = weft.mul %arg0, %arg1 : tensor<f32>
// CHECK: %[[NEG:.*]] = weft.neg %[[LR]] : tensor<f32>
// CHECK: weft.broadcast %[[NEG]] : tensor<f32> to tensor<8x8xf32>
// CHECK-NOT: weft.broadcast
module @broadcasts_sink {
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<8x8xf32> {
  %0 = weft.broadcast %a : tensor<f32> to tensor<8x8xf32>
  %1 = weft.broadcast %b : tensor<f32> to tensor<8x8xf32>
  %2 = weft.mul %0, %1 : tensor<8x8xf32>
  %3 = weft.neg %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
}

// -----
// A reduction over dims along which its input repeats: exact for integers and maxima. A sum of floats rounds after each term.
// CHECK-LABEL: @reductions_of_broadcasts
// CHECK-DAG: %[[SUM:.*]] = weft.reduce_sum %arg1, dims = [0] : tensor<8xi32>
// CHECK-DAG: %[[FOUR:.*]] = weft.constant dense<4> : tensor<i32>
// CHECK-DAG: weft.mul %[[SUM]], %[[FOUR]] : tensor<i32>
// CHECK-DAG: weft.reduce_max %arg0, dims = [0] : tensor<8xf32>
// CHECK-DAG: weft.reduce_sum %{{.*}}, dims = [0, 1] : tensor<4x8xf32>
module @reductions_of_broadcasts {
func.func @main(%x: tensor<8xf32>, %i: tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<i32>) {
  %0 = weft.broadcast %x : tensor<8xf32> to tensor<4x8xf32>
  %1 = weft.reduce_sum %0, dims = [0, 1] : tensor<4x8xf32>
  %2 = weft.reduce_max %0, dims = [0, 1] : tensor<4x8xf32>
  %3 = weft.broadcast %i : tensor<8xi32> to tensor<4x8xi32>
  %4 = weft.reduce_sum %3, dims = [0, 1] : tensor<4x8xi32>
  return %1, %2, %4 : tensor<f32>, tensor<f32>, tensor<i32>
}
}

// -----
// Over dims of size 1 a sum adds 0, which makes -0 a 0; a maximum is the element.
// CHECK-LABEL: @reductions_of_one
// CHECK: %[[X:.*]] = weft.reshape %arg0
// CHECK: %[[ZERO:.*]] = weft.constant dense<0.000000e+00> : tensor<8xf32>
// CHECK: %[[SUM:.*]] = weft.add %[[X]], %[[ZERO]]
// CHECK: %[[MAX:.*]] = weft.reshape %arg0
// CHECK: return %[[SUM]], %[[MAX]]
module @reductions_of_one {
func.func @main(%x: tensor<8x1xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = weft.reduce_sum %x, dims = [1] : tensor<8x1xf32>
  %1 = weft.reduce_max %x, dims = [1] : tensor<8x1xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
}

// -----
// Movement of movement.
// CHECK-LABEL: @movement
// CHECK: %[[R:.*]] = weft.reshape %arg0 : tensor<2x6xf32> to tensor<3x4xf32>
// CHECK: %[[S:.*]] = weft.slice %arg0{{ ?}}{{\[\[}}1, 1] : [2, 6] : [1, 4{{\]\]}}
// CHECK: return %arg0, %[[R]], %[[S]], %arg1
module @movement {
func.func @main(%x: tensor<2x6xf32>, %y: tensor<2x3xf32>) -> (tensor<2x6xf32>, tensor<3x4xf32>, tensor<1x2xf32>, tensor<2x3xf32>) {
  %0 = weft.transpose %x, [1, 0] : tensor<2x6xf32>
  %1 = weft.transpose %0, [1, 0] : tensor<6x2xf32>
  %2 = weft.reshape %x : tensor<2x6xf32> to tensor<12xf32>
  %3 = weft.reshape %2 : tensor<12xf32> to tensor<3x4xf32>
  %4 = weft.slice %x [[1, 1] : [2, 6] : [1, 2]] : tensor<2x6xf32>
  %5 = weft.slice %4 [[0, 0] : [1, 3] : [1, 2]] : tensor<1x3xf32>
  %6 = weft.concat %x, %y dim = 1 : tensor<2x6xf32>, tensor<2x3xf32>
  %7 = weft.slice %6 [[0, 6] : [2, 9] : [1, 1]] : tensor<2x9xf32>
  return %1, %3, %5, %7 : tensor<2x6xf32>, tensor<3x4xf32>, tensor<1x2xf32>, tensor<2x3xf32>
}
}

// -----
// A part of a transpose is the transpose of a part; a write of everything, backwards, is a slice,
// and slices of slices are one.
// CHECK-LABEL: @turned
// CHECK-DAG: %[[S:.*]] = weft.slice %arg0{{ ?}}{{\[\[}}1, 2] : [-1, 5] : [-1, 1{{\]\]}}
// CHECK-DAG: %[[T:.*]] = weft.transpose %[[S]], [1, 0] : tensor<2x3xf32>
// CHECK-DAG: %[[F:.*]] = weft.slice %arg0{{ ?}}{{\[\[}}1, 0] : [-1, 6] : [-1, 1{{\]\]}}
// CHECK: return %[[T]], %[[F]], %arg0
module @turned {
func.func @main(%x: tensor<2x6xf32>) -> (tensor<3x2xf32>, tensor<2x6xf32>, tensor<2x6xf32>) {
  %0 = weft.transpose %x, [1, 0] : tensor<2x6xf32>
  %1 = weft.slice %0 [[2, 1] : [5, -1] : [1, -1]] : tensor<6x2xf32>
  %zero = weft.constant dense<0.0> : tensor<2x6xf32>
  %2 = weft.insert_slice %x into %zero[[1, 0] : [-1, 1]] : tensor<2x6xf32> into tensor<2x6xf32>
  %3 = weft.slice %2 [[1, 0] : [-1, 6] : [-1, 1]] : tensor<2x6xf32>
  return %1, %2, %3 : tensor<3x2xf32>, tensor<2x6xf32>, tensor<2x6xf32>
}
}

// -----
// The state's chain becomes offsets.
// CHECK-LABEL: @random_advances
// CHECK: weft.random_uniform %arg0 {offset = 48 : i64}
// CHECK: weft.random_advance %arg0, 64
module @random_advances {
func.func @main(%s: tensor<2xi64>) -> (tensor<8xf32>, tensor<2xi64>) {
  %0 = weft.random_advance %s, 16 : tensor<2xi64>
  %1 = weft.random_advance %0, 32 : tensor<2xi64>
  %2 = weft.random_uniform %1 : tensor<8xf32>
  %3 = weft.random_advance %1, 16 : tensor<2xi64>
  return %2, %3 : tensor<8xf32>, tensor<2xi64>
}
}

// -----
// A product with a vector is a sum of products of elements, over the matrix as it lies.
// CHECK-LABEL: @matrix_by_vector
// CHECK: %[[ROW:.*]] = weft.reshape %arg1 : tensor<7x1xf32> to tensor<1x7xf32>
// CHECK: %[[SPREAD:.*]] = weft.broadcast %[[ROW]] : tensor<1x7xf32> to tensor<5x7xf32>
// CHECK: %[[TERMS:.*]] = weft.mul %arg0, %[[SPREAD]] : tensor<5x7xf32>
// CHECK: weft.reduce_sum %[[TERMS]], dims = [1] : tensor<5x7xf32>
module @matrix_by_vector {
func.func @main(%m: tensor<5x7xf32>, %x: tensor<7x1xf32>) -> tensor<5x1xf32> {
  %0 = weft.matmul %m, %x : tensor<5x7xf32>, tensor<7x1xf32>
  return %0 : tensor<5x1xf32>
}
}

// -----
// CHECK-LABEL: @vector_by_matrix
// CHECK: %[[COLUMN:.*]] = weft.reshape %arg0 : tensor<1x7xf32> to tensor<7x1xf32>
// CHECK: %[[SPREAD:.*]] = weft.broadcast %[[COLUMN]] : tensor<7x1xf32> to tensor<7x5xf32>
// CHECK: %[[TERMS:.*]] = weft.mul %arg1, %[[SPREAD]] : tensor<7x5xf32>
// CHECK: weft.reduce_sum %[[TERMS]], dims = [0] : tensor<7x5xf32>
// CHECK: %[[TERMS:.*]] = weft.mul %arg2, %{{.*}} : tensor<4x7xf32>
// CHECK: weft.reduce_sum %[[TERMS]], dims = [1] : tensor<4x7xf32>
module @vector_by_matrix {
func.func @main(%x: tensor<1x7xf32>, %m: tensor<7x5xf32>, %w: tensor<4x7xf32>) -> (tensor<1x5xf32>, tensor<1x4xf32>) {
  %0 = weft.matmul %x, %m : tensor<1x7xf32>, tensor<7x5xf32>
  %1 = weft.matmul %x, %w {transpose_rhs = true} : tensor<1x7xf32>, tensor<4x7xf32>
  return %0, %1 : tensor<1x5xf32>, tensor<1x4xf32>
}
}

// -----
// Each sample has its matrix, or all have one vector. Of two vectors, the result is a number a sample.
// CHECK-LABEL: @batches_of_vectors
// CHECK: %[[TERMS:.*]] = weft.mul %arg1, %{{.*}} : tensor<2x3x7xf32>
// CHECK: weft.reduce_sum %[[TERMS]], dims = [2] : tensor<2x3x7xf32>
// CHECK: %[[DOTS:.*]] = weft.mul %{{.*}}, %{{.*}} : tensor<2x1x7xf32>
// CHECK: weft.reduce_sum %[[DOTS]], dims = [2] : tensor<2x1x7xf32>
module @batches_of_vectors {
func.func @main(%x: tensor<1x7xf32>, %m: tensor<2x3x7xf32>, %y: tensor<2x7x1xf32>) -> (tensor<2x1x3xf32>, tensor<2x1x1xf32>) {
  %0 = weft.matmul %x, %m {transpose_rhs = true} : tensor<1x7xf32>, tensor<2x3x7xf32>
  %1 = weft.matmul %y, %y {transpose_lhs = true} : tensor<2x7x1xf32>, tensor<2x7x1xf32>
  return %0, %1 : tensor<2x1x3xf32>, tensor<2x1x1xf32>
}
}

// -----
// CHECK-LABEL: @outer_product
// CHECK: %[[PRODUCT:.*]] = weft.mul %{{.*}}, %{{.*}} : tensor<3x5xf32>
// CHECK: weft.add %[[PRODUCT]], %{{.*}} : tensor<3x5xf32>
module @outer_product {
func.func @main(%x: tensor<3x1xf32>, %y: tensor<1x5xf32>) -> tensor<3x5xf32> {
  %0 = weft.matmul %x, %y : tensor<3x1xf32>, tensor<1x5xf32>
  return %0 : tensor<3x5xf32>
}
}

// -----
// One matrix for many vectors, and terms that would round to 16 bits, stay.
// CHECK-LABEL: @stay_products
// CHECK: weft.matmul
// CHECK: weft.matmul
module @stay_products {
func.func @main(%m: tensor<3x7xf32>, %x: tensor<2x7x1xf32>, %a: tensor<3x7xbf16>, %b: tensor<7x1xbf16>) -> (tensor<2x3x1xf32>, tensor<3x1xbf16>) {
  %0 = weft.matmul %m, %x : tensor<3x7xf32>, tensor<2x7x1xf32>
  %1 = weft.matmul %a, %b : tensor<3x7xbf16>, tensor<7x1xbf16>
  return %0, %1 : tensor<2x3x1xf32>, tensor<3x1xbf16>
}
}

// -----
// A row that is taken out, changed at one place and put back: only the place is written.
// CHECK-LABEL: @writes_the_place
// CHECK: %[[ONE:.*]] = weft.reshape %arg1 : tensor<1xf32> to tensor<1x1xf32>
// CHECK: %[[NEW:.*]] = weft.insert_slice %[[ONE]] into %arg0{{\[\[}}2, 3] : [1, 1]] : tensor<1x1xf32> into tensor<4x8xf32>
// CHECK: return %[[NEW]]
module @writes_the_place {
func.func @main(%m: tensor<4x8xf32>, %x: tensor<1xf32>) -> tensor<4x8xf32> {
  %0 = weft.slice %m[[2, 0] : [3, 8] : [1, 1]] : tensor<4x8xf32>
  %1 = weft.reshape %0 : tensor<1x8xf32> to tensor<8xf32>
  %2 = weft.insert_slice %x into %1[[3] : [1]] : tensor<1xf32> into tensor<8xf32>
  %3 = weft.reshape %2 : tensor<8xf32> to tensor<1x8xf32>
  %4 = weft.insert_slice %3 into %m[[2, 0] : [1, 1]] : tensor<1x8xf32> into tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
}

// -----
// The same in a constant, whose rows are constants.
// CHECK-LABEL: @writes_the_place_of_a_constant
// CHECK: weft.insert_slice %{{.*}} into %{{.*}}{{\[\[}}2, 3] : [1, 1]] : tensor<1x1xf32> into tensor<4x8xf32>
// CHECK-NOT: weft.insert_slice
module @writes_the_place_of_a_constant {
func.func @main(%x: tensor<1xf32>) -> tensor<4x8xf32> {
  %m = weft.constant dense<0.0> : tensor<4x8xf32>
  %1 = weft.constant dense<0.0> : tensor<8xf32>
  %2 = weft.insert_slice %x into %1[[3] : [1]] : tensor<1xf32> into tensor<8xf32>
  %3 = weft.reshape %2 : tensor<8xf32> to tensor<1x8xf32>
  %4 = weft.insert_slice %3 into %m[[2, 0] : [1, 1]] : tensor<1x8xf32> into tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
}

// -----
// Not where the row comes from another place, or the constants differ.
// CHECK-LABEL: @moves_a_row
// CHECK-COUNT-4: weft.insert_slice
module @moves_a_row {
func.func @main(%m: tensor<4x8xf32>, %x: tensor<1xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = weft.slice %m[[1, 0] : [2, 8] : [1, 1]] : tensor<4x8xf32>
  %1 = weft.reshape %0 : tensor<1x8xf32> to tensor<8xf32>
  %2 = weft.insert_slice %x into %1[[3] : [1]] : tensor<1xf32> into tensor<8xf32>
  %3 = weft.reshape %2 : tensor<8xf32> to tensor<1x8xf32>
  %4 = weft.insert_slice %3 into %m[[2, 0] : [1, 1]] : tensor<1x8xf32> into tensor<4x8xf32>
  %zero = weft.constant dense<0.0> : tensor<4x8xf32>
  %one = weft.constant dense<1.0> : tensor<1x8xf32>
  %one_of_each = weft.reshape %x : tensor<1xf32> to tensor<1x1xf32>
  %5 = weft.insert_slice %one_of_each into %one[[0, 3] : [1, 1]] : tensor<1x1xf32> into tensor<1x8xf32>
  %6 = weft.insert_slice %5 into %zero[[2, 0] : [1, 1]] : tensor<1x8xf32> into tensor<4x8xf32>
  return %4, %6 : tensor<4x8xf32>, tensor<4x8xf32>
}
}

// -----
// Slices of repeats are repeats of slices, and of one element they are equal.
// CHECK-LABEL: @slices_of_repeats
// CHECK-DAG: %[[ONE:.*]] = weft.reshape %arg0 : tensor<f32> to tensor<1xf32>
// CHECK-DAG: %[[PART:.*]] = weft.slice %arg1{{\[\[}}0, 2] : [1, 4] : [1, 1]] : tensor<1x8xf32>
// CHECK-DAG: %[[ROWS:.*]] = weft.broadcast %[[PART]] : tensor<1x2xf32> to tensor<3x2xf32>
// CHECK-NOT: weft.slice
// CHECK: return {{.*}}, {{.*}}, %[[ROWS]]
module @slices_of_repeats {
func.func @main(%x: tensor<f32>, %y: tensor<1x8xf32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<3x2xf32>) {
  %0 = weft.broadcast %x : tensor<f32> to tensor<50xf32>
  %1 = weft.slice %0[[3] : [4] : [1]] : tensor<50xf32>
  %2 = weft.slice %0[[4] : [5] : [1]] : tensor<50xf32>
  %3 = weft.broadcast %y : tensor<1x8xf32> to tensor<5x8xf32>
  %4 = weft.slice %3[[1, 2] : [4, 4] : [1, 1]] : tensor<5x8xf32>
  return %1, %2, %4 : tensor<1xf32>, tensor<1xf32>, tensor<3x2xf32>
}
}

// -----
// A sum of one element of what is in memory reads that element; of what is computed it stays a sum.
// CHECK-LABEL: @sum_of_one
// CHECK: weft.select {{.*}} : tensor<8x1xi64>
// CHECK: weft.gather %arg0, {{.*}}, dim = 1 : tensor<8x1000xf32>, tensor<8x1xi64>
// CHECK: weft.add
// CHECK: weft.reduce_sum
// CHECK-NOT: weft.gather
module @sum_of_one {
func.func @main(%x: tensor<8x1000xf32>, %t: tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>) {
  %zero = weft.constant dense<0.0> : tensor<8x1000xf32>
  %places = weft.iota {dim = 1 : i64} : tensor<8x1000xi64>
  %t1 = weft.reshape %t : tensor<8xi64> to tensor<8x1xi64>
  %targets = weft.broadcast %t1 : tensor<8x1xi64> to tensor<8x1000xi64>
  %is = weft.compare eq %places, %targets : tensor<8x1000xi64>
  %0 = weft.select %is, %x, %zero : tensor<8x1000xf32>
  %1 = weft.reduce_sum %0, dims = [1] : tensor<8x1000xf32>
  %y = weft.exp %x : tensor<8x1000xf32>
  %2 = weft.select %is, %y, %zero : tensor<8x1000xf32>
  %3 = weft.reduce_sum %2, dims = [1] : tensor<8x1000xf32>
  return %1, %3 : tensor<8xf32>, tensor<8xf32>
}
}

// -----
// Bounded values that have a derivative of their own.
// CHECK-LABEL: module @clamp
// CHECK-NOT: weft.select
// CHECK: %[[LOW:.*]] = weft.maximum %arg0, %arg1
// CHECK: %[[BOTH:.*]] = weft.minimum %[[LOW]], %arg2
// CHECK: return %[[BOTH]]
module @clamp {
func.func @main(%x: tensor<8xf32>, %low: tensor<8xf32>, %high: tensor<8xf32>) -> tensor<8xf32> {
  %0 = weft.maximum %x, %low : tensor<8xf32>
  %1 = weft.minimum %0, %high : tensor<8xf32>
  %2 = weft.compare gt %x, %low : tensor<8xf32>
  %3 = weft.compare lt %x, %high : tensor<8xf32>
  %4 = weft.and %2, %3 : tensor<8xi1>
  %5 = weft.select %4, %x, %1 : tensor<8xf32>
  return %5 : tensor<8xf32>
}
}

// -----
// One bound.
// CHECK-LABEL: module @clamp_above
// CHECK-NOT: weft.select
// CHECK: %[[HIGH:.*]] = weft.minimum %arg0, %arg1
// CHECK: return %[[HIGH]]
module @clamp_above {
func.func @main(%x: tensor<8xf32>, %high: tensor<8xf32>) -> tensor<8xf32> {
  %0 = weft.minimum %x, %high : tensor<8xf32>
  %1 = weft.compare lt %x, %high : tensor<8xf32>
  %2 = weft.select %1, %x, %0 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
}

// -----
// Of another bound, or where the comparison takes the bound in, the choice stays.
// CHECK-LABEL: module @no_clamp
// CHECK-COUNT-2: weft.select
module @no_clamp {
func.func @main(%x: tensor<8xf32>, %low: tensor<8xf32>, %other: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = weft.maximum %x, %low : tensor<8xf32>
  %1 = weft.compare gt %x, %other : tensor<8xf32>
  %2 = weft.select %1, %x, %0 : tensor<8xf32>
  %3 = weft.compare ge %x, %low : tensor<8xf32>
  %4 = weft.select %3, %x, %0 : tensor<8xf32>
  return %2, %4 : tensor<8xf32>, tensor<8xf32>
}
}

// -----
// Rows that repeat are folded once.
// CHECK-LABEL: module @repeated_rows
// CHECK: %[[SQUARE:.*]] = weft.mul %arg0, %arg0 : tensor<10x1x8xf32>
// CHECK: %[[SUM:.*]] = weft.reduce_sum %[[SQUARE]], dims = [2] : tensor<10x1x8xf32>
// CHECK: weft.broadcast %[[SUM]] : tensor<10x1xf32> to tensor<3x10x20xf32>
module @repeated_rows {
func.func @main(%x: tensor<10x1x8xf32>) -> tensor<3x10x20xf32> {
  %0 = weft.broadcast %x : tensor<10x1x8xf32> to tensor<3x10x20x8xf32>
  %1 = weft.mul %0, %0 : tensor<3x10x20x8xf32>
  %2 = weft.reduce_sum %1, dims = [3] : tensor<3x10x20x8xf32>
  return %2 : tensor<3x10x20xf32>
}
}

// -----
// The sum over rows has another order than that of a run, and so may a single row's have.
// CHECK-LABEL: module @repeated_columns
// CHECK: weft.reduce_sum {{.*}} : tensor<8x20xf32>
// CHECK: weft.reduce_sum {{.*}} : tensor<20x8xf32>
module @repeated_columns {
func.func @main(%x: tensor<8x1xf32>, %y: tensor<8xf32>) -> (tensor<20xf32>, tensor<20xf32>) {
  %0 = weft.broadcast %x : tensor<8x1xf32> to tensor<8x20xf32>
  %1 = weft.reduce_sum %0, dims = [0] : tensor<8x20xf32>
  %2 = weft.broadcast %y : tensor<8xf32> to tensor<20x8xf32>
  %3 = weft.reduce_sum %2, dims = [1] : tensor<20x8xf32>
  return %1, %3 : tensor<20xf32>, tensor<20xf32>
}
}

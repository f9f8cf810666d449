// RUN: weft-opt --weft-print-statements --verify-diagnostics %s

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>, %b: tensor<3x4x8xf32>, %i: tensor<5xi64>,
                %state: tensor<2xi64>, %image: tensor<1x4x6x6xf32>, %kernel: tensor<6x2x3x3xf32>) {
  // expected-remark @below {{(a b) -> (a b)}}
  %0 = weft.exp %x : tensor<4x8xf32>
  // expected-remark @below {{(m k, k n) -> (m n), k reduced by sum}}
  %1 = weft.matmul %x, %w : tensor<4x8xf32>, tensor<8x2xf32>
  // A batch of one side alone.
  // expected-remark @below {{(a m k, k n) -> (a m n), k reduced by sum}}
  %2 = weft.matmul %b, %w : tensor<3x4x8xf32>, tensor<8x2xf32>
  // expected-remark @below {{(b a) -> (a b)}}
  %3 = weft.transpose %x, [1, 0] : tensor<4x8xf32>
  // expected-remark @below {{(b c) -> (a b c)}}
  %4 = weft.broadcast %x : tensor<4x8xf32> to tensor<3x4x8xf32>
  // expected-remark @below {{(2*a+1 -b+7) -> (a b)}}
  %5 = weft.slice %x[[1, 7] : [4, 3] : [2, -1]] : tensor<4x8xf32>
  // expected-remark @below {{(a b, a-4 b) -> (a b)}}
  %6 = weft.concat %x, %x dim = 0 : tensor<4x8xf32>, tensor<4x8xf32>
  // expected-remark @below {{(a b, (a-1)/2 b-3) -> (a b)}}
  %7 = weft.insert_slice %5 into %x[[1, 3] : [2, 1]] : tensor<2x4xf32> into tensor<4x8xf32>
  // Borders that nest are digits; those that do not are taken apart.
  // expected-remark @below {{(2*a+b c) -> (a 8*b+c)}}
  %8 = weft.reshape %x : tensor<4x8xf32> to tensor<2x16xf32>
  // expected-remark @below {{((a)//32 (a)//8%4 (a)%8) -> ((a)//3 (a)%3)}}
  %9 = weft.reshape %b : tensor<3x4x8xf32> to tensor<32x3xf32>
  // expected-remark @below {{(a b) -> (a), b reduced by max}}
  %10 = weft.reduce_max %x, dims = [1] : tensor<4x8xf32>
  // expected-remark @below {{(a b) -> (a b), b carried}}
  %11 = weft.softmax %x, dim = 1 : tensor<4x8xf32>
  // expected-remark @below {{(n b, a) -> (a b), n chosen by data}}
  %12 = weft.index_select %x, %i, dim = 0 : tensor<4x8xf32>, tensor<5xi64>
  // expected-remark @below {{(n b, c, c b) -> (n b), c reduced, n chosen by data}}
  %13 = weft.index_add %x, %i, %12, dim = 0 : tensor<4x8xf32>, tensor<5xi64>, tensor<5x8xf32>
  // expected-remark @below {{(s) -> (a b), s reduced, a b carried}}
  %14 = weft.random_uniform %state : tensor<4x8xf32>
  // expected-remark @below {{(n 2*g+c 2*y+v-1 2*x+w-1, 3*g+o c v w) -> (n 3*g+o y x), c v w reduced by sum}}
  %15 = weft.conv2d %image, %kernel {strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 2} : tensor<1x4x6x6xf32>, tensor<6x2x3x3xf32>
  // expected-remark @below {{no statement: other ranks have what it reads}}
  %16 = weft.all_reduce sum %x over "world" of 2 : tensor<4x8xf32>
  return
}

// A size that varies is a digit like others where it is the outermost.
func.func @sizes(%x: tensor<?x4xf32, #weft.dims<n, _>>) {
  // expected-remark @below {{(a b) -> (4*a+b)}}
  %0 = weft.reshape %x : tensor<?x4xf32, #weft.dims<n, _>> to tensor<?xf32, #weft.dims<n.4>>
  return
}

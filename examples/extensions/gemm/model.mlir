func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = weft.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32>
  %1 = weft.neg %0 : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

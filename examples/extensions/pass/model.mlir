func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = weft.mul %x, %x : tensor<2xf32>
  %1 = weft.sqrt %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}

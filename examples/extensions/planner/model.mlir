func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = weft.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32>
  %1 = weft.matmul %0, %x : tensor<64x64xf32>, tensor<64x64xf32>
  %2 = weft.matmul %1, %0 : tensor<64x64xf32>, tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

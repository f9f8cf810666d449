func.func @main(%x: tensor<4x5xf32>) -> tensor<4xf32> {
  %0 = mine.mirror %x : tensor<4x5xf32>
  %1 = mine.row_norm %0 {eps = 0.0 : f64} : tensor<4x5xf32>
  return %1 : tensor<4xf32>
}

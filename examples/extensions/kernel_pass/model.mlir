func.func @main(%x: tensor<20xf32>) -> tensor<20xf32> {
  %0 = weft.tanh %x : tensor<20xf32>
  return %0 : tensor<20xf32>
}

// RUN: weft-opt %s --weft-to-plan | FileCheck %s
// Memory is planned for the largest size; types keep the names, from which the sizes of a run follow.

// CHECK: plan.program @main(%{{.*}}: !plan.buffer<1024> {plan.type = tensor<64x4xf32, #weft.dims<n, _>>})
// CHECK-SAME: -> (!plan.buffer<1024> {plan.type = tensor<256xf32, #weft.dims<n.4>>})
// CHECK: plan.output : !plan.buffer<1024>
func.func @main(%x: tensor<64x4xf32, #weft.dims<n, _>>) -> tensor<256xf32, #weft.dims<n.4>> {
  %0 = weft.fusion(%a = %x : tensor<64x4xf32, #weft.dims<n, _>>) -> (tensor<64x4xf32, #weft.dims<n, _>>) {
    %t = weft.tanh %a : tensor<64x4xf32, #weft.dims<n, _>>
    weft.yield %t : tensor<64x4xf32, #weft.dims<n, _>>
  }
  %1 = weft.reshape %0 : tensor<64x4xf32, #weft.dims<n, _>> to tensor<256xf32, #weft.dims<n.4>>
  return %1 : tensor<256xf32, #weft.dims<n.4>>
}

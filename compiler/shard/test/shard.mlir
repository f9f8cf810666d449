// RUN: weft-opt --weft-shard="mesh=data=2,model=2 at=1,1" --split-input-file %s | FileCheck %s
// RUN: not weft-opt --weft-shard="mesh=data=3" --split-input-file %s 2>&1 | FileCheck %s --check-prefix=UNEVEN
// RUN: not weft-opt --weft-shard="mesh=model=2 at=2" --split-input-file %s 2>&1 | FileCheck %s --check-prefix=PLACE
// UNEVEN: dim 0 of 'tensor<8x4xf32>' has no 3 equal parts
// UNEVEN: the mesh has no axis "model"
// PLACE: there is no place 2 on the axis 'model' of 2 ranks

// Two layers, the first cut by its columns, the second by its rows: one exchange.
// CHECK-LABEL: func.func @main(%arg0: tensor<4x4xf32>, %arg1: tensor<4x3xf32>, %arg2: tensor<3x6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: %[[H:.*]] = weft.matmul %arg0, %arg1 : tensor<4x4xf32>, tensor<4x3xf32>
// CHECK-NEXT: %[[R:.*]] = weft.tanh %[[H]] : tensor<4x3xf32>
// CHECK-NEXT: %[[P:.*]] = weft.matmul %[[R]], %arg2 : tensor<4x3xf32>, tensor<3x6xf32>
// CHECK-NEXT: %[[Y:.*]] = weft.all_reduce sum %[[P]] over "model" of 2 : tensor<4x6xf32>
// CHECK-NEXT: return %[[Y]]
func.func @main(%x: tensor<8x4xf32> {weft.axes = ["data", ""]}, %a: tensor<4x6xf32> {weft.axes = ["", "model"]},
                %b: tensor<6x6xf32> {weft.axes = ["model", ""]}) -> (tensor<8x6xf32> {weft.axes = ["data", ""]}) {
  %0 = weft.matmul %x, %a : tensor<8x4xf32>, tensor<4x6xf32>
  %1 = weft.tanh %0 : tensor<8x6xf32>
  %2 = weft.matmul %1, %b : tensor<8x6xf32>, tensor<6x6xf32>
  return %2 : tensor<8x6xf32>
}

// -----

// The gradient of a weight is a sum over the batch; a whole operand is cut where it is read.
// CHECK-LABEL: func.func @main(%arg0: tensor<4x4xf32>, %arg1: tensor<8x2xf32>)
// CHECK-NEXT: %[[G:.*]] = weft.slice %arg1{{\[\[}}4, 0] : [8, 2] : [1, 1]] : tensor<8x2xf32>
// CHECK-NEXT: %[[P:.*]] = weft.matmul %arg0, %[[G]] {transpose_lhs = true}
// CHECK-NEXT: weft.all_reduce sum %[[P]] over "data" of 2 : tensor<4x2xf32>
func.func @main(%x: tensor<8x4xf32> {weft.axes = ["data", ""]}, %g: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = weft.matmul %x, %g {transpose_lhs = true} : tensor<8x4xf32>, tensor<8x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

// A softmax over a dim that is cut is taken apart, so that rows are exchanged, and not elements.
// CHECK-LABEL: func.func @main(%arg0: tensor<4x3xf32>)
// CHECK: weft.reduce_max %arg0, dims = [1]
// CHECK: weft.all_reduce max {{.*}} over "model" of 2 : tensor<4xf32>
// CHECK: weft.exp {{.*}} : tensor<4x3xf32>
// CHECK: weft.reduce_sum
// CHECK: weft.all_reduce sum {{.*}} over "model" of 2 : tensor<4xf32>
// CHECK-NOT: weft.all_gather
func.func @main(%x: tensor<4x6xf32> {weft.axes = ["", "model"]}) -> (tensor<4x6xf32> {weft.axes = ["", "model"]}) {
  %0 = weft.softmax %x, dim = 1 : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// Each rank looks up the rows that it has.
// CHECK-LABEL: func.func @main(%arg0: tensor<5x2xf32>, %arg1: tensor<3xi64>)
// CHECK: weft.check_index %arg1 in 10 for "weft.index_select"
// CHECK: weft.index_select %arg0, {{.*}}, dim = 0 : tensor<5x2xf32>, tensor<3xi64>
// CHECK: weft.select
// CHECK: weft.all_reduce sum {{.*}} over "model" of 2 : tensor<3x2xf32>
func.func @main(%x: tensor<10x2xf32> {weft.axes = ["model", ""]}, %i: tensor<3xi64>) -> tensor<3x2xf32> {
  %0 = weft.index_select %x, %i, dim = 0 : tensor<10x2xf32>, tensor<3xi64>
  return %0 : tensor<3x2xf32>
}

// -----

// Each rank adds the rows that it has, and one of them the base: this one stands at 1.
// CHECK-LABEL: func.func @main(%arg0: tensor<5x2xf32>, %arg1: tensor<4x3xi64>, %arg2: tensor<4x3x2xf32>)
// CHECK: %[[ZERO:.*]] = weft.constant dense<0.000000e+00>
// CHECK: %[[P:.*]] = weft.index_add {{.*}}, %arg1, %arg2, dim = 0 : tensor<5x2xf32>, tensor<4x3xi64>, tensor<4x3x2xf32>
// CHECK-NEXT: weft.all_reduce sum %[[P]] over "data" of 2 : tensor<5x2xf32>
func.func @main(%b: tensor<5x2xf32>, %i: tensor<8x3xi64> {weft.axes = ["data", ""]},
                %g: tensor<8x3x2xf32> {weft.axes = ["data", "", ""]}) -> tensor<5x2xf32> {
  %0 = weft.index_add %b, %i, %g, dim = 0 : tensor<5x2xf32>, tensor<8x3xi64>, tensor<8x3x2xf32>
  return %0 : tensor<5x2xf32>
}

// -----

// The same by elements; what is whole is cut where it is added.
// CHECK-LABEL: func.func @main(%arg0: tensor<2x5xf32>, %arg1: tensor<2x12xi64>, %arg2: tensor<2x24xf32>)
// CHECK: %[[G:.*]] = weft.slice %arg2
// CHECK: %[[P:.*]] = weft.scatter_add {{.*}}, %arg1, %[[G]], dim = 1 : tensor<2x5xf32>, tensor<2x12xi64>, tensor<2x12xf32>
// CHECK-NEXT: weft.all_reduce sum %[[P]] over "model" of 2 : tensor<2x5xf32>
func.func @main(%b: tensor<2x5xf32>, %i: tensor<2x24xi64> {weft.axes = ["", "model"]}, %g: tensor<2x24xf32>) -> tensor<2x5xf32> {
  %0 = weft.scatter_add %b, %i, %g, dim = 1 : tensor<2x5xf32>, tensor<2x24xi64>, tensor<2x24xf32>
  return %0 : tensor<2x5xf32>
}

// -----

// Few rows for a long table are gathered.
// CHECK-LABEL: func.func @main(%arg0: tensor<90x2xf32>, %arg1: tensor<2xi64>, %arg2: tensor<2x2xf32>)
// CHECK-DAG: weft.all_gather %arg1
// CHECK-DAG: weft.all_gather %arg2
// CHECK-NOT: weft.all_reduce
func.func @main(%b: tensor<90x2xf32>, %i: tensor<4xi64> {weft.axes = ["data"]}, %g: tensor<4x2xf32> {weft.axes = ["data", ""]}) -> tensor<90x2xf32> {
  %0 = weft.index_add %b, %i, %g, dim = 0 : tensor<90x2xf32>, tensor<4xi64>, tensor<4x2xf32>
  return %0 : tensor<90x2xf32>
}

// -----

// What is cut otherwise moves between the ranks; what nothing cuts is gathered.
// CHECK-LABEL: func.func @main(%arg0: tensor<4x6xf32>) -> (tensor<8x3xf32>, tensor<8x6xi64>)
// CHECK: %[[ALL:.*]] = weft.all_gather %arg0 over "model" of 2 : tensor<4x6xf32> to tensor<8x6xf32>
// CHECK: weft.arg_sort %[[ALL]]
// CHECK: weft.all_to_all {{.*}} over "model" of 2 : tensor<2x4x3xf32>
func.func @main(%x: tensor<8x6xf32> {weft.axes = ["model", ""]}) -> (tensor<8x6xf32> {weft.axes = ["", "model"]}, tensor<8x6xi64>) {
  %0 = weft.arg_sort %x, dim = 0 : tensor<8x6xf32>
  return %x, %0 : tensor<8x6xf32>, tensor<8x6xi64>
}

// -----

// What one op reads several times is exchanged once.
// CHECK-LABEL: func.func @main(%arg0: tensor<4x3xf32>, %arg1: tensor<4x3xf32>)
// CHECK: %[[X:.*]] = weft.all_gather %arg0 over "data" of 2
// CHECK-NEXT: %[[Z:.*]] = weft.all_gather %arg1 over "data" of 2
// CHECK-NEXT: %[[R:.*]] = weft.concat %[[X]], %[[Z]], %[[X]], %[[Z]] dim = 0
// CHECK-NEXT: return %[[R]]
func.func @main(%x: tensor<8x3xf32> {weft.axes = ["data", ""]}, %z: tensor<8x3xf32> {weft.axes = ["data", ""]}) -> tensor<32x3xf32> {
  %0 = weft.concat %x, %z, %x, %z dim = 0 : tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>
  return %0 : tensor<32x3xf32>
}

// -----

// A mask is cut as what it drops is: of the draw of one process each rank takes its part.
// CHECK-LABEL: func.func @main(%arg0: tensor<4x3xf32>, %arg1: tensor<2xi64>) -> (tensor<4x3xf32>, tensor<4x3xi1>)
// CHECK: %[[U:.*]] = weft.random_uniform %arg1 : tensor<8x6xf32>
// CHECK-NEXT: %[[R:.*]] = weft.slice %[[U]]{{\[\[}}4, 0] : [8, 6] : [1, 1]] : tensor<8x6xf32>
// CHECK-NEXT: weft.slice %[[R]]{{\[\[}}0, 3] : [4, 6] : [1, 1]] : tensor<4x6xf32>
// CHECK: weft.compare ge {{.*}} : tensor<4x3xf32>
// CHECK: weft.select {{.*}} : tensor<4x3xf32>
// CHECK-NOT: weft.all_gather
func.func @main(%x: tensor<8x6xf32> {weft.axes = ["data", "model"]}, %s: tensor<2xi64>) -> (tensor<8x6xf32> {weft.axes = ["data", "model"]}, tensor<8x6xi1> {weft.axes = ["data", "model"]}) {
  %0:2 = weft.dropout %x, %s {rate = 0.5 : f64} : tensor<8x6xf32>
  return %0#0, %0#1 : tensor<8x6xf32>, tensor<8x6xi1>
}

// The tensors of a .safetensors file go to the arguments of their names, whatever their order.
// RUN: weft-run --backend=reference --output %t.safetensors %s
// RUN: sed -e 's/@main(/@unused(/' -e 's/@minus/@main/' %s > %t.minus.mlir
// RUN: weft-run --backend=reference --input %t.safetensors %t.minus.mlir | FileCheck %s --check-prefix=NAMES
// NAMES: float32[2]
// NAMES-NEXT: [-2. -1.]
// What a file holds decides, not what it is called.
// RUN: cp %t.safetensors %t.weights && weft-run --backend=reference --input %t.weights %t.minus.mlir | FileCheck %s --check-prefix=NAMES
// One of an element type that Weft lacks is an error where it is an argument, else a note.
// RUN: sed 's/"output1":{"dtype":"F32"/"output1":{"dtype":"U32"/' %t.safetensors > %t.foreign
// RUN: not weft-run --backend=reference --input %t.foreign %t.minus.mlir 2>&1 | FileCheck %s --check-prefix=FOREIGN
// RUN: not weft-compile --emit=plan -o %t.plan --weights %t.foreign %t.minus.mlir 2>&1 | FileCheck %s --check-prefix=FOREIGN
// FOREIGN: {{weft-run|weft-compile: .*foreign}}: 'output1' is U32 [2] in the file, an element type that Weft does not have
// Inputs without names are of .npy files, in order among themselves.
// RUN: sed -e 's/@main(/@unused(/' -e 's/@third/@main/' %s > %t.third.mlir
// RUN: weft-run --backend=reference --output %t.0.npy --output %t.1.npy --output %t.2.npy %s
// RUN: weft-run --backend=reference --input %t.safetensors --input %t.2.npy %t.third.mlir 2> %t.note | FileCheck %s --check-prefix=THIRD
// RUN: FileCheck %s --check-prefix=NOTE < %t.note
// THIRD: [4. 4.]
// NOTE: weft-run: not used; no argument is called 'output1', 'output2'
// RUN: not weft-run --backend=reference --input %t.2.npy %t.third.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: weft-run: @main is given nothing for 'output0'; name by --input a .safetensors file
// RUN: not weft-run --backend=reference --input %t.safetensors --input %t.safetensors %t.minus.mlir 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: weft-run: two files have a tensor 'output0'
// RUN: sed -e 's/"output1"/"weight"/' %t.minus.mlir > %t.other.mlir
// RUN: not weft-run --backend=reference --input %t.safetensors %t.other.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: weft-run: @main is given nothing for 'weight'; no argument is called 'output1', 'output2';
// What the program keeps begins with the tensor of its name.
// RUN: sed -e 's/@main(/@unused(/' -e 's/@keeps/@main/' %s > %t.keeps.mlir
// RUN: weft-run --backend=reference --input %t.safetensors %t.keeps.mlir | FileCheck %s --check-prefix=KEEPS
// KEEPS: [6. 6.]
// A model that was exported runs on the weights that were.
// RUN: weft-models export shufflenet_v2_x0_5 --emit=weft -o %t.model.mlir
// RUN: weft-models export shufflenet_v2_x0_5 --emit=safetensors -o %t.weights.safetensors
// RUN: echo 'func.func @main() -> tensor<1x3x224x224xf32> { %%0 = weft.constant dense<0.5> : tensor<1x3x224x224xf32> return %%0 : tensor<1x3x224x224xf32> }' > %t.image.mlir
// RUN: weft-run --backend=reference --output %t.image.npy %t.image.mlir
// RUN: weft-run --input %t.weights.safetensors --input %t.image.npy %t.model.mlir 2>&1 | FileCheck %s --check-prefix=MODEL
// MODEL: weft-run: not used; no argument is called 'conv1.1.num_batches_tracked'
// MODEL: float32[1, 1000]

func.func @main() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = weft.iota {dim = 0 : i64} : tensor<2xf32>
  %1 = weft.constant dense<2.0> : tensor<2xf32>
  %2 = weft.constant dense<3.0> : tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @minus(%b: tensor<2xf32> {weft.parameter = "output1"}, %a: tensor<2xf32> {weft.name = "output0"}) -> tensor<2xf32> {
  %0 = weft.sub %a, %b : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @third(%x: tensor<2xf32>, %a: tensor<2xf32> {weft.name = "output0"}) -> tensor<2xf32> {
  %0 = weft.sub %x, %a : tensor<2xf32>
  %1 = weft.add %0, %a : tensor<2xf32>
  %2 = weft.constant dense<1.0> : tensor<2xf32>
  %3 = weft.add %1, %2 : tensor<2xf32>
  return %3 : tensor<2xf32>
}
func.func @keeps(%count: tensor<2xf32> {weft.state = "output2", weft.initial = dense<[1.0, 2.0]> : tensor<2xf32>}) -> (tensor<2xf32>, tensor<2xf32> {weft.writes = 0 : i64}) {
  %0 = weft.add %count, %count : tensor<2xf32>
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}

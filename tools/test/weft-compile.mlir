// RUN: weft-compile %s --emit=weft -o - | FileCheck %s --check-prefix=WEFT
// RUN: weft-compile %s --emit=plan -o - | FileCheck %s --check-prefix=PLAN
// RUN: weft-compile - --emit=llvm --name=net -o - < %s | FileCheck %s --check-prefix=LLVM
// RUN: weft-compile %s --emit=asm --mcpu=x86-64-v3 --name=net -o - | FileCheck %s --check-prefix=ASM
// RUN: weft-compile %s --emit=obj --name=net -o %t.o && FileCheck %s --check-prefix=HEADER < %t.h
// RUN: not weft-compile %s --emit=nothing 2>&1 | FileCheck %s --check-prefix=EMIT
// RUN: not weft-compile %s --target=tpu 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not weft-compile %s --mcpu=none-such --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not weft-compile %s --mattr=+no-such --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=FEATURE
// RUN: not weft-compile %s --mcpu=x86-64-v3 --mattr=-fma4,avx512f --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=SIGN
// RUN: weft-compile %s --memory-limit=1 --emit=plan -o - 2>&1 | FileCheck %s --check-prefix=REACHED
// RUN: not weft-compile %s --memory-limit=-1 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not weft-compile %S/nowhere.mlir --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: echo 'func.func @main(%%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> { return %%x : tensor<2xcomplex<f32>> }' > %t.complex.mlir
// RUN: not weft-compile %t.complex.mlir --emit=plan -o - 2>&1 | FileCheck %s --check-prefix=ELEMENT
// RUN: echo 'func.func @main(%%x: tensor<2xindex> {weft.parameter = "w"}) -> tensor<2xindex> { return %%x : tensor<2xindex> }' > %t.held.mlir
// RUN: not weft-compile %t.held.mlir --emit=plan -o - 2>&1 | FileCheck %s --check-prefix=HELD
// RUN: echo "func.func @main(" | not weft-compile - --emit=asm -o - 2>&1 | FileCheck %s --check-prefix=CORRUPT

// WEFT: weft.fusion
// PLAN: plan.program @main
// PLAN: plan.launch
// LLVM: weft_model_net
// ASM: weft_model_net
// HEADER: extern const weft_model_code weft_model_net;
// HEADER: // input 0 'x': float32[4]
// HEADER: #define NET_INPUT_0_ELEMENTS 4
// HEADER: #define NET_OUTPUTS 1
// EMIT: --emit=nothing is unknown; it is one of weft, plan, llvm, asm, obj, so and exe
// TARGET: there is no target 'tpu'
// CPU: none-such
// FEATURE-NOT: warning
// FEATURE: weft-compile: unknown processor feature '+no-such'
// SIGN: weft-compile: unknown processor feature 'avx512f' {{.*}} given as +NAME or -NAME
// REACHED: weft-compile: warning: the memory limit of 1 bytes is not reached: a run of 'main' takes {{[0-9]+}} bytes
// LIMIT: --memory-limit: it must be a whole number of at least 0, not -1
// FILE: nowhere.mlir
// ELEMENT: argument 0 of @main has the type {{.*}}tensor<2xcomplex<f32>>{{.*}}; tensors have elements of
// HELD: the model holds 'w', whose elements are of none of Weft's types; tensors have elements of
// CORRUPT: stdin is no valid program
func.func @main(%x: tensor<4xf32> {weft.name = "x"}) -> tensor<4xf32> {
  %0 = weft.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

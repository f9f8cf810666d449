// RUN: weft-models list --kind="image classifier" | FileCheck %s --check-prefix=LIST
// RUN: not weft-models list --kind nope 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: weft-models print squeezenet1_1 --batch 2 | FileCheck %s --check-prefix=PRINT
// RUN: weft-models print vae --memory | FileCheck %s --check-prefix=MEMORY
// RUN: weft-models print vae --ir | FileCheck %s --check-prefix=IR
// RUN: not weft-models print resnet19 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not weft-models resnet18 2>&1 | FileCheck %s --check-prefix=COMMAND
// RUN: not weft-models 2>&1 | FileCheck %s --check-prefix=NO-COMMAND
// RUN: not weft-models print vae --memory --ir 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not weft-models export vae --seed=-1 -o %t 2>&1 | FileCheck %s --check-prefix=SEED
// RUN: not weft-models export vae --emit=nothing -o %t 2>&1 | FileCheck %s --check-prefix=EMIT
// RUN: weft-models export vae --emit=safetensors -o %t.safetensors 2>&1 | FileCheck %s --check-prefix=WROTE
// RUN: weft-models export vae --weights %t.safetensors --emit=plan -o %t.plan && FileCheck %s --check-prefix=PLAN < %t.plan
// RUN: rm -rf %t.dump && weft-models export vae --batch 3 --emit=obj --name=vae --dump-dir %t.dump -o %t.o && FileCheck %s --check-prefix=HEADER < %t.h
// RUN: ls %t.dump | FileCheck %s --check-prefix=DUMP
// RUN: weft-models export shufflenet_v2_x0_5 --max-batch 4 --emit=obj -o %t.range.o && FileCheck %s --check-prefix=RANGE < %t.range.h
// RUN: not weft-models export vae --batch 3 --max-batch 2 --emit=obj -o %t.o 2>&1 | FileCheck %s --check-prefix=NO-RANGE
// RUN: not weft-models export shufflenet_v2_x0_5 --weights %t.safetensors -o %t 2>&1 | FileCheck %s --check-prefix=WEIGHTS

// RUN: env WEFT_BACKEND=CPU weft-models list 2>&1 | FileCheck %s --check-prefix=BACKEND
// RUN: env WEFT_CACHE_DIR=%s weft-models print vae --memory 2>&1 | FileCheck %s --check-prefix=CACHE
// RUN: weft-models export shufflenet_v2_x0_5 --weights-beside --emit=obj -o %t.beside.o 2>&1 | FileCheck %s --check-prefix=BESIDE

// BACKEND: weft: WEFT_BACKEND=CPU is ignored: it must be one of cpu
// CACHE: weft: the disk cache is off, and every process compiles anew: {{.*}}weft-models.mlir is not a folder
// BESIDE: wrote {{.*}}.beside.o
// BESIDE-NEXT: wrote {{.*}}.beside.h
// BESIDE-NEXT: wrote {{.*}}.beside.safetensors

// LIST-NOT: gpt2
// LIST: resnet18{{ +}}image classifier{{ +}}11689512  He et al. 2016

// KIND: weft-models: list: no model is of the kind "nope"; the kinds are "autoencoder", "image classifier",
// KIND-SAME: "text encoder"

// 2 * 64 * 111 * 111 results of 27 products and sums each, a bias and a relu.
// PRINT: squeezenet1_1: image classifier; Iandola
// PRINT: layer{{ +}}output{{ +}}parameters{{ +}}flops{{ +}}weight bytes{{ +}}output bytes
// PRINT: features.0{{ +}}2x64x111x111xf32{{ +}}1.792 K{{ +}}88.317 M{{ +}}7.168 K{{ +}}6.308 M
// PRINT: max_pool2d{{ +}}2x64x55x55xf32{{ +}}0
// PRINT: features.3.squeeze{{ +}}2x16x55x55xf32
// PRINT: total{{ +}}2x1000xf32{{ +}}1.235 M

// 652824 numbers as weights, an image of 28 * 28 and 20 draws.
// MEMORY: 2.6 MB: inputs 3.2 kB, state 2.6 MB, outputs {{[0-9.]+ k?B}}, arena {{[0-9.]+ k?B}}
// MEMORY-NEXT: over the run: {{[0-9]+}} B at first, {{[0-9]+}} B at most, {{[0-9]+}} B at the end
// MEMORY-NEXT: {{.*}}█
// MEMORY: by module
// MEMORY: up
// MEMORY: by line
// MEMORY: largest

// IR: weft.constant {{.*}}weft.parameter = "up.weight"
// IR: weft.matmul

// UNKNOWN: weft-models: there is no model 'resnet19'; the nearest names are resnet18, resnet
// COMMAND: The following argument was not expected: resnet18
// NO-COMMAND: weft-models: what to do is missing: list, print or export
// BOTH: --ir excludes --memory
// SEED: --seed: it must be a whole number of at least 0, not -1
// EMIT: --emit=nothing is unknown; it is one of weft, plan, llvm, asm, obj, so, exe and safetensors
// WROTE: wrote {{.*}}.safetensors
// PLAN: plan.program @main
// HEADER: extern const weft_model_code weft_model_vae;
// HEADER: #define VAE_INPUT_0_ELEMENTS 2352
// DUMP: graph
// RANGE: input 0: float32[1..4, 3, 224, 224]
// NO-RANGE: weft-models: trace: a batch from 3 to 2 is no range
// WEIGHTS: load_state: there is no tensor for 'conv1.0.weight'

// An executable needs neither driver nor library to be linked, and no LLVM; on the recording driver it loads its kernels, copies, launches and
// multiplies. Empty files in a library's place make the dynamic linker find none, GPU or not.
// UNSUPPORTED: sanitizer
// RUN: weft-compile %s --target=cuda:sm_90 --emit=exe -o %t
// RUN: llvm-readelf -d %t | FileCheck %s --check-prefix=NEEDED
// RUN: %t --help | FileCheck %s --check-prefix=HELP
// RUN: weft-compile %s --target=cuda:sm_90 --emit=plan -o - | FileCheck %s --check-prefix=PLAN
// RUN: rm -rf %t.object && mkdir %t.object && weft-compile %s --target=cuda:sm_90 --emit=obj -o %t.object/net.o
// RUN: llvm-readelf -s %t.object/net.o | FileCheck %s --check-prefix=OBJECT
// RUN: FileCheck %s --check-prefix=HEADER < %t.object/net.h
// RUN: rm -rf %t.gpu && mkdir %t.gpu && ln -s %S/libcuda.so.1 %t.gpu/libcuda.so.1 && ln -s %S/libcuda.so.1 %t.gpu/libcublasLt.so.13
// RUN: env LD_LIBRARY_PATH=%t.gpu WEFT_RECORDING_LOG=%t.log %t
// RUN: FileCheck %s --check-prefix=LOG < %t.log
// RUN: rm -rf %t.none && mkdir %t.none && touch %t.none/libcuda.so.1
// RUN: env LD_LIBRARY_PATH=%t.none sh -c "%t; test $? = 2" 2>&1 | FileCheck %s --check-prefix=NODRIVER
// RUN: not env LD_LIBRARY_PATH=%t.none weft-run --backend=cuda %s 2>&1 | FileCheck %s --check-prefix=NODRIVER
// RUN: rm -f %t.gpu/libcublasLt.so.13 && touch %t.gpu/libcublasLt.so.13 %t.gpu/libcublasLt.so.12 %t.gpu/libcublasLt.so.11
// RUN: env LD_LIBRARY_PATH=%t.gpu sh -c "%t; test $? = 2" 2>&1 | FileCheck %s --check-prefix=NOLIBRARY
// RUN: weft-compile %s --target=cuda:sm_90 --no-claim --emit=exe -o %t.unclaimed
// RUN: env LD_LIBRARY_PATH=%t.gpu WEFT_RECORDING_LOG=%t.unclaimed.log %t.unclaimed
// RUN: FileCheck %s --check-prefix=UNCLAIMED < %t.unclaimed.log

// NEEDED-NOT: {{libcu|LLVM|MLIR}}
// NEEDED: libstdc++
// NEEDED-NOT: {{libcu|LLVM|MLIR}}
// HELP: Runs the model
// PLAN: plan.library_call {{.*}}cublaslt.matmul
// OBJECT: UND weft_cuda_make_executable
// HEADER: is linked with, in this order: libweft_cuda.a libweft_aot.a -lstdc++ -lm
// LOG: load weft_
// LOG: launch weft_
// LOG: matmul 64 x 32 x 16, batch 1
// LOG: to host 8192
// LOG-NEXT: synchronize
// LOG-NOT: errors
// NODRIVER-NOT: {{^.}}
// NODRIVER: {{.*}}: NVIDIA's driver was not found (libcuda.so.1: {{.*}}). Programs for the backend "cuda" run where it is installed; compiling ahead of time (weft-compile) works here, and the backend "cpu" runs everywhere
// NODRIVER-NOT: {{^.}}
// NOLIBRARY: cuBLASLt was not found (looked for libcublasLt.so.13, libcublasLt.so.12, libcublasLt.so.11); install CUDA's libraries, set LD_LIBRARY_PATH, or compile without library calls (--no-claim)
// UNCLAIMED-NOT: matmul {{[0-9]}}
// UNCLAIMED: launch weft_
// UNCLAIMED: synchronize
// UNCLAIMED-NOT: errors
func.func @main() -> tensor<32x64xf32> {
  %0 = weft.iota {dim = 1 : i64} : tensor<32x16xf32>
  %1 = weft.iota {dim = 0 : i64} : tensor<16x64xf32>
  %2 = weft.matmul %0, %1 : tensor<32x16xf32>, tensor<16x64xf32>
  return %2 : tensor<32x64xf32>
}

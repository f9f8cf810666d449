// A program without inputs makes the file that the next one reads.
// RUN: weft-run --backend=reference --output %t.npy %s
// RUN: sed -e 's/@main(/@unused(/' -e 's/@double/@main/' %s | weft-run --backend=reference --input %t.npy - | FileCheck %s
// CHECK: float32[2, 3]
// CHECK-NEXT: {{\[\[}}0. 2. 4.]
// CHECK-NEXT: {{^}} [0. 2. 4.]]
// How many threads a run has, and that it takes more than it may.
// RUN: weft-run --threads 3 --report %s 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: runs on 3 threads
// RUN: weft-run --memory-limit 8 %s 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: weft-run: plan: memory limit of 8 bytes: {{.*}}it is not reached: 24 bytes are the least

func.func @main() -> tensor<2x3xf32> {
  %0 = weft.iota {dim = 1 : i64} : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func @double(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = weft.add %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

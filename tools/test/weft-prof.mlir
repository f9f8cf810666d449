// RUN: weft-prof %S/trace.json --peak-gflops=100 --peak-gbs=10 | FileCheck %s --check-prefix=KERNELS
// RUN: weft-prof %S/trace.json --by=line --top=1 --no-roofline | FileCheck %s --check-prefix=LINES
// RUN: not weft-prof %S/trace.json --peak-gflops=0 2>&1 | FileCheck %s --check-prefix=PEAK
// PEAK: --peak-gflops: it must be a number above 0, not 0
// RUN: weft-prof %S/trace.json --peak-gbs=10 | FileCheck %s --check-prefix=MEASURED
// RUN: not weft-prof %t.missing 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not weft-prof %S 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not weft-prof %s 2>&1 | FileCheck %s --check-prefix=NO-TRACE
// RUN: head -c 1000 %S/trace.json > %t.cut && not weft-prof %t.cut 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: not weft-prof %S/trace.json --by=colour 2>&1 | FileCheck %s --check-prefix=BY
// RUN: env WEFT_PROFILE=%t.json weft-run --help > %t.help && not weft-prof %t.json 2>&1 | FileCheck %s --check-prefix=EMPTY

// KERNELS: trace.json: A processor, 4 processors, programs on up to 2 threads
// KERNELS: roofline: 100.0 GFLOP/s (given), 10.0 GB/s (given)
// KERNELS: 0.160{{ +}}87.8{{ +}}2{{.*}}25.0  33.3  flops{{ +}}0.120  onednn.matmul
// KERNELS: outside of instructions
// LINES-NOT: roofline
// LINES: 0.100{{.*}}train.cpp:7
// LINES: and 3 more
// MEASURED: roofline: {{[0-9.]+}} GFLOP/s (measured here on 2 threads), 10.0 GB/s (given)
// MISSING: weft-prof: {{.*}}.missing cannot be read: No such file or directory
// FOLDER: weft-prof: {{.*}} is a folder; a trace is a file
// NO-TRACE: weft-prof: {{.*}} is no trace of Weft: it is not JSON at byte 1; WEFT_PROFILE=trace.json ./program writes one
// CUT: is no trace of Weft: it is not JSON at byte {{[0-9]+}}
// BY: --by
// EMPTY: holds no events: nothing ran while it was written

// Damaged bytecode does not get to MLIR's reader.
// RUN: head -c 200 %S/fewer_names_than_dims.mlirbc > %t.mlirbc
// RUN: not weft-opt %t.mlirbc 2>&1 | FileCheck %s --check-prefix=DAMAGED
// RUN: not weft-opt - < %t.mlirbc 2>&1 | FileCheck %s --check-prefix=STDIN
// DAMAGED: weft-opt: {{.*}}.mlirbc is damaged: its checksum is not that of its bytes
// STDIN: weft-opt: stdin is damaged
// RUN: not weft-opt %S/fewer_names_than_dims.mlirbc 2>&1 | FileCheck %s --check-prefix=NAMES
// NAMES: error:
// RUN: not weft-opt %t.missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: weft-opt: {{.*}}missing.mlir
// A message is its line, not all of the module; who asks for the op gets it.
// RUN: not weft-opt %s --weft-to-plan 2>&1 | FileCheck %s --check-prefix=NO-MAIN
// RUN: not weft-opt %s --weft-to-plan --mlir-print-op-on-diagnostic 2>&1 | FileCheck %s --check-prefix=ASKED
// RUN: weft-opt %s --weft-tune="seconds=0" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TUNE
// NO-MAIN: error: there is no func.func @main to plan
// NO-MAIN-NOT: {{.}}
// ASKED: error: there is no func.func @main to plan
// ASKED: note: see current operation
// TUNE: remark: schedule: measured 0 of 0 kernels, and pinned choices of 0
// TUNE-NOT: {{.}}
// RUN: weft-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// DIALECTS: weft

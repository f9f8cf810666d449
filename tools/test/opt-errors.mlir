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
// RUN: weft-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// DIALECTS: weft

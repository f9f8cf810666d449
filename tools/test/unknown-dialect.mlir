// An op of a plugin that is not there: from where it may come.
// RUN: not weft-opt %s 2>&1 | FileCheck %s
// RUN: not weft-compile %s -o %t.o 2>&1 | FileCheck %s --check-prefix=COMPILE
// CHECK: error: Dialect `mine' not found for custom op 'mine.softsign'
// CHECK: note: if 'mine' is a plugin's, load the plugin before: {{.*}}WEFT_PLUGINS=FILE.so
// COMPILE: (if 'mine' is a plugin's, load the plugin before: {{.*}}WEFT_PLUGINS=FILE.so)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mine.softsign %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

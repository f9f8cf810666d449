// A plugin that calls what a test sets while it is loaded: as one does that uses Weft itself, or
// fails.
#include "runtime/abi/weft_custom.h"

extern "C" {

void (*test_while_loading)() = nullptr;

const char *weft_kernel_plugin(weft_register_kernel_function) {
  if (test_while_loading)
    test_while_loading();
  return nullptr;
}

} // extern "C"

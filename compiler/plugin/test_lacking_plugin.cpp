// A plugin whose kernel calls what is in no library.
#include "runtime/abi/weft_custom.h"

extern "C" {

const char *test_is_nowhere();

const char *weft_kernel_plugin(weft_register_kernel_function) {
  return test_is_nowhere();
}

} // extern "C"

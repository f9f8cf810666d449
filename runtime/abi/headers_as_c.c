// The headers of the boundary are C: this file is compiled as C11, all warnings errors, and says
// how large their structs are there.
#include "runtime/abi/headers_as_c.h"

#include "runtime/abi/weft_collective.h"
#include "runtime/abi/weft_custom.h"
#include "runtime/abi/weft_runtime.h"
#include "runtime/abi/weft_version.h"
#include "runtime/aot/weft_model.h"

size_t weft_sizes_in_c(size_t *sizes) {
  size_t count = 0;
#define WEFT_SIZE(type) sizes[count++] = sizeof(type);
  WEFT_STRUCTS(WEFT_SIZE)
#undef WEFT_SIZE
  return count;
}

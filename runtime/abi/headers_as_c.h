// Private to the test.
#ifndef WEFT_RUNTIME_ABI_HEADERS_AS_C_H
#define WEFT_RUNTIME_ABI_HEADERS_AS_C_H

#include <stddef.h>

#define WEFT_STRUCTS(apply)                                                                        \
  apply(weft_kernel_env) apply(weft_custom_tensor) apply(weft_custom_call)                         \
      apply(weft_custom_shape) apply(weft_custom_kernel) apply(weft_executable)                    \
          apply(weft_held_code) apply(weft_held_place) apply(weft_entry_code)                      \
              apply(weft_model_code) apply(weft_tensor_info) apply(weft_model_options)             \
                  apply(weft_collective_world) apply(weft_collective_transfer)                     \
                      apply(weft_collective_layer) apply(weft_collective_call)

#ifdef __cplusplus
extern "C"
#endif
    size_t weft_sizes_in_c(size_t *sizes); // how many there are

#endif

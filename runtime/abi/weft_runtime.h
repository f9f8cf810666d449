// The boundary between compiled code and the runtime: plain C, small versioned structs
// (weft_version.h), nothing of LLVM or C++.
//
// A kernel is one fused computation over a range of independent pieces [begin, end); the runtime
// splits the whole range [0, count) between threads. Kernels hold no state, allocate nothing and
// call nothing.
#ifndef WEFT_RUNTIME_ABI_H
#define WEFT_RUNTIME_ABI_H

#include <stdint.h>

#include "runtime/abi/weft_version.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of this header: what kernels are compiled for. A model states it
// (weft_model_code.kernel_version).
#define WEFT_ABI_VERSION WEFT_VERSION(1, 2)

// What a kernel knows of the thread that runs it. A kernel that uses a field which a later minor
// version added asks struct_size first.
typedef struct weft_kernel_env {
  uint32_t struct_size; // sizeof(weft_kernel_env) of the runtime
  uint32_t thread;      // 0 .. threads - 1
  void *scratch; // this thread's own, 64-byte aligned, of the size that the kernel's launch states
} weft_kernel_env;

// What a kernel returns.
enum {
  WEFT_KERNEL_OK = 0,
  WEFT_KERNEL_INDEX_OUT_OF_RANGE = 1, // a gather or scatter index lies outside its dimension
};

// buffers: inputs, then outputs, then (where the launch has one) the buffer of partial results that
// its threads share; each 64-byte aligned, except inputs and outputs that the user bound, which are
// aligned to their element. ints: `count` at the sizes of this run, then
// (where the launch has some) sizes that the kernel asks for. scalars: NULL; scalar leaves are
// rank-0 buffers, so that an int64 keeps all its bits.
typedef int32_t (*weft_kernel)(const weft_kernel_env *env, void *const *buffers,
                               const int64_t *ints, const double *scalars, int64_t begin,
                               int64_t end);

#ifdef __cplusplus
}
#endif
#endif // WEFT_RUNTIME_ABI_H

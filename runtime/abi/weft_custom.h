// Kernels of users, behind weft::custom(...) and the op weft.custom: plain C, so that one is built
// with any compiler and loads beside any LLVM. A kernel is a pure function of tensors: it reads its
// inputs, writes every element of its outputs, and keeps no state that shows. An exception that one
// in C++ throws is a failure with its text. Kernels that were built for another minor version of
// this header work; weft_version.h says how.
#ifndef WEFT_RUNTIME_ABI_CUSTOM_H
#define WEFT_RUNTIME_ABI_CUSTOM_H

#include <stdint.h>

#include "runtime/abi/weft_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_CUSTOM_ABI_VERSION WEFT_VERSION(1, 0)

// A derivative takes the inputs, the outputs and their cotangents, hence more inputs than outputs.
#define WEFT_CUSTOM_MAX_INPUTS 32
#define WEFT_CUSTOM_MAX_OUTPUTS 8
#define WEFT_CUSTOM_MAX_RANK 16

enum { // the values of weft::DType; an element takes the bytes that its name says, a bool takes one
  WEFT_FLOAT32 = 0,
  WEFT_FLOAT64 = 1,
  WEFT_INT32 = 2,
  WEFT_INT64 = 3,
  WEFT_BOOL = 4,
  WEFT_BFLOAT16 = 5,
  WEFT_FLOAT16 = 6,
  WEFT_INT8 = 7,
  WEFT_INT16 = 8,
  WEFT_UINT8 = 9,
};

// Row-major, without gaps. Aligned to its elements at least. Stands in arrays: it never grows.
typedef struct weft_custom_tensor {
  void *data; // NULL while shapes are inferred
  const int64_t *dims;
  int32_t rank;
  int32_t dtype;
} weft_custom_tensor;

typedef struct weft_custom_call {
  uint32_t struct_size; // sizeof(weft_custom_call) of the caller, which is Weft
  int32_t num_inputs;
  int32_t num_outputs;
  const weft_custom_tensor *inputs;
  const weft_custom_tensor *outputs; // NULL while shapes are inferred
  const int64_t *ints;               // parameters that the call was given
  int64_t num_ints;
  const double *scalars;
  int64_t num_scalars;
} weft_custom_call;

// What the shape rule says of one output. Stands in arrays: it never grows.
typedef struct weft_custom_shape {
  int32_t dtype;
  int32_t rank;
  int64_t dims[WEFT_CUSTOM_MAX_RANK];
} weft_custom_shape;

typedef struct weft_custom_kernel {
  uint32_t struct_size; // sizeof(weft_custom_kernel) of whoever registers it
  uint32_t version;     // WEFT_CUSTOM_ABI_VERSION, likewise
  const char *name;     // "mine.scan": letters, digits and . _ - / :, not "weft." first
  int32_t num_outputs;

  // The shape rule: fills one entry an output. NULL, or what is wrong with the inputs; the text
  // must stay valid.
  const char *(*infer)(const weft_custom_call *call, weft_custom_shape *outputs);

  // Computes the pieces [begin, end) of [0, count). Pieces run at once on several threads and must
  // write different elements; what an element is must not depend on how the pieces were split.
  // NULL, or what went wrong; the text must stay valid.
  const char *(*run)(const weft_custom_call *call, int64_t begin, int64_t end);

  // How many pieces there are, 0 or more; NULL: one.
  int64_t (*count)(const weft_custom_call *call);

  // The kernel that is its derivative, or NULL. That one's inputs are the inputs, the outputs, and
  // a cotangent for each output of a floating dtype; its outputs are the gradients of the inputs of
  // a floating dtype. It has the same ints and scalars, and may have a derivative itself.
  const char *derivative;
} weft_custom_kernel;

// Makes a kernel known to this process, for good; from any thread. The struct is copied, its
// strings too. NULL, or why not: another kernel of that name, another major version of this header,
// a missing function. The text is valid until the thread's next call.
const char *weft_register_kernel(const weft_custom_kernel *kernel);

// What a plugin of kernels exports, under this name: loaded by WEFT_PLUGINS or weft::load_plugin,
// it registers its kernels with the function that it is given, and so needs no symbol of the
// program. NULL, or why it cannot.
typedef const char *(*weft_register_kernel_function)(const weft_custom_kernel *kernel);
const char *weft_kernel_plugin(weft_register_kernel_function register_kernel);

#ifdef __cplusplus
}
#endif
#endif // WEFT_RUNTIME_ABI_CUSTOM_H

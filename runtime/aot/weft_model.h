// A model compiled ahead of time: what a generated object exports, and how a C or C++ program runs
// it. Plain C. Models and callers that were built for another minor version of this header work;
// weft_version.h says how. (A program within a model has a version of its own, which must be the
// runtime's: runtime/executable/program.h.)
//
//   #include "mlp.h"                              // generated beside mlp.o; declares
//                                                 weft_model_mlp
//   weft_model* model;
//   if (weft_model_open(&weft_model_mlp, NULL, &model)) { puts(weft_model_error()); return 1; }
//   const void* inputs[] = {x};                   // row-major, of the shapes in mlp.h
//   void* outputs[] = {y};
//   if (weft_model_run(model, inputs, outputs)) puts(weft_model_error());
//   weft_model_close(model);
//
// Link the object with the runtime's archive (libweft_aot.a) and the C++ library, and with oneDNN
// where mlp.h says so.
#ifndef WEFT_AOT_MODEL_H
#define WEFT_AOT_MODEL_H

#include <stdint.h>

#include "runtime/abi/weft_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_MODEL_VERSION WEFT_VERSION(3, 0)

// Finds the entries of a library; defined by the archive that brings the library (libweft_onednn.a,
// libweft_sort.a), which is linked with the runtime that it was built with. What an entry is is
// their own affair.
typedef struct weft_library_entry weft_library_entry;
typedef const weft_library_entry *(*weft_library_finder)(const char *name);

// What runs a program whose kernels are for another device than the host.
typedef struct weft_executable {
  uint32_t struct_size; // sizeof(weft_executable) of the runtime; then of who filled it
  uint32_t version;     // WEFT_MODEL_VERSION, likewise
  void *self;
  // Runs on memory of the host: an element for each input and output of the program, weights
  // included. NULL, or what went wrong; the text is valid until the thread's next call.
  const char *(*run)(void *self, const void *const *inputs, void *const *outputs);
  void (*close)(void *self);
} weft_executable;

// Makes one: fills `executable`. Defined by the archive that brings the device. program: as in
// weft_model_code. NULL, or why it cannot, as run() says it.
typedef const char *(*weft_executable_maker)(const void *program, uint64_t program_bytes,
                                             const void *code, uint64_t code_bytes,
                                             weft_executable *executable);

// What an object exports under the name weft_model_NAME.
typedef struct weft_model_code {
  uint32_t struct_size;    // sizeof(weft_model_code) of the compiler
  uint32_t version;        // WEFT_MODEL_VERSION of the compiler
  uint32_t kernel_version; // WEFT_ABI_VERSION of the compiler
  uint32_t kernel_count;
  const char *name;
  const void *program; // runtime::serialize() of the program
  uint64_t program_bytes;
  const char *const *kernel_names;
  const weft_kernel *kernels;
  uint64_t library_count;
  const weft_library_finder *libraries;
  uint64_t parameter_count; // inputs of the program that are weights: open() reads them from
                            // options->weights, by name
  const int32_t *parameters;
  weft_executable_maker make_executable; // NULL where the kernels are those above
  const void *device_code;               // what it makes the executable of
  uint64_t device_code_bytes;
} weft_model_code;

// An input or an output of a model. dtype: a value of weft::DType (0 float32, 1 float64, 2 int32, 3
// int64, 4 bool, 5 bfloat16, 6 float16, 7 int8, 8 int16, 9 uint8). Made by the runtime alone.
typedef struct weft_tensor_info {
  const char *name; // "" for none
  int32_t dtype;
  int32_t rank;
  const int64_t *dims;
  int64_t bytes;
} weft_tensor_info;

typedef struct weft_model_options {
  uint32_t struct_size; // sizeof(weft_model_options) of the caller
  int32_t threads;      // 0: WEFT_NUM_THREADS, or one for each processor
  const char *weights;  // a safetensors file for weights that are not embedded; NULL for none
} weft_model_options;

typedef struct weft_model weft_model;

// All functions that can fail return 0 or an error; weft_model_error() then says what went wrong,
// in the calling thread. options may be NULL. Fails when a processor lacks what the kernels need,
// or a weight is missing or of another shape.
int32_t weft_model_open(const weft_model_code *code, const weft_model_options *options,
                        weft_model **model);
void weft_model_close(weft_model *model);

// Without the weights.
int32_t weft_model_input_count(const weft_model *model);
int32_t weft_model_output_count(const weft_model *model);
// Lives as long as the model; NULL for an index that does not exist.
const weft_tensor_info *weft_model_input(const weft_model *model, int32_t index);
const weft_tensor_info *weft_model_output(const weft_model *model, int32_t index);

// Reads inputs and writes outputs, which belong to the caller and must not overlap. May be called
// from any thread, by one at a time for each model.
int32_t weft_model_run(weft_model *model, const void *const *inputs, void *const *outputs);

// The last error of the calling thread; never NULL.
const char *weft_model_error(void);

#ifdef __cplusplus
}
#endif
#endif // WEFT_AOT_MODEL_H

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
// A model may hold state, which its runs change: a training step compiled ahead of time holds
// parameters, moments, the step count and the generator. It may have several entries, train and
// predict, that share what it holds.
//
//   weft_model *predict = weft_model_entry(model, "predict");
//   for (...) weft_model_run(model, batch, loss);   // the first entry
//   weft_model_run(predict, inputs, outputs);       // with what was learned
//   weft_model_save_state(model, "trained.safetensors");
//
// An entry may take a batch of any size in a range, which mlp.h says: the leading dims of some
// inputs are that size. Its shapes are given with each run.
//
//   const int64_t x_dims[] = {17, 12};
//   const int64_t* dims[] = {x_dims};
//   weft_model_run_sized(model, dims, inputs, outputs);
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

#define WEFT_MODEL_VERSION WEFT_VERSION(4, 1)

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
  // Runs on memory of the host: an element for each input and output of the program, what the model
  // holds included. NULL, or what went wrong; the text is valid until the thread's next call.
  const char *(*run)(void *self, const void *const *inputs, void *const *outputs);
  void (*close)(void *self);
} weft_executable;

// Makes one: fills `executable`. Defined by the archive that brings the device. program, code: as
// in weft_entry_code. NULL, or why it cannot, as run() says it.
typedef const char *(*weft_executable_maker)(const void *program, uint64_t program_bytes,
                                             const void *code, uint64_t code_bytes,
                                             weft_executable *executable);

// What the model holds: state, which an entry writes, or a weight, which none does. One name, one
// tensor: that is how entries share it. It and an entry have no struct_size, and never grow.
typedef struct weft_held_code {
  const char *name;
  const int64_t *dims;
  int32_t rank;
  int32_t dtype;
  uint64_t is_state;
  const void *value; // the first one; NULL: open() reads it from options->weights, by name
  uint64_t bytes;
} weft_held_code;

// An input or an output of a program, by its number, is what the model holds, by its number.
typedef struct weft_held_place {
  int32_t place;
  int32_t held;
} weft_held_place;

typedef struct weft_entry_code {
  const char *name;
  const void *program; // runtime::serialize() of the program, or of those for a range of sizes
  uint64_t program_bytes;
  uint64_t read_count; // inputs that are held; the caller gives all others
  const weft_held_place *reads;
  uint64_t write_count; // outputs that become the value of what is held; the caller gets all others
  const weft_held_place *writes;
  const void *device_code; // what make_executable takes
  uint64_t device_code_bytes;
} weft_entry_code;

// What an object exports under the name weft_model_NAME.
typedef struct weft_model_code {
  uint32_t struct_size;    // sizeof(weft_model_code) of the compiler
  uint32_t version;        // WEFT_MODEL_VERSION of the compiler
  uint32_t kernel_version; // WEFT_ABI_VERSION of the compiler
  uint32_t kernel_count;
  const char *name;
  const char *const *kernel_names; // of all entries
  const weft_kernel *kernels;
  uint64_t library_count;
  const weft_library_finder *libraries;
  uint64_t held_count;
  const weft_held_code *const *held;
  uint64_t entry_count; // one at least
  // The entries, once for each kind of processor that the model was compiled for, the best one
  // first: open() takes the first that this one can run.
  uint64_t level_count; // one at least
  const weft_entry_code *const *const *levels;
  weft_executable_maker make_executable; // NULL where the kernels are those above
} weft_model_code;

// An input, an output or a state of a model. dtype: a value of weft::DType (0 float32, 1 float64, 2
// int32, 3 int64, 4 bool, 5 bfloat16, 6 float16, 7 int8, 8 int16, 9 uint8). A bool is a byte, 0 or
// 1: a run does not look whether an input has others, and may pass them on. Made by the runtime
// alone.
typedef struct weft_tensor_info {
  const char *name; // "" for none
  int32_t dtype;
  int32_t rank;
  const int64_t *dims; // the largest
  int64_t bytes;       // of those
  // The smallest dims: where they differ from `dims`, a dim has any size between them, both
  // included, which is the batch or a multiple of it. Since 4.1.
  const int64_t *min_dims;
} weft_tensor_info;

typedef struct weft_model_options {
  uint32_t struct_size; // sizeof(weft_model_options) of the caller
  int32_t threads;      // 1 to 1024; 0: WEFT_NUM_THREADS, or one for each processor
  // A safetensors file for weights and state that are not embedded, or NULL. What is embedded is
  // not read: a file is refused where all is, and where it has one of their names.
  const char *weights;
} weft_model_options;

typedef struct weft_model weft_model;

// All functions that can fail return 0 or an error; weft_model_error() then says what went wrong,
// in the calling thread. A NULL model has no inputs, outputs, entries or state, which is an error,
// too. options may be NULL. Fails when a processor lacks what the kernels need, or a weight is
// missing, of another shape, or given although it is embedded. The first call starts threads, which
// a child of fork() has not: runs that need them fail in a child of a process that opened a model.
int32_t weft_model_open(const weft_model_code *code, const weft_model_options *options,
                        weft_model **model);
// With all its entries. NULL is no model; an entry of another name than the first is left as it is.
void weft_model_close(weft_model *model);

// Another entry of the same model, as a model whose inputs, outputs and run are that entry's; all
// else is shared. It lives as long as the model, and is not closed. NULL where there is none of
// that name; weft_model_error() lists them. weft_model_open() gives the first one.
weft_model *weft_model_entry(weft_model *model, const char *name);
int32_t weft_model_entry_count(const weft_model *model);
// Their names, in order; NULL for an index that does not exist.
const char *weft_model_entry_name(const weft_model *model, int32_t index);

// Without what the model holds.
int32_t weft_model_input_count(const weft_model *model);
int32_t weft_model_output_count(const weft_model *model);
// Lives as long as the model; NULL for an index that does not exist.
const weft_tensor_info *weft_model_input(const weft_model *model, int32_t index);
const weft_tensor_info *weft_model_output(const weft_model *model, int32_t index);

// Reads inputs and writes outputs, which belong to the caller, and replaces what it writes of the
// state. Inputs may share memory; an output that overlaps an input or another output is refused.
// May be called from any thread, by one at a time for each model. A run that fails at an index that
// is out of range, or that is refused, leaves the state as it was. After any other failure the
// state is lost: all that needs it fails until weft_model_load_state(). Fails for an entry with
// sizes that vary.
int32_t weft_model_run(weft_model *model, const void *const *inputs, void *const *outputs);

// The same for inputs of these shapes, as many dims each as weft_model_input() says; dims[i] may be
// NULL where input i has one shape. A shape that the entry does not take is refused, with the name
// of the input and the range. The memory that a run works in is that of the largest size, taken
// when the model is opened; the first run at a size prepares its instructions, and those of the
// last sizes are kept. Since 4.1.
int32_t weft_model_run_sized(weft_model *model, const int64_t *const *dims,
                             const void *const *inputs, void *const *outputs);
// The shape that output `index` has for inputs of these shapes: fills output_dims, which has as
// many elements as weft_model_output() says. Since 4.1.
int32_t weft_model_output_dims(weft_model *model, const int64_t *const *dims, int32_t index,
                               int64_t *output_dims);

// What the model holds and some entry writes.
int32_t weft_model_state_count(const weft_model *model);
const weft_tensor_info *weft_model_state(const weft_model *model, int32_t index);
// Copies the value of the state `name`. bytes: as weft_tensor_info has it; others are refused.
int32_t weft_model_get_state(const weft_model *model, const char *name, void *data, uint64_t bytes);
int32_t weft_model_set_state(weft_model *model, const char *name, const void *data, uint64_t bytes);
// All of it, in a safetensors file, which is replaced in one step.
int32_t weft_model_save_state(const weft_model *model, const char *path);
// Takes all of it from such a file, or none: fails where a name is missing or has another shape or
// dtype. Other tensors in the file are not looked at.
int32_t weft_model_load_state(weft_model *model, const char *path);

// The last error of the calling thread; never NULL, and empty before the first one. The text is
// valid until the thread's next call of a function of this header, or its end.
const char *weft_model_error(void);

#ifdef __cplusplus
}
#endif
#endif // WEFT_AOT_MODEL_H

// NVIDIA's driver, opened at run time: what a build without it needs to know of it. The
// declarations are ours; their ABI is that of the driver API
// (docs.nvidia.com/cuda/cuda-driver-api), which keeps old versions of a function under their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::backends::cuda {

using DevicePointer = uint64_t; // CUdeviceptr
using Stream = struct CUstream_st *;
using Function = struct CUfunc_st *;
using Module = struct CUmod_st *;
using Context = struct CUctx_st *;
using Graph = struct CUgraph_st *;
using GraphExec = struct CUgraphExec_st *;

// CUgraphExecUpdateResultInfo.
struct GraphUpdate {
  int result;
  void *error_node, *error_from_node;
};

// CUDA_MEMCPY2D, of which memory of the GPU alone is used here.
struct CopyRows {
  static constexpr int kDevice = 2; // CU_MEMORYTYPE_DEVICE
  struct Side {
    size_t x = 0, y = 0;
    int type = kDevice;
    void *host = nullptr;
    DevicePointer device = 0;
    void *array = nullptr;
    size_t pitch = 0; // bytes from where one row begins to where the next one does
  };
  Side source, target;
  size_t width = 0, rows = 0; // bytes of a row; how many
};

// The functions that are used, and what they are called in the library.
#define WEFT_CUDA_DRIVER_FUNCTIONS(X)                                                              \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(get_error_string, "cuGetErrorString", (int error, const char **text))                          \
  X(device_get_count, "cuDeviceGetCount", (int *count))                                            \
  X(device_get, "cuDeviceGet", (int *device, int ordinal))                                         \
  X(device_get_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))         \
  X(primary_context_retain, "cuDevicePrimaryCtxRetain", (Context * context, int device))           \
  X(context_set_current, "cuCtxSetCurrent", (Context context))                                     \
  X(module_load, "cuModuleLoadDataEx",                                                             \
    (Module * module, const void *image, unsigned count, int *options, void **values))             \
  X(module_unload, "cuModuleUnload", (Module module))                                              \
  X(module_get_function, "cuModuleGetFunction",                                                    \
    (Function * function, Module module, const char *name))                                        \
  X(launch_kernel, "cuLaunchKernel",                                                               \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void **arguments,   \
     void **extra))                                                                                \
  X(memory_allocate, "cuMemAlloc_v2", (DevicePointer * pointer, size_t bytes))                     \
  X(memory_free, "cuMemFree_v2", (DevicePointer pointer))                                          \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                        \
    (DevicePointer target, const void *source, size_t bytes, Stream stream))                       \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2",                                                          \
    (void *target, DevicePointer source, size_t bytes, Stream stream))                             \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                        \
    (DevicePointer target, DevicePointer source, size_t bytes, Stream stream))                     \
  X(copy_rows, "cuMemcpy2DAsync_v2", (const CopyRows *rows, Stream stream))                        \
  X(fill_8, "cuMemsetD8Async",                                                                     \
    (DevicePointer target, unsigned char value, size_t count, Stream stream))                      \
  X(fill_16, "cuMemsetD16Async",                                                                   \
    (DevicePointer target, unsigned short value, size_t count, Stream stream))                     \
  X(fill_32, "cuMemsetD32Async",                                                                   \
    (DevicePointer target, unsigned value, size_t count, Stream stream))                           \
  X(fill_rows_32, "cuMemsetD2D32Async",                                                            \
    (DevicePointer target, size_t pitch, unsigned value, size_t width, size_t height,              \
     Stream stream))                                                                               \
  X(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                            \
  X(stream_synchronize, "cuStreamSynchronize", (Stream stream))                                    \
  X(stream_begin_capture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                    \
  X(stream_end_capture, "cuStreamEndCapture", (Stream stream, Graph * graph))                      \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                              \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                     \
  X(graph_exec_update, "cuGraphExecUpdate_v2",                                                     \
    (GraphExec exec, Graph graph, GraphUpdate * result))                                           \
  X(graph_launch, "cuGraphLaunch", (GraphExec exec, Stream stream))                                \
  X(graph_destroy, "cuGraphDestroy", (Graph graph))                                                \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec exec))

// All return 0 or an error's number.
struct Driver {
#define WEFT_DECLARE(member, symbol, arguments) int(*member) arguments = nullptr;
  WEFT_CUDA_DRIVER_FUNCTIONS(WEFT_DECLARE)
#undef WEFT_DECLARE

  // OK for 0; ResourceExhausted where memory is missing, Internal for the rest, with what was tried
  // and what the driver calls the error.
  absl::Status check(int error, std::string_view what) const;
};

// The driver in that library. NotFound says what was looked for and what to do.
absl::StatusOr<Driver> open_driver(const std::string &library = "libcuda.so.1");

} // namespace weft::backends::cuda

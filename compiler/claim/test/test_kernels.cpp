// A plugin of C kernels.
#include "runtime/abi/weft_custom.h"

extern "C" const char *weft_kernel_plugin(weft_register_kernel_function register_kernel) {
  weft_custom_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.version = WEFT_CUSTOM_ABI_VERSION;
  kernel.name = "test.twice";
  kernel.num_outputs = 1;
  kernel.infer = [](const weft_custom_call *call, weft_custom_shape *outputs) -> const char * {
    if (call->num_inputs != 1 || call->inputs[0].rank != 1 || call->inputs[0].dtype != WEFT_FLOAT32)
      return "takes a float32 vector";
    outputs[0].dtype = WEFT_FLOAT32;
    outputs[0].rank = 1;
    outputs[0].dims[0] = call->inputs[0].dims[0];
    return nullptr;
  };
  kernel.run = [](const weft_custom_call *call, int64_t, int64_t) -> const char * {
    for (int64_t i = 0; i < call->inputs[0].dims[0]; ++i)
      static_cast<float *>(call->outputs[0].data)[i] =
          2 * static_cast<const float *>(call->inputs[0].data)[i];
    return nullptr;
  };
  return register_kernel(&kernel);
}

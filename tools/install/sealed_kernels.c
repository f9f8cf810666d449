/* A plugin that a sealed Weft takes: plain C. */
#include "runtime/abi/weft_custom.h"

static const char *infer(const weft_custom_call *call, weft_custom_shape *outputs) {
  if (call->inputs[0].rank != 1)
    return "takes a vector";
  outputs[0].dtype = WEFT_FLOAT32;
  outputs[0].rank = 1;
  outputs[0].dims[0] = call->inputs[0].dims[0];
  return 0;
}

static const char *run(const weft_custom_call *call, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < call->inputs[0].dims[0]; ++i)
    ((float *)call->outputs[0].data)[i] = ((const float *)call->inputs[0].data)[i] + 1;
  return 0;
}

const char *weft_kernel_plugin(weft_register_kernel_function register_kernel) {
  const weft_custom_kernel kernel = {
      sizeof kernel, WEFT_CUSTOM_ABI_VERSION, "test.plus_one", 1, infer, run, 0, 0};
  return register_kernel(&kernel);
}

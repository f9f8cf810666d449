// A model as weft-compile would make it, for tests: by hand, with kernels in C++.
#pragma once

#include "runtime/aot/weft_model.h"

// x float32[4, 8], idx int64[2], weight w float32[8, 8] -> y float32[4, 8] = x w + 1, copy
// float32[4, 8] = x, picked float32[2, 8] = rows of x at idx. Uses oneDNN.
extern "C" const weft_model_code weft_model_sample;

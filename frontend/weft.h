// Everything that a program needs to compute with tensors. Modules, optimizers, data and files have headers of their own:
// weft/nn/nn.h, weft/optim/optim.h, weft/data/data.h, weft/io/io.h.
#pragma once

#include "weft/autograd.h"
#include "weft/config.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/eval.h"
#include "weft/explain.h"
#include "weft/jit.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/tensor.h"

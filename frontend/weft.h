// All of Weft's public headers.
#pragma once

#include "weft/autograd.h"
#include "weft/config.h"
#include "weft/data/data.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/eval.h"
#include "weft/explain.h"
#include "weft/images.h"
#include "weft/io/io.h"
#include "weft/jit.h"
#include "weft/losses.h"
#include "weft/nn/nn.h"
#include "weft/ops.h"
#include "weft/optim/optim.h"
#include "weft/random.h"
#include "weft/tensor.h"

// Modules and losses.
#pragma once

#include "weft/nn/activation.h"
#include "weft/nn/attention.h"
#include "weft/nn/batch_norm.h"
#include "weft/nn/conv2d.h"
#include "weft/nn/dropout.h"
#include "weft/nn/embedding.h"
#include "weft/nn/functional.h"
#include "weft/nn/group_norm.h"
#include "weft/nn/init.h"
#include "weft/nn/layer_norm.h"
#include "weft/nn/linear.h"
#include "weft/nn/module.h"
#include "weft/nn/pooling.h"
#include "weft/nn/recurrent.h"
#include "weft/nn/sequential.h"
#include "weft/nn/transformer.h"

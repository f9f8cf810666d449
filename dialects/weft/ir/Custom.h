// weft.custom: kernels of users.
#pragma once

#include "dialects/weft/ir/Weft.h"

#define GET_OP_CLASSES
#include "dialects/weft/ir/CustomOps.h.inc"

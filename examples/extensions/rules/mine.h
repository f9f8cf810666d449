// The classes that mlir-tblgen makes of mine.td (test.sh).
#pragma once

#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/lowerings/LowerToLinalg.h"
#include "dialects/weft/rules/Folding.h"

#include "mine_dialect.h.inc"
#define GET_OP_CLASSES
#include "mine_ops.h.inc"

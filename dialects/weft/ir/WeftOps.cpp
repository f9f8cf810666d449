// The generated definitions of all weft ops.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Folding.h"

#include "dialects/weft/ir/StandInTypes.h"

#define GET_OP_CLASSES
#include "dialects/weft/ir/WeftOps.cpp.inc"

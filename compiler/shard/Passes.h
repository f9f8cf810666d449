#pragma once

#include "mlir/Pass/Pass.h"

namespace weft::compiler {

#define GEN_PASS_DECL
#include "compiler/shard/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/shard/Passes.h.inc"

} // namespace weft::compiler

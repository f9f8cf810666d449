// What makes two fusions the same kernel.
#pragma once

#include <string>

#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

// Equal for fusions of one MLIRContext that compute the same: ops, attributes, types, and how
// values flow; not locations. Bytes, not text.
std::string structureOf(ir::FusionOp fusion);

// "_exp_reduce_sum_div": the names of a few of the ops in it, for people who read profiles and
// dumps.
std::string kernelNameSuffix(ir::FusionOp fusion);

} // namespace weft::compiler

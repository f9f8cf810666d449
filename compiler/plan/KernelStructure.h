// What makes two fusions the same kernel.
#pragma once

#include <string>

#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

// Equal for fusions of one MLIRContext that compute the same: ops, attributes, types, and how
// values flow; not locations. Bytes, not text.
std::string structureOf(ir::FusionOp fusion);

// The same in words that hold in other contexts and processes; slower.
std::string lastingStructureOf(ir::FusionOp fusion);

// "_exp_reduce_sum_div": the names of a few of the ops in it, for people who read profiles and
// dumps.
std::string kernelNameSuffix(ir::FusionOp fusion);

// A kernel that holds a copy of the fusion and of which codegen has said nothing yet. Its name
// begins with its number, which no other kernel of the module may have.
plan::KernelOp createKernel(mlir::OpBuilder &builder, ir::FusionOp fusion, size_t number);

} // namespace weft::compiler

// A plan.program as a planning problem, and the way back.
#pragma once

#include "compiler/plan/Problem.h"
#include "dialects/plan/ir/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

struct ExtractedProblem {
  PlanProblem problem;
  std::vector<mlir::Value> buffers;            // of each value
  std::vector<mlir::Operation *> instructions; // of each step
};

// Values are buffers that are not views; a view counts as the buffer that it is a view of. inPlace:
// whether the steps' pairs and checks are taken from the kernels of launches.
ExtractedProblem extractProblem(plan::ProgramOp program, bool inPlace);

// The first program of a module; null for none.
plan::ProgramOp findProgram(mlir::ModuleOp module);

} // namespace weft::compiler

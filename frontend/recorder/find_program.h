// The program of a slice, from the caches or by compiling. Private to this folder.
#pragma once

#include "frontend/recorder/program_cache.h"
#include "frontend/recorder/slice.h"

namespace weft::recorder {

// Claims the slice while it compiles without the lock, and gives it back: the caller must hold handles to its outputs. Fills outcome,
// difference, times. Throws when it does not compile.
std::shared_ptr<CompiledProgram> find_program(Slice &slice, const EvaluateRequest &request, Evaluation &data);

// What the report and the slice say of a run.
void describe_run(const Slice &slice, const CompiledProgram &program, const EvaluateRequest &request, Evaluation &data);

} // namespace weft::recorder

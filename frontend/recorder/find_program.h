// The program of a slice, from the caches or by compiling. Private to this folder.
#pragma once

#include <optional>

#include "frontend/recorder/compile_slice.h"
#include "frontend/recorder/program_cache.h"
#include "frontend/recorder/slice.h"
#include "frontend/recorder/structure.h"

namespace weft::recorder {

struct FoundProgram {
  std::shared_ptr<CompiledProgram> program;
  std::vector<int64_t> scalars; // what it takes after the slice's leaves: attributes and constants
                                // that vary, as bits
};

// A known symbolic program that these ints are within the guards of.
std::optional<FoundProgram> find_symbolic(const StructureKey &structure, uint64_t salt,
                                          Evaluation &data);
// What the next program may leave open; null, with the reason where there is one, if it is to be
// static.
std::shared_ptr<SymbolicRequest> symbolic_request(const Slice &slice, const StructureKey &structure,
                                                  uint64_t salt, Evaluation &data);
// Into the caches, if it is to be kept, after its compilation succeeded.
FoundProgram insert_symbolic(const Slice &slice, const StructureKey &structure,
                             const ProgramContext &context, const SymbolicRequest &request,
                             std::shared_ptr<CompiledProgram> program,
                             std::shared_ptr<CompiledProgram> sized, bool keep, Evaluation &data);
// The slice's ints, for what the next one may leave open. refused: the request that came to
// nothing, and why.
void observe(const StructureKey &structure, uint64_t salt, const SymbolicRequest *refused = nullptr,
             const std::string &why = "");

// Claims the slice while it compiles without the lock, and gives it back: the caller must hold
// handles to its outputs. Fills outcome, difference, times. Throws when it does not compile. The
// program is static: a jit function holds one for each signature.
std::shared_ptr<CompiledProgram> find_program(Slice &slice, const EvaluateRequest &request,
                                              Evaluation &data);

// What the report and the slice say of a run.
void describe_run(const Slice &slice, const CompiledProgram &program,
                  const EvaluateRequest &request, Evaluation &data);

} // namespace weft::recorder

// The program of a slice, from the caches or by compiling.
#pragma once

#include <optional>

#include "frontend/compile/compile_slice.h"
#include "frontend/recorder/programs/program_cache.h"
#include "frontend/recorder/programs/structure.h"
#include "frontend/recorder/slices/slice.h"

namespace weft::runtime {
class Executor;
}

namespace weft::recorder {

// Lines that a program's failures have, and those of what is computed now.
using MovedPlaces = std::vector<std::pair<std::string, std::string>>;

// What a run is a run of (invocation.h).
struct FoundProgram {
  std::shared_ptr<CompiledProgram> program = nullptr;
  // What it takes after the slice's leaves: sizes, starts and constants that vary, as bits.
  std::vector<int64_t> scalars = {};
  MovedPlaces moved_places = {}; // of the slice that it was compiled of, and of this one
  bool checks = false;           // whether one of its ops may end the run (Slice::checks)
  uint8_t device = 0;            // that its results are on
  // Whose work it is, of an exchange (exchange.h); null: its device's.
  std::shared_ptr<runtime::Executor> executor = nullptr;
  // What explain tells of the request, of the slice, of the program and of how it was found.
  Evaluation figures = {};
};

// Whether there is a known symbolic program that these ints are within the guards of. enough: as
// ProgramCache::find() says, of any family.
bool find_symbolic(const StructureKey &structure, FoundProgram &found, bool &enough);
// What the next program may leave open; nothing, with the reason where there is one, if it is to be
// static.
std::optional<SymbolicRequest> symbolic_request(const StructureKey &structure, Evaluation &data);
// Into the caches, if it is to be kept, after its compilation succeeded; it is what was found.
void insert_symbolic(const StructureKey &structure, const ProgramContext &context,
                     const SymbolicRequest &request, const CompileOutcome &outcome, bool keep,
                     FoundProgram &found);
// The slice's ints, for what the next one may leave open. refused: the request that came to
// nothing, and why.
void observe(const StructureKey &structure, const std::optional<SymbolicRequest> &refused = {},
             const absl::Status &why = absl::OkStatus());

// The program of a claimed slice, compiled without the lock where it is not known. Throws kCompile
// when it does not compile.
FoundProgram find_program(Slice &slice, const EvaluateRequest &request);
// CompiledProgram::check_places of a program for the slice alone.
std::vector<std::string> check_places(const Slice &slice);
// What compiling gave, into the statistics, and into figures.
void count(const CompileOutcome &outcome);
void account(const CompileOutcome &outcome, Evaluation &figures);
// What a report says of a program: kernels, library calls, prepared values.
void describe_program(const CompiledProgram &program, Evaluation &figures);
// kMemory where memory ran out, else `otherwise`.
ErrorKind kind_of(const absl::Status &status, ErrorKind otherwise);
// Whether somebody compiles this program, or one that differs in ints only and may serve this slice
// as well.
bool being_compiled(Slice &slice);

} // namespace weft::recorder

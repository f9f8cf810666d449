// From a slice's bytecode to an executable: from the disk cache, or by the backend. Holds no lock.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/backend/Backend.h"
#include "frontend/compile/compiled_program.h"
#include "frontend/compile/generalize.h"
#include "weft/config.h"
#include "weft/explain.h"

namespace weft::recorder {

// Ints that the program leaves open.
struct SymbolicRequest {
  Generalization general;
  std::vector<IntPosition> positions;
  Ints sizes; // of the slice
  // Positions of sizes that vary among the known programs and are fixed in this one.
  std::vector<uint32_t> fixed = {};
  std::string content; // as CompileRequest::content, of the structure
};

struct CompileRequest {
  std::string bytecode;
  std::string content; // what the disk cache's key is made of, next to the backend's own: the same
                       // in every process
  Config config;
  std::optional<SymbolicRequest> symbolic = {}; // nothing: all ints are as they were recorded
  std::vector<std::string> check_places = {}; // CompiledProgram's
};

struct CompileOutcome {
  std::shared_ptr<CompiledProgram> program;
  std::shared_ptr<CompiledProgram> sized; // of a program with sizes: it, at those of the slice
  CacheOutcome from = CacheOutcome::kCompiled;
  std::string disk_cache; // "off: REASON", or empty
  bool corrupt = false;   // a damaged entry was found and replaced
  double milliseconds = 0;
};

// Unimplemented where a symbolic program cannot be made, with the reason; ResourceExhausted where
// the host's memory runs out.
absl::StatusOr<CompileOutcome> compile_slice(const CompileRequest &request);

// The program at these sizes, by name or in the order of the generalization's.
absl::StatusOr<std::shared_ptr<CompiledProgram>> at_sizes(const CompiledProgram &program,
                                                          const runtime::Sizes &sizes);
absl::StatusOr<std::shared_ptr<CompiledProgram>>
at_sizes(const CompiledProgram &program, const Generalization &general, const Ints &sizes);

compiler::CompileOptions compile_options(const Config &config);
// Whether a program that takes more than its limit keeps values in files.
inline bool may_use_files(const Config &config) {
  return config.memory_limit > 0 && !config.memory_folder.empty();
}

} // namespace weft::recorder

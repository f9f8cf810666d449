// What one run of a program holds. Private to this folder.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/executable/program_executable.h"

namespace weft::runtime {

// The bases that operands are relative to: these three, then one for each input, output and
// prepared value.
inline constexpr int32_t kArenaBase = 0;
inline constexpr int32_t kConstantBase = 1;
inline constexpr int32_t kStateBase = 2;
inline constexpr int32_t kFirstInputBase = 3;

// The packed operand of a library call.
struct Packed {
  int32_t call;    // into the library states
  int32_t operand; // into the operands of the program
  std::shared_ptr<Buffer> block;
  // Where it may have to be computed; null for a result that other runs have computed:
  std::shared_ptr<Prepared> result;
  const char *plain = nullptr;         // what it is packed from
  std::shared_ptr<Buffer> plain_block; // keeps it, where it was itself prepared
};

// One block: the arena, then scratch. Launches and library calls follow each other, so they share
// the scratch.
struct ProgramExecutable::Resources : RunResources {
  ~Resources() override;
  std::shared_ptr<Buffer> block;
  char *scratch = nullptr;
  int64_t scratch_stride = 0;
  LibraryStates *libraries = nullptr;
  ProgramExecutable *lender = nullptr; // whose they are again when this goes; null: they are shared
  absl::InlinedVector<char *, 12> bases;
  absl::InlinedVector<void *, 12> pointers;

  // The results of Program::prepare; computed when the run starts, if they are not yet.
  std::shared_ptr<Prepared> values;
  std::shared_ptr<Buffer> values_block;
  std::unique_ptr<RunResources> values_resources; // to compute them with
  std::vector<Buffer *> values_inputs;
  std::vector<std::shared_ptr<Buffer>> values_constants; // parts of the constants among them
  std::vector<Packed> packed;
  std::vector<bool> is_packed; // by library call; empty for none
};

} // namespace weft::runtime

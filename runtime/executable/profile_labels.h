// What a profile says of a program's instructions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/executable/library_call.h"
#include "runtime/executable/program.h"

namespace weft::runtime {

// Numbers of labels (profile/profile.h).
struct ProfileLabels {
  uint32_t program = 0;
  std::vector<uint32_t> instructions;
};

// entries: those of the library calls, in order; null where one says nothing of its operations.
ProfileLabels make_profile_labels(const Program &program,
                                  std::span<const LibraryEntry *const> entries);

} // namespace weft::runtime

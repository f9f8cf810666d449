// What a profile says of a program's instructions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/executable/program.h"

namespace weft::runtime {

// Numbers of labels (profile/profile.h).
struct ProfileLabels {
  uint32_t program = 0;
  std::vector<uint32_t> instructions;
};

// operations: of the library calls, in order (LibraryEntry::operations).
ProfileLabels make_profile_labels(const Program &program, std::span<const double> operations);

} // namespace weft::runtime

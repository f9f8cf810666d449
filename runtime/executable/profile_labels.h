// What a profile says of a program's instructions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/executable/program.h"

namespace weft::runtime {

// Numbers of labels (profile/profile.h).
struct ProfileLabels {
  uint32_t program = 0;
  std::vector<uint32_t> instructions;
};

// Of the library calls, in order. operations: LibraryEntry::operations; detours:
// LibraryCallState::detour, or none where they are not known.
ProfileLabels make_profile_labels(const Program &program, std::span<const double> operations,
                                  std::span<const std::string> detours = {});

} // namespace weft::runtime

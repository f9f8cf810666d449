// The memory that a caller gives: outputs are written while inputs are read, so that an output that
// overlaps an input or another output would be a wrong result. Inputs may share memory.
#pragma once

#include <vector>

#include "absl/status/status.h"

namespace weft::runtime {

struct GivenMemory {
  const char *begin;
  int64_t bytes;
  bool is_output;
  size_t index; // among the inputs, or the outputs
};

// InvalidArgument with both where an output overlaps something.
absl::Status check_apart(std::vector<GivenMemory> given);

} // namespace weft::runtime

// Whether a failed run left its kept inputs as they were. Kept inputs are written after the last
// check that can end a run (compiler/plan); a run that ends at a check has written none, and the
// caller may take them back.
#pragma once

#include "absl/status/status.h"

namespace weft::runtime {

// The failure of a run that has written no kept input.
absl::Status with_kept_inputs(absl::Status failure);
bool has_kept_inputs(const absl::Status &failure);

} // namespace weft::runtime

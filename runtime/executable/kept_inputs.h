// What a failed run says of the inputs that its program keeps: those that are written only after
// every check that can end a run (compiler/plan). Whoever gave them may take them back.
#pragma once

#include "absl/status/status.h"

namespace weft::runtime {

// The failure of a run that has written no kept input.
absl::Status with_kept_inputs(absl::Status failure);
bool has_kept_inputs(const absl::Status &failure);

} // namespace weft::runtime

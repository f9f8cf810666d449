// Whether this machine can run code that was compiled for another one.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace weft::runtime {

// `target` as programs state it: "triple|cpu|+feature,-feature". FailedPrecondition names the
// feature that the processor lacks. A CPU that is only named ("znver4|") is not checked, but for
// the levels x86-64-v2 to v4; "" runs anywhere.
absl::Status check_cpu(std::string_view target);

} // namespace weft::runtime

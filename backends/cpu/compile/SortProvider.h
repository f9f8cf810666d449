// Sorts that the runtime's own entry runs (backends/cpu/device/sort_entry.h).
#pragma once

#include "compiler/claim/Provider.h"

namespace weft::backends::cpu {

std::unique_ptr<compiler::Provider> makeSortProvider();

} // namespace weft::backends::cpu

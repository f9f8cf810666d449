// Factorizations and triangular systems that the runtime's own entries compute
// (backends/cpu/device/factor_entry.h).
#pragma once

#include "compiler/claim/Provider.h"

namespace weft::backends::cpu {

// One an entry.
void addFactorProviders(compiler::ProviderSet &set);

} // namespace weft::backends::cpu

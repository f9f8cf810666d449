// Says why sorts are no calls on this device.
#pragma once

#include "compiler/claim/Provider.h"

namespace weft::backends::cuda {

// Claims nothing: each weft.arg_sort is refused by name, and decomposed to kernels that count.
std::unique_ptr<compiler::Provider> makeSortProvider();

} // namespace weft::backends::cuda

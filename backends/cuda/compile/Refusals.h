// Says why sorts and factorizations are no calls on this device.
#pragma once

#include "compiler/claim/Provider.h"

namespace weft::backends::cuda {

// Claims nothing: weft.arg_sort, weft.cholesky, weft.lu and weft.solve_triangular are refused by
// name, and decomposed.
std::unique_ptr<compiler::Provider> makeRefusals();

} // namespace weft::backends::cuda

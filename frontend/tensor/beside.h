// What calls make like a tensor that they are given. Private to the library.
#pragma once

#include "weft/tensor.h"

namespace weft::recorder {

// What was made in x's shape and dtype, on its device, cut as x is.
Tensor cut_as(const Tensor &made, const Tensor &x);

} // namespace weft::recorder

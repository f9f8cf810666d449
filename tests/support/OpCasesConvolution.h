// Private to OpCases: calls of convolutions, pooling and batch normalization.
#pragma once

#include "tests/support/OpCases.h"

namespace weft::tests {

void addConvolutionCases(std::vector<OpCase> &cases);

} // namespace weft::tests

// Private to OpCases: calls of factorizations and triangular systems.
#pragma once

#include "tests/support/OpCases.h"

namespace weft::tests {

void addLinearAlgebraCases(std::vector<OpCase> &cases);

} // namespace weft::tests

// Comparing tensors of results: bit for bit, in units in the last place, or within a bound.
#pragma once

#include <string>

#include "dialects/weft/reference/HostTensor.h"

namespace weft::tests {

// Empty where the tensors are equal in dtype, shape and every bit (a NaN equals any NaN), else what
// differs first.
std::string compareExact(const ir::HostTensor &actual, const ir::HostTensor &expected);

// Empty where each element lies within `ulps` units in the last place of the expected one's dtype,
// or within `bound` of it (a bound for all elements, or one for each; a size of 0 stands for no
// bound). NaNs must meet NaNs; infinities must be equal. Integers and bools must be equal.
std::string compareWithin(const ir::HostTensor &actual, const ir::HostTensor &expected, double ulps,
                          const std::vector<double> &bound = {});

} // namespace weft::tests

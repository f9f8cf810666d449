// Kernels of fusions beside all that must give the same, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::compiler {

// Builds the kernel of the fusion that `body` is (parseFusion in FusionText.h tells the forms of
// the three texts) and runs it on samples: against reference evaluation, which works in f64, within
// `error`, absolute and relative; against its ops as kernels of their own, over one and several
// ranges of pieces, with another schedule, and in place where the kernel allows it, bit for bit.
// `special`: elements of the first input, by number.
void checkFusion(const std::string &signature, const std::string &body, const std::string &results,
                 double error = 2e-5, const std::vector<std::pair<int64_t, double>> &special = {});

} // namespace weft::compiler

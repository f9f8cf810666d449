// Convolutions that the library computes, with the ReLU behind them.
//
// The library's own ReLU costs nothing, but turns a NaN into 0. To do so it takes a maximum of it,
// which raises a flag of the processor (invalid_flag.h). So the library's is taken, and where a
// thread that worked on the call has the flag afterwards, the convolution is computed anew without
// it, and the ReLU is a pass over the result: NaN stays wherever it is, at no cost where there is
// none.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/cpu/device/convolution_problem.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// For kForward and kInputGradient with a plain weight.
absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
library_convolution(const ConvolutionProblem &problem, int threads);

// For kForward with packed_weight. Null where the library has no packed form, or its bits would
// depend on the number of threads.
absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
packed_library_convolution(const ConvolutionProblem &problem, int threads);

} // namespace weft::backends::cpu

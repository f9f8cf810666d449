// The weight's gradient of a convolution in parts: oneDNN adds up what its threads computed, so
// that its bits would depend on their number. The batch is cut into parts whose number follows from
// the shapes alone, one thread computes each, and they are added in order.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
weight_gradient_in_parts(const ConvolutionProblem &problem, int threads);

} // namespace weft::backends::cpu

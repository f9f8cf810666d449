// Convolutions and their input gradients in parts, one thread each, where oneDNN's implementation
// is made of products of matrices ("gemm"): with a whole team, that gives an element other bits for
// another number of threads (matmul_parts.h). The parts depend on the shapes alone: images, and of
// few images in a forward convolution without groups also channels of the result (row-major) or its
// rows (channels last).
#pragma once

#include "absl/status/statusor.h"
#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// For kForward and kInputGradient with a plain weight. Operands as OnednnConvolution::run has them.
absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
convolution_in_parts(const ConvolutionProblem &problem, int threads);

} // namespace weft::backends::cpu

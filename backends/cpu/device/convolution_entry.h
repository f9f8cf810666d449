// The library entry "onednn.convolution": weft.conv2d and its gradients, f32.
//
// Operands, row-major: see OnednnConvolution::run. Config:
//
//   kind                        "forward", "input_gradient" or "weight_gradient"
//   strides, padding, dilation  [int], for height and width
//   groups                      int, optional: 1
//   bias                        1: a bias of O elements follows the weight (forward only)
//   post_ops                    "relu" (forward only); drops NaNs (oneDNN 2.6.3), so for fast_math only
//
// Weights, and images where the kernel has more than one tap, are reordered inside the call into the layouts that oneDNN wants on this
// machine; the memory for that is the call's scratch. A 1x1 kernel reads each element too seldom to pay for a reorder of the images.
//
// oneDNN's weight gradient adds up what its threads computed, so that its bits would depend on their number. This entry cuts the batch into
// parts whose number depends on the shapes alone, has each computed by one thread, and adds them in order.
#pragma once

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

const runtime::LibraryEntry &convolution_entry();

// How many operands a call reorders, and the implementation that oneDNN takes: "3 reorders, jit:avx512_core". For tests and reports.
absl::StatusOr<std::string> convolution_implementation(const runtime::LibraryCall &call, int threads);

} // namespace weft::backends::cpu

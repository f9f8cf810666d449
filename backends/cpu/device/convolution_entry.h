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
// Weights, and images where the kernel has more than one tap, are reordered inside the call; the memory for that is the call's scratch.
// Images go into blocks of channels (16 with AVX-512, else 8): from row-major memory that is a copy of whole cache lines, and oneDNN's
// kernels for it are as fast as those for channels last, into which the copy takes 5 to 10 times as long (oneDNN 2.6.3, AVX-512). A 1x1
// kernel reads each element too seldom to pay for a reorder of the images. A weight that stays the same is reordered once
// (convolution_packing.h).
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

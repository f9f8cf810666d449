// The library entry "onednn.convolution": weft.conv2d and its gradients, f32.
//
// Operands, dense: see OnednnConvolution::run. Config:
//
//   kind                        "forward", "input_gradient" or "weight_gradient"
//   strides, padding, dilation  [int], for height and width
//   groups                      int, optional: 1
//   channels_last               1: images are [N, H, W, C], optional (weights are [O, C, H, W]
//                               always)
//   row_major_image             1, with channels_last: the image is [N, C, H, W], of what
//                               few_channels_pixels_computes(), optional
//   bias                        1: a bias of O elements follows the weight (forward only)
//   post_ops                    forward only: "relu" or "relu6", which keep NaN: free, but for
//                               images in which the library meets one (library_convolution.h)
//   winograd                    "stable" or "changing": 3x3 convolutions may be computed by
//                               Winograd's algorithm (winograd_convolution.h, and for weights'
//                               gradients winograd_gradient.h), with a weight that is one or the
//                               other (forward; gradients take "stable" as "changing"); optional
//
// Weights, and row-major images where the kernel has more than one tap, are reordered inside the
// call; the memory for that is the call's scratch. Row-major images go into blocks of channels (16
// with AVX-512, else 8): that is a copy of whole cache lines, while one to channels last takes 5 to
// 10 times as long. Images with channels last are used as they are (the figures:
// onednn_v2_convolution.cpp). To kernels of ours go row-major images of depthwise convolutions, of
// 1x1 ones and of those of few channels, also where the result has its channels last, and, with
// AVX-512, depthwise convolutions and 1x1 ones of images with channels last that the library is
// slower at (depthwise_blocks.h, pointwise_rows.h, few_channels_rows.h, few_channels_pixels.h,
// depthwise_pixels.h, pointwise_pixels.h). A weight that stays the same is reordered once
// (convolution_packing.h).
//
// A call's bits do not depend on the number of threads. Where the library's do, the call runs in
// parts whose number depends on the shapes alone, one thread each: weights' gradients
// (weight_gradient_parts.h), and what the library does by products of matrices
// (convolution_parts.h).
#pragma once

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

const runtime::LibraryEntry &convolution_entry();

// Whether a ReLU behind the convolution is free. The problem and the machine decide.
bool convolution_takes_relu(const ConvolutionProblem &problem);

// How many operands a call reorders, and the implementation that oneDNN takes: "3 reorders,
// jit:avx512_core". For tests and reports.
absl::StatusOr<std::string> convolution_implementation(const runtime::LibraryCall &call,
                                                       int threads);

} // namespace weft::backends::cpu

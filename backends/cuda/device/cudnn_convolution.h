// The library entry "cudnn.convolution": convolutions of images and their gradients, row-major and
// contiguous, in float32, or of bfloat16 or float16 with sums in float32.
//
// Config: kind: "forward" (operands image, weight; result), "input_gradient" (gradient, weight;
// image's gradient) or "weight_gradient" (image, gradient; weight's gradient); strides, padding and
// dilation: a number for each of the two or three dims behind N and C; groups; optional
// transforms 1: Winograd's algorithm and Fourier transforms are allowed.
#pragma once

#include <memory>

#include "backends/cuda/device/cuda_device.h"
#include "backends/cuda/device/cudnn.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cuda {

// Workspace that an engine may ask for: what small convolutions want at most, or so many times what
// the operands take. Engines that want images with channels last copy all of them in it; those that
// transform them want tens of times as much, which is not theirs to take from other programs.
inline constexpr int64_t kLeastConvolutionWorkspace = 32 << 20;
inline constexpr int64_t kConvolutionWorkspaceOperands = 2;
// Engines of weight gradients in float32 that transform what they read and do not say so in their
// notes: 17 of cuDNN 9.14 on an H200, whose sums of whole numbers have fractions.
inline constexpr int64_t kUntoldWeightGradients[] = {17};

std::unique_ptr<runtime::LibraryEntry> make_convolution_entry(std::shared_ptr<CudaDevice> device,
                                                              const Cudnn &library);

// How the entry computes that call: "engine 12 with 0 bytes of workspace".
absl::StatusOr<std::string> convolution_implementation(const std::shared_ptr<CudaDevice> &device,
                                                       const Cudnn &library,
                                                       const runtime::LibraryCall &call);

} // namespace weft::backends::cuda

// The library entry "cudnn.convolution": convolutions of images and their gradients, row-major and
// contiguous, in float32, or of bfloat16 or float16 with sums in float32.
//
// Config: kind: "forward" (operands image, weight; result), "input_gradient" (gradient, weight;
// image's gradient) or "weight_gradient" (image, gradient; weight's gradient); strides, padding and
// dilation: a number for each of the two or three dims behind N and C; groups; optional
// transforms 1: Winograd's algorithm and Fourier transforms are allowed; optional bias 1, of
// "forward": a third operand, of the result's dtype, has a number for each channel of the result,
// with whatever dims of size 1, which is a term of the channel's sums.
//
// cuDNN adds the bias as it writes the result: convolution and addition are one graph. Where no
// engine takes that, the result is filled with the bias first, and the convolution is added to it:
// the same terms, rounded once as well, by some copies more. The call says so by its detour,
// "bias-ahead".
#pragma once

#include <memory>
#include <string_view>

#include "backends/cuda/device/cuda_device.h"
#include "backends/cuda/device/cudnn.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cuda {

// Workspace that an engine may ask for: what small convolutions want at most, or so many times what
// the operands take. Engines that want images with channels last copy all of them in it; those that
// transform them want tens of times as much, which is not theirs to take from other programs.
inline constexpr int64_t kLeastConvolutionWorkspace = 32 << 20;
inline constexpr int64_t kConvolutionWorkspaceOperands = 2;
// Engines whose notes do not tell what they do, as cuDNN 9.14 on an H200 showed it.
struct UntoldEngine {
  std::string_view kind;
  DType dtype;
  int64_t number;
  bool transforms; // what fast math allows; all else it does not
  const char *what;
};
inline constexpr UntoldEngine kUntoldEngines[] = {
    // Sums of whole numbers had fractions.
    {"weight_gradient", DType::kFloat32, 17, true, "transforms, which its notes do not tell"},
    // Sums of some hundred numbers were off by three of float16's steps.
    {"input_gradient", DType::kFloat16, 2, false, "sums in float16, which its notes do not tell"},
};

std::unique_ptr<runtime::LibraryEntry> make_convolution_entry(std::shared_ptr<CudaDevice> device,
                                                              const Cudnn &library);

// How the entry computes that call: "engine 12 with 0 bytes of workspace".
absl::StatusOr<std::string> convolution_implementation(const std::shared_ptr<CudaDevice> &device,
                                                       const Cudnn &library,
                                                       const runtime::LibraryCall &call);

} // namespace weft::backends::cuda

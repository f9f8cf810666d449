// What a convolution's entry computes, in numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "backends/cpu/device/relu.h"
#include "runtime/core/dtype.h"

namespace weft::backends::cpu {

enum class ConvolutionKind { kForward, kInputGradient, kWeightGradient };

// Whether a convolution may be computed by Winograd's algorithm, and what that may expect: a weight
// that stays the same for many calls, or one that is given new values between them.
enum class Winograd { kNever, kWeightStays, kWeightChanges };
// Of a forward convolution whose call says "stable" or "changing".
inline Winograd winograd_of(std::string_view weight) {
  return weight == "stable" ? Winograd::kWeightStays : Winograd::kWeightChanges;
}

// No dim is 0; row-major, or images with channels last. result[n, o] = relu(bias[o] + sum
// of image and weight), as weft.conv2d has it; the gradients as weft.conv2d_input_gradient and
// weft.conv2d_weight_gradient.
struct ConvolutionProblem {
  ConvolutionKind kind = ConvolutionKind::kForward;
  std::array<int64_t, 4> image;  // [N, C, H, W]
  std::array<int64_t, 4> weight; // [O, C / groups, KH, KW]
  std::array<int64_t, 4> result; // [N, O, OH, OW]
  std::array<int64_t, 2> strides = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  // Of both factors, and of what is computed: float32, or of bfloat16 factors either; of a weight's
  // gradient, which is added up in parts, and of the bias float32.
  DType dtype = DType::kFloat32, computed = DType::kFloat32;
  bool channels_last = false; // image and result are [N, H, W, C] in memory
  bool bias = false;          // kForward only
  Relu relu = {};             // kForward only
  // kForward and kWeightGradient: the weight, or its gradient, is in the layout that the library or
  // a kernel of ours wants (weight_bytes(), packed_bytes() of it), and not reordered in the call.
  bool packed_weight = false;
  Winograd winograd = Winograd::kNever;
  bool row_major_image = false; // with channels_last: only the result has them last
};

} // namespace weft::backends::cpu

// Depthwise convolutions that kernels of ours have functions for, by taps in a row and stride.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/device/convolution_problem.h"

namespace weft::backends::cpu {

// Forward, float32, a filter for each channel, 3, 5 or 7 taps in a row, strides of 1 or 2, the same
// in both dims, no dilation, more taps than padding.
inline bool has_depthwise_taps(const ConvolutionProblem &p) {
  int64_t taps = p.weight[3];
  return p.kind == ConvolutionKind::kForward && p.dtype == DType::kFloat32 &&
         p.groups == p.image[1] && p.groups == p.weight[0] &&
         (taps == 3 || taps == 5 || taps == 7) && p.dilation == std::array<int64_t, 2>{1, 1} &&
         p.strides[0] == p.strides[1] && p.strides[0] <= 2 && p.padding[0] < p.weight[2] &&
         p.padding[1] < taps;
}

// make<taps, stride>() for those of such a one.
template <typename Make> auto of_depthwise_taps(const ConvolutionProblem &p, const Make &make) {
  auto of_stride = [&]<int kTaps>() {
    return p.strides[0] == 1 ? make.template operator()<kTaps, 1>()
                             : make.template operator()<kTaps, 2>();
  };
  return p.weight[3] == 3   ? of_stride.template operator()<3>()
         : p.weight[3] == 5 ? of_stride.template operator()<5>()
                            : of_stride.template operator()<7>();
}

} // namespace weft::backends::cpu

// Convolutions on the host, as recording_cudnn.cpp computes them: sum by sum, in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::backends::cuda::recording {

struct HostTensor {
  int64_t id = 0; // as the caller names it
  int type = 0;   // cudnnDataType_t: float32 0, float16 2, bfloat16 9
  std::vector<int64_t> dims, strides;
  bool is_virtual = false; // lies nowhere
};
// From its first to its last element.
size_t bytes_of(const HostTensor &tensor);

struct HostConvolution {
  enum Kind { kForward, kInputGradient, kWeightGradient } kind = kForward;
  bool flips = false; // the weight: a convolution, and no cross-correlation
  bool adds = false;  // to what is there
  HostTensor image, weight, result;
  std::optional<HostTensor> bias; // a number for each channel of the result
  std::vector<int64_t> strides, dilation, padding_before, padding_behind;
};

// What does not fit, or nothing.
std::string why_no_convolution(const HostConvolution &convolution);
// "forward 2x3x5x4 by 2x3x3x3".
std::string name_of(const HostConvolution &convolution);
// Computes one of the three of the other two, and of the bias where there is one.
void convolve(const HostConvolution &convolution, unsigned char *image, unsigned char *weight,
              unsigned char *result, unsigned char *bias);

} // namespace weft::backends::cuda::recording

// What oneDNN's convolutions claim.
#pragma once

#include <memory>

#include "backends/cpu/device/convolution_problem.h"
#include "compiler/claim/Provider.h"

namespace weft::backends::cpu {

// Claims f32 convolutions of some size and their gradients, with a bias over the channels. Makes
// calls of the entry that backends/cpu/device/convolution_entry.h describes. Refuses pooling, with
// the reason. bf16: whether the machine that the program is for multiplies bf16 numbers by
// instructions for it; then conversions of bf16 numbers in front of both factors and behind are
// taken in. The others say what the entry has: a ReLU for nothing (convolution_takes_relu()), a
// kernel that reads a row-major image where the result has its channels last
// (few_channels_pixels_computes()).
using ConvolutionTest = bool (*)(const ConvolutionProblem &problem);
std::unique_ptr<compiler::Provider> makeConvolutionProvider(bool bf16, ConvolutionTest takesRelu,
                                                            ConvolutionTest takesRowMajorImage);

} // namespace weft::backends::cpu

// 3x3 convolutions of stride 1 by Winograd's algorithm (winograd_tiles.h): the transforms are ours,
// the products of matrices the library's.
//
// Against a sum of products the results differ by rounding errors that are relative to the largest
// pixel of a tile and the largest weight: kWinogradError bounds them. Infinities and NaNs are where
// such a sum has them.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "backends/cpu/device/onednn_convolution.h"
#include "backends/cpu/device/winograd_tiles.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// A result is off by at most so much times the square root of the number of its terms, the largest
// pixel of its tile and the largest weight of its filter. Of pixels and weights that are uniform in
// [-1, 1], at worst of a million results: 2e-6 for m = 2, 8e-6 for m = 4.
inline constexpr double kWinogradError = 2e-5;

// Whether Winograd's algorithm computes the convolution, or its gradients, and may be taken.
bool winograd_computes(const ConvolutionProblem &problem);

// What is computed for the problem; the image and the result of a weight's gradient are those of
// the convolution.
WinogradShape winograd_shape(const ConvolutionProblem &problem);

// How long an element of a tile of this size takes to be transformed, in times of one
// multiplication of a convolution without transforms.
struct WinogradTileCost {
  int64_t tile;
  double transform;
};
// The tile of the least time, 0 where none is worthwhile. of_pair: the time of a pair of channel
// and filter at each place of a tile of that size, of which there are so many.
int64_t winograd_cheapest_tile(const WinogradShape &shape, std::span<const WinogradTileCost> costs,
                               const std::function<double(int64_t, double)> &of_pair);

// The size m of the tiles by which the convolution, or its input's gradient, is computed; 0 where a
// sum of products is as fast, or it is none that Winograd's algorithm computes. The problem alone
// decides, not the machine nor whether the weight is packed, so that its bits stay.
int64_t winograd_tile(const ConvolutionProblem &problem);

// Operands as OnednnConvolution::run has them. With `packed_weight` the weight is in the form that
// pack() gives: transformed, and beside that its taps.
absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
winograd_convolution(const ConvolutionProblem &problem, int64_t tile, int threads);

} // namespace weft::backends::cpu

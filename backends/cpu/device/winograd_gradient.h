// The weight's gradient of 3x3 convolutions of stride 1 by Winograd's algorithm
// (winograd_gradient_tiles.h).
//
// Against a sum of products an element differs by rounding errors that are relative to the largest
// pixel and the largest element of the result's gradient: kWinogradError (winograd_convolution.h)
// times the square root of the number of its terms, which are all pixels of the batch, bounds them.
// Of numbers uniform in [-1, 1], at worst of two million elements: 2e-6 times that root for m = 2,
// 6e-6 for m = 4; a sum of products has up to 6e-6 where the library adds up long sums in order.
// Where all terms are of one sign, errors grow as the sums do, here as there. A gradient with an
// infinity or a NaN is computed anew as sums of products, all of it, and has these where such sums
// have them.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// The size m of the tiles by which the weight's gradient is computed; 0 where sums of products are
// as fast, or it is none that Winograd's algorithm computes. The problem alone decides.
int64_t winograd_gradient_tile(const ConvolutionProblem &problem);

// direct: computes the same as sums of products. It is what is returned where the library has no
// fast products of these matrices. Operands as OnednnConvolution::run has them.
absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
winograd_weight_gradient(const ConvolutionProblem &problem, int64_t tile, int threads,
                         std::unique_ptr<runtime::LibraryCallState> direct);

} // namespace weft::backends::cpu

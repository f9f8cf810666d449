// Products by product_tiles.h in place of the library's.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_matmul.h"

namespace weft::backends::cpu {

// What implementation() says of them.
inline constexpr std::string_view kTiledMatmul = "tiles";

// Whether this machine computes products by tiles at all.
bool has_tiled_matmul();

// Whether it computes this one by tiles: float32 matrices without a batch, a row-major c, a and b
// row-major or transposed, rows enough to earn back the copy of b into panels, and columns that of
// a transposed a. Shapes, strides and machine alone decide, so that bits stay, and post-ops do not,
// so that a term gives the bits of a sum after the product.
bool computes_by_tiles(const MatmulProblem &problem);

// Of such a one. Plain b's are packed in the call, for memory of its scratch.
std::unique_ptr<OnednnMatmul> tiled_matmul(const MatmulProblem &problem, int threads, bool packed);

} // namespace weft::backends::cpu

// When a matrix that stays the same is packed for oneDNN's matmul.
//
// What packing gains (oneDNN 2.6.3, one thread of an AVX-512 machine, f32; time of a call with
// plain weights / with packed ones; [N, K] is how a linear layer keeps its weight, read
// transposed):
//
//   rows                         1     4     8    16    32    64   128   512
//   1024 x 4096, [K, N]       2.39  1.68  1.50  1.42  1.25  1.14
//   1024 x 4096, [N, K]       1.65  1.71  1.53  1.41  1.22  1.09
//   512 x 128,   [N, K]       4.38  3.56  2.36  1.70  1.34  1.18  1.10  1.07
//   256 x 256,   [K, N]       1.00  1.01  1.46  1.13  1.09  1.04  1.04  1.03
//   256 x 256,   [N, K]       4.31  3.92  2.30  1.64  1.34  1.15  1.09  1.06
//   128 x 10,    [N, K]       1.39  1.47  1.37  1.26  1.19  1.12 1.04 1.03 (the packed form takes
//                                                           6.4 times the bytes)
//
// Packing 1024 x 4096 takes 3.1 ms: as much as it saves in 3 to 8 calls. Plain weights are packed
// by each call for itself, which is what costs; the sums are the same, and so are the bits. On AVX2
// (gemm:jit) the library packs nothing; a transposed copy would gain up to 3 times for 2 to 8 rows,
// but gives other bits for 1 row, so that it is not made: there products of more rows are packed
// for a kernel of ours (tiled_matmul.h).
#pragma once

#include <cstdint>

namespace weft::backends::cpu {

// Rows of the product beyond which packing gains less than a tenth.
inline constexpr int64_t kMaxPackedRows = 64;
// Below it a call gains less than a microsecond.
inline constexpr int64_t kMinPackedBytes = 32 << 10;
// Narrow matrices are padded to whole blocks; more than twice their bytes is no longer a copy.
inline constexpr int64_t kMaxPackedGrowth = 2;

// Products with one right side in a program that earn the copy back, which each run makes. Figures
// (us, 2 threads; 16 rows; the copy / a product with the plain matrix / with the packed one):
//
//   [N, K] read transposed: 128 x 512    15 / 14.7 / 9.8    256 x 1024 57 / 55.0 / 33.4 so 3
//                                                           products
//   [K, N]:                 512 x 128    11 /  9.6 / 8.8    1024 x 256 45 / 33.8 / 31.7 so 14 to 21
inline constexpr int64_t kMinPackedTransposedProducts = 4, kMinPackedProducts = 24;
// The form of a [K, N] matrix has whole blocks of 16 x 64, or of 16 x N for an N of 16, 32 or 48.
inline bool packing_keeps_size(int64_t k, int64_t n) {
  return k % 16 == 0 && (n < 64 ? n % 16 == 0 : n % 64 == 0);
}

// The same where the product is computed by tiles (tiled_matmul.h): copying an element into panels
// takes 0.25 ns, its product with a row 0.02 ns.
inline constexpr int64_t kMaxTiledRows = 256;

inline bool packing_into_tiles_pays(int64_t rows, int64_t bytes) {
  return rows <= kMaxTiledRows && bytes >= kMinPackedBytes;
}

inline bool packing_pays(int64_t rows, int64_t bytes) {
  return rows <= kMaxPackedRows && bytes >= kMinPackedBytes;
}

} // namespace weft::backends::cpu

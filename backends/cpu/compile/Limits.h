// Limits and heuristics of what the CPU's libraries and whole kernels take, with their reasons.
#pragma once

#include <cstdint>

namespace weft::backends::cpu {

//===-- Products ------------------------------------------------------------------------------===//

// Multiplications of a product below which our own kernel is as fast: a call of oneDNN takes about
// half a microsecond whatever it computes (16^3: 0.49 us), and a program without library calls runs
// on its caller's thread.
inline constexpr int64_t kMinMatmulMultiplications = 16 * 16 * 16;

// Rows of a piece of a product, so that an element's sum does not change: without AVX-512 oneDNN
// adds up otherwise at the edge of a tile (SomeRowsHaveTheBitsOfAll, matmul_entry_test.cpp).
inline constexpr int64_t kRowsOfPieces = 64;
// And of many terms and few columns, whatever the rows.
inline constexpr int64_t kManyTerms = 1024, kFewColumns = 128;

// Elements of a product up to which a term is added by the call. A kernel for the sum reads both
// again, from the cache; what it costs beyond that, a launch, is more than that up to here (5 us of
// 15 for 16 x 512). Kernels that read larger sums take the term in as they go.
inline constexpr int64_t kMaxTermElements = 16 * 1024;
// Slices and reshapes between such a term and what has memory, through which it is looked for: a
// bound on the search, for each product anew.
inline constexpr int kMaxAliases = 4;

//===-- Convolutions --------------------------------------------------------------------------===//

// Multiplications of a convolution below which our own kernels are as fast: a call takes some
// microseconds for its reorders, whatever it computes.
inline constexpr int64_t kMinConvolutionMultiplications = 32 * 1024;

//===-- Attention -----------------------------------------------------------------------------===//

// Queries below which products and a softmax are faster: lanes of the kernel are queries, and most
// would have none. (12 matrices, 1024 keys, 64 features, two threads of Zen 4, ms: products 0.15
// for 1 query, 0.43 for 4, 0.62 for 15; the kernel 0.63 for 16.)
inline constexpr int64_t kLeastQueries = 16;
// Features beyond which the blocks that the kernel keeps (64 queries, some three of them) leave the
// caches near a core. (12 x 512 x 512 scores: with 256 features the kernel takes 0.75 times as long
// as products with 257, its derivative as long.)
inline constexpr int64_t kMostFeatures = 256;

} // namespace weft::backends::cpu

// Products of float32 matrices by a kernel of ours: c = a b + bias, tile by tile, with b in panels
// of 16 columns. For machines with AVX2 alone, where oneDNN 2.6.3 has no packed form and its one
// kernel (gemm:jit) loses much for some strides of b. GFLOP/s of one thread of Zen 3, b packed:
//
//   rows x terms x columns    oneDNN, b [K, N]    b [N, K] read transposed    this kernel
//   196 x 384 x 1536                       30                          74             95
//   49 x 768 x 3072                        30                          68             72
//   64 x 768 x 3072                        28                          77             90
//   3136 x 96 x 384                        88                          88             95
//   784 x 192 x 768                        93                          92             97
//   128 x 768 x 768                        88                          89             96
//   3072 x 512 x 768, a transposed         44                                         92
//
// A transposed a, as in a weight's gradient, is copied in parts that the L2 cache holds, so that a
// tile reads a term of its rows in a row of memory.
//
// Each element is the sum of parts of kPartTerms terms each, each part added up one by one by fused
// multiply-adds from 0, the parts in order, the bias last: neither threads nor tiles nor packing
// show in its bits, nor whether the bias is added here or by whoever reads the product.
#pragma once

#include <cstdint>

namespace weft::backends::cpu {

// Columns of a panel. Panels follow each other; each has all terms, [K][kPanelColumns], and zeros
// for columns that there are not.
inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kPartTerms = 256;
// So many panels of a row-major b are copied side by side, in 0.6 of the time of one by one.
inline constexpr int64_t kPackedTogether = 8;

struct TiledProduct {
  int64_t rows, terms, columns;
  int64_t a_row, c_row; // elements from a row to the next; a row of c is contiguous
  int64_t a_term = 1;   // elements of a from a term to the next; this or a_row is 1

  int64_t panels() const {
    return (columns + kPanelColumns - 1) / kPanelColumns;
  }
  int64_t packed_elements() const {
    return panels() * terms * kPanelColumns;
  }
};

// Whether this machine's processor multiplies by this kernel faster than by the library.
bool prefers_product_tiles();

// Panels [first, last) of b, element (k, n) of which lies at b[k * term_stride + n *
// column_stride]; one of the strides is 1.
void pack_panels(const TiledProduct &product, const float *b, int64_t term_stride,
                 int64_t column_stride, int64_t first, int64_t last, float *panels);

// Rows [first_row, last_row) of the columns of panels [first, last). bias: one element a column, or
// null. room: where a_term is not 1, for min(terms, kPartTerms) elements of each of these rows.
void multiply_tiles(const TiledProduct &product, const float *a, const float *panels,
                    const float *bias, float *c, int64_t first_row, int64_t last_row, int64_t first,
                    int64_t last, float *room = nullptr);

} // namespace weft::backends::cpu

// Products whose bits are the same for any number of threads, of primitives for which that does not
// hold.
//
// oneDNN 2.6.3, by BitsDoNotDependOnTheNumberOfThreads (matmul_entry_test.cpp): "brg" gives each
// element one order, but for an a that is read transposed and has kSharedTerms terms or more, which
// it shares among threads where there are few columns. "gemm:jit", which is all that there is
// without AVX-512, shares terms too, and adds up an element differently at the edge of a thread's
// tile.
//
//   SumOrder    what is done
//   kFixed      one primitive for the whole team
//   kByTerms    the whole team computes pieces of less than kSharedTerms terms, one after the
//               other, each added to those before
//   kByTeam     parts of a batch dim, of the rows or of the columns, whose number depends on the
//               shapes alone, each on one thread
#pragma once

#include "backends/cpu/device/onednn_matmul.h"

namespace weft::backends::cpu {

// As OnednnMatmul::create, for a team of at most so many threads; by a kernel of ours where that is
// faster (tiled_matmul.h). A packed form (packed_bytes() > 0) there is for kFixed only.
absl::StatusOr<std::unique_ptr<OnednnMatmul>> create_matmul(const MatmulProblem &problem,
                                                            int threads, bool packed = false);

} // namespace weft::backends::cpu

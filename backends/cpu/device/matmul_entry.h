// The library entry "onednn.matmul": out = post_ops(lhs rhs + bias), f32; lhs and rhs may both be
// bf16, and with them out, which is rounded once.
//
// Operands: lhs, rhs, bias (where config says so), the second operand of each binary post-op, out;
// as they lie in memory, with any strides. Config, all optional:
//
//   transpose_lhs, transpose_rhs  1: the last two dims are swapped when read (after the
//                                 permutation)
//   lhs_permutation, rhs_permutation  [int]: a = transpose(lhs, lhs_permutation), as weft.transpose
//                                     has it: a.dims[i] = lhs.dims[p[i]]
//   out_permutation               [int]: out = transpose(c, out_permutation), where c = a b has the
//                                 dims [batch..., M, N]
//   bias                          1: there is a bias; it broadcasts to c as in numpy, most often
//                                 [N]
//   packed_rhs                    1: rhs is what "onednn.pack" made for this call (pack_entry.h)
//   dense_lhs                     1: lhs, a matrix whose rows lie in memory with gaps, is copied
//                                 without them first. Where it is read transposed, oneDNN adds up
//                                 terms in other portions for a matrix with gaps (by
//                                 SomeRowsHaveTheBitsOfAll in matmul_entry_test.cpp)
//   post_ops                      "add,relu": in order, of add sub mul max min (each takes one
//                                 operand, which broadcasts to c) and relu
//
// Batch dims broadcast as in numpy. A sum of no terms (K = 0) is 0. post_ops relu, max and min drop
// NaNs (oneDNN 2.6.3), so they are for fast_math only. oneDNN itself adds a bias or operand of the
// shapes [N], scalar and c's own; others cost a pass over the result. Whether a problem runs on a
// fast
// implementation is said by matmul_implementation() below.
//
// What strides cost (oneDNN 2.6.3, one thread; us of the best of many runs; the machine was loaded
// by builds, so differences below 5% mean nothing; [16,4,128,32] is batch, heads, time, head dim;
// "split" means [16,128,4,32] in memory, seen through strides):
//
//   case                                                   AVX-512 (brg)  AVX2 (gemm:jit)
//   q k^T, all contiguous, k transposed beforehand                   462      869
//   q k^T, k read transposed                                         466      903
//   q k^T, q split                                                   432      881
//   q k^T, q and k split                                             465      903
//   q k^T, q and k slices of one [16,128,3,4,32] 629 923 (gemm:jit on both)
//   p v, all contiguous                                              448      874
//   p v, v split                                                     522      853
//   p v, v and out split                                             504      860
//   p v, out split                                                   469      874
//   p^T do, p read transposed                                        621      920
//   p^T do, p read transposed, do and out split                      688      912
//   [2048,128] x [128,512]: contiguous                              1617     3367
//     a transposed / b transposed / both                  1668 / 1624 / 1699   3409 / 3327 / 3332
//   [2048,512] x [512,128]: contiguous                              1583        -
//     a transposed / b transposed / both                  1884 / 1637 / 1937    -
//   [2048,8] x [8,128]: contiguous                                  43.5     54.3
//     a transposed / b transposed / both                  45.7 / 44.2 / 47.9   63.7 / 58.5 / 67.9
//   [16,128,128] x [1,128,512] / the same as [2048,128] x [128,512]  1654 / 1604   3425 / 3426
//   out transposed (M is the contiguous dim), or a stride of 0       ref:any: 10,000 times slower
//
// So: fold every transpose of an operand whose last or last but one dim (after folding) is
// contiguous; a copy of a [16,4,128,32] costs more than the worst of these losses. This entry takes
// care of the last row (it computes c^T = b^T a^T, and turns strides of 0 into dims of 1), of batch
// dims that merge, and of a batch that is only more rows.
#pragma once

#include <memory>
#include <string>

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

const runtime::LibraryEntry &matmul_entry();

// The implementation that oneDNN takes for the call, "none" when there is nothing to compute. For
// the claim pass and for tests: a call on "ref:any" should not be made.
absl::StatusOr<std::string> matmul_implementation(const runtime::LibraryCall &call, int threads);

// The call with its rhs packed into at most the bytes of the plain one; null where the library has
// no such form, or one that would change the result: both "onednn.pack" and the products that read
// what it makes use the plain operand then.
absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
matmul_with_packed_rhs(const runtime::LibraryCall &call, int threads);

} // namespace weft::backends::cpu

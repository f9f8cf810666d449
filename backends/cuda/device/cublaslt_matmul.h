// The library entry "cublaslt.matmul": out = lhs rhs + bias, row-major and contiguous, of factors
// of one floating-point dtype. The result has that dtype, or float32 where the factors have 16
// bits; sums, the bias among their terms, are float32 then, and rounded once.
//
// Operands: lhs [batch..., M, K], rhs [batch..., K, N] or [K, N], the bias where config says so,
// out [batch..., M, N]. Config, optional: transpose_lhs, transpose_rhs 1: the last two dims lie
// swapped in memory; bias 1: N numbers of the result's dtype, with whatever dims of size 1, are
// added to each row; post_ops "relu": negative numbers and NaN become 0. Sums of no terms (K = 0)
// are refused.
//
// The library adds the bias as it writes the result. Where it has no algorithm that does, or the
// bias lies where it could not be read in vectors, the result is filled with the bias first, and
// the product is added to it: the same numbers, by a few copies more.
#pragma once

#include <memory>

#include "backends/cuda/device/cublaslt.h"
#include "backends/cuda/device/cuda_device.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cuda {

// Workspace that an algorithm may ask for: what NVIDIA recommends for Hopper.
inline constexpr int64_t kMostWorkspaceBytes = 32 << 20;
// What a bias that the library adds is aligned to, at least: kernels read it in vectors, and what
// they want is not documented (Marian's found 16 bytes to do on an A100, 8 not to).
inline constexpr uint32_t kBiasAlignment = 16;

std::unique_ptr<runtime::LibraryEntry> make_matmul_entry(std::shared_ptr<CudaDevice> device,
                                                         const CublasLt &library);

} // namespace weft::backends::cuda

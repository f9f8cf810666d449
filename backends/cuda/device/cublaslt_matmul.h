// The library entry "cublaslt.matmul": out = lhs rhs, row-major and contiguous, of factors of one
// floating-point dtype. The result has that dtype, or float32 where the factors have 16 bits; their
// sums are float32 then.
//
// Operands: lhs [batch..., M, K], rhs [batch..., K, N] or [K, N], out [batch..., M, N]. Config,
// optional: transpose_lhs, transpose_rhs 1: the last two dims lie swapped in memory. Sums of no
// terms (K = 0) are refused.
#pragma once

#include <memory>

#include "backends/cuda/device/cublaslt.h"
#include "backends/cuda/device/cuda_device.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cuda {

// Workspace that an algorithm may ask for: what NVIDIA recommends for Hopper.
inline constexpr int64_t kMostWorkspaceBytes = 32 << 20;

std::unique_ptr<runtime::LibraryEntry> make_matmul_entry(std::shared_ptr<CudaDevice> device,
                                                         const CublasLt &library);

} // namespace weft::backends::cuda

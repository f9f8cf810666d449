// cuBLASLt, opened at run time. The declarations are ours; their ABI is that of cublasLt.h, which
// has not changed from CUDA 11 to 13.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/device/driver.h"

namespace weft::backends::cuda {

// Of cublasLt.h, cublas_api.h and library_types.h.
// cublasComputeType_t: f32 throughout (no TF32), also of factors in 16 bits; f64.
inline constexpr int kCublasCompute32F = 68, kCublasCompute64F = 70;
inline constexpr int kCudaR32F = 0, kCudaR64F = 1, kCudaR16F = 2, kCudaR16BF = 14; // cudaDataType_t
inline constexpr int32_t kCublasOpN = 0, kCublasOpT = 1;
inline constexpr int kDescTransposeA = 3, kDescTransposeB = 4, kDescEpilogue = 7,
                     kDescBiasPointer = 8; // cublasLtMatmulDescAttributes_t
// cublasLtEpilogue_t; both together are their sum.
inline constexpr uint32_t kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4;
inline constexpr int kLayoutBatchCount = 5,
                     kLayoutBatchStride = 6;      // cublasLtMatrixLayoutAttribute_t
// cublasLtMatmulPreferenceAttributes_t; what A, B, C and D are aligned to follow one another.
inline constexpr int kPreferenceMaxWorkspace = 1, kPreferenceReductions = 3,
                     kPreferenceAlignmentA = 5;
inline constexpr int kCublasNoMemory = 3, kCublasNotSupported = 15; // cublasStatus_t
// cublasLtReductionScheme_t: partial results are kept in what is computed in, not in the result.
inline constexpr uint32_t kReductionInComputeType = 2;

// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t.
struct CublasAlgorithm {
  uint64_t data[8];
};
struct CublasHeuristic {
  CublasAlgorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

using CublasHandle = struct cublasLtContext *;
using CublasDesc = struct cublasLtMatmulDescOpaque *;
using CublasLayout = struct cublasLtMatrixLayoutOpaque *;
using CublasPreference = struct cublasLtMatmulPreferenceOpaque *;

#define WEFT_CUBLASLT_FUNCTIONS(X)                                                                 \
  X(create, "cublasLtCreate", (CublasHandle * handle))                                             \
  X(desc_create, "cublasLtMatmulDescCreate", (CublasDesc * desc, int compute, int scale))          \
  X(desc_set, "cublasLtMatmulDescSetAttribute",                                                    \
    (CublasDesc desc, int attribute, const void *value, size_t bytes))                             \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (CublasDesc desc))                                  \
  X(layout_create, "cublasLtMatrixLayoutCreate",                                                   \
    (CublasLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t distance))          \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute",                                                \
    (CublasLayout layout, int attribute, const void *value, size_t bytes))                         \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (CublasLayout layout))                          \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (CublasPreference * preference))          \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                        \
    (CublasPreference preference, int attribute, const void *value, size_t bytes))                 \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (CublasPreference preference))          \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                   \
    (CublasHandle handle, CublasDesc desc, CublasLayout a, CublasLayout b, CublasLayout c,         \
     CublasLayout d, CublasPreference preference, int requested, CublasHeuristic *results,         \
     int *returned))                                                                               \
  X(matmul, "cublasLtMatmul",                                                                      \
    (CublasHandle handle, CublasDesc desc, const void *alpha, const void *a,                       \
     CublasLayout a_layout, const void *b, CublasLayout b_layout, const void *beta, const void *c, \
     CublasLayout c_layout, void *d, CublasLayout d_layout, const CublasAlgorithm *algorithm,      \
     void *workspace, size_t workspace_bytes, Stream stream))

// All return 0 or an error's number.
struct CublasLt {
#define WEFT_DECLARE(member, symbol, arguments) int(*member) arguments = nullptr;
  WEFT_CUBLASLT_FUNCTIONS(WEFT_DECLARE)
#undef WEFT_DECLARE
  // OK for 0; ResourceExhausted where memory is missing, Unimplemented for what it does not do,
  // Internal for the rest.
  absl::Status check(int error, std::string_view what) const;
};

// The library of that name; empty: the first that is installed of those for CUDA 13, 12 and 11.
// NotFound says what was looked for.
absl::StatusOr<CublasLt> open_cublaslt(const std::string &library = "");

} // namespace weft::backends::cuda

// cuDNN 9, opened at run time: its graph API, in which all is a descriptor with attributes. The
// declarations are ours; their ABI is that of cudnn_graph.h, which cuDNN keeps within a major
// version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/device/driver.h"

namespace weft::backends::cuda {

// The numbers below are of cudnn_graph_v9.h, under whose names they stand.

// cudnnBackendDescriptorType_t: CUDNN_BACKEND_..._DESCRIPTOR
enum class CudnnKind : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};

// cudnnBackendAttributeName_t: CUDNN_ATTR_...
enum class CudnnAttribute : int {
  kPointwiseMode = 0,
  kPointwiseMathPrec = 1,
  kConvolutionCompType = 100,
  kConvolutionConvMode = 101,
  kConvolutionDilations = 102,
  kConvolutionFilterStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatialDims = 106,
  kEngineHeurMode = 200,
  kEngineHeurOperationGraph = 201,
  kEngineHeurResults = 202,
  kEngineConfigEngine = 300,
  kExecutionPlanHandle = 400,
  kExecutionPlanEngineConfig = 401,
  kExecutionPlanWorkspaceSize = 402,
  kForwardAlpha = 700, // OPERATION_CONVOLUTION_FORWARD_...
  kForwardBeta = 701,
  kForwardConvDesc = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataAlpha = 706, // OPERATION_CONVOLUTION_BWD_DATA_...
  kBackwardDataBeta = 707,
  kBackwardDataConvDesc = 708,
  kBackwardDataW = 709,
  kBackwardDataDx = 710,
  kBackwardDataDy = 711,
  kBackwardFilterAlpha = 712, // OPERATION_CONVOLUTION_BWD_FILTER_...
  kBackwardFilterBeta = 713,
  kBackwardFilterConvDesc = 714,
  kBackwardFilterDw = 715,
  kBackwardFilterX = 716,
  kBackwardFilterDy = 717,
  kPointwiseOperationDesc = 750, // OPERATION_POINTWISE_...
  kPointwiseOperationX = 751,
  kPointwiseOperationB = 752,
  kPointwiseOperationY = 753,
  kOperationGraphHandle = 800,
  kOperationGraphOps = 801,
  kTensorByteAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorUniqueId = 906,
  kTensorIsVirtual = 907,
  kVariantPackUniqueIds = 1000,
  kVariantPackDataPointers = 1001,
  kVariantPackWorkspace = 1003,
  kEngineGlobalIndex = 1301,
  kEngineNumericalNote = 1303,
};

// cudnnBackendAttributeType_t: CUDNN_TYPE_...
enum class CudnnType : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kVoidPointer = 6,
  kConvolutionMode = 7,
  kHeuristicsMode = 8,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
};

// cudnnDataType_t: CUDNN_DATA_...
enum class CudnnData : int { kFloat = 0, kHalf = 2, kBfloat16 = 9 };

// cudnnConvolutionMode_t: the weight is not flipped.
inline constexpr int kCudnnCrossCorrelation = 1;

// cudnnPointwiseMode_t: y = x + b.
inline constexpr int kCudnnAdd = 0;

// cudnnBackendHeurMode_t: by what is known of the engines; those that take nearly everything.
enum class CudnnHeuristics : int { kFallback = 2, kA = 3 };

// cudnnBackendNumericalNote_t: how an engine's numbers come about.
enum class CudnnNote : int {
  kTensorCore = 0,
  kDownConvertInputs = 1,
  kReducedPrecisionReduction = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kWinogradTile4x4 = 6,
  kWinogradTile6x6 = 7,
  kWinogradTile13x13 = 8,
};
// CUDNN_NUMERICAL_NOTE_TYPE_COUNT of the oldest cuDNN 9: what it may be asked for.
inline constexpr int64_t kCudnnNoteCount = 9;

using CudnnHandle = struct cudnnContext *;
using CudnnPointer = void *; // cudnnBackendDescriptor_t

#define WEFT_CUDNN_FUNCTIONS(X)                                                                    \
  X(size_t, get_version, "cudnnGetVersion", ())                                                    \
  X(const char *, get_error_string, "cudnnGetErrorString", (int status))                           \
  X(void, get_last_error, "cudnnGetLastErrorString", (char *message, size_t most))                 \
  X(int, create, "cudnnCreate", (CudnnHandle * handle))                                            \
  X(int, set_stream, "cudnnSetStream", (CudnnHandle handle, Stream stream))                        \
  X(int, create_descriptor, "cudnnBackendCreateDescriptor",                                        \
    (CudnnKind kind, CudnnPointer * descriptor))                                                   \
  X(int, destroy_descriptor, "cudnnBackendDestroyDescriptor", (CudnnPointer descriptor))           \
  X(int, finalize, "cudnnBackendFinalize", (CudnnPointer descriptor))                              \
  X(int, set_attribute, "cudnnBackendSetAttribute",                                                \
    (CudnnPointer descriptor, CudnnAttribute attribute, CudnnType type, int64_t count,             \
     const void *values))                                                                          \
  X(int, get_attribute, "cudnnBackendGetAttribute",                                                \
    (CudnnPointer descriptor, CudnnAttribute attribute, CudnnType type, int64_t most,              \
     int64_t *count, void *values))                                                                \
  X(int, execute, "cudnnBackendExecute",                                                           \
    (CudnnHandle handle, CudnnPointer plan, CudnnPointer variant_pack))

// Those that give an int give 0 or an error's number.
struct Cudnn {
#define WEFT_DECLARE(type, member, symbol, arguments) type(*member) arguments = nullptr;
  WEFT_CUDNN_FUNCTIONS(WEFT_DECLARE)
#undef WEFT_DECLARE
  // OK for 0; Unimplemented for what this cuDNN or this GPU does not do, ResourceExhausted where
  // memory is missing, NotFound where a part of cuDNN is, Internal for the rest.
  absl::Status check(int status, std::string_view what) const;
  // "9.14.0"
  std::string version() const;
};

// The library of that name; empty: cuDNN 9. NotFound says what was looked for.
absl::StatusOr<Cudnn> open_cudnn(const std::string &library = "");

} // namespace weft::backends::cuda

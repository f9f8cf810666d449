#include "backends/cuda/device/cudnn_convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/device/cudnn_plan.h"
#include "runtime/core/status.h"

namespace weft::backends::cuda {
namespace {

using runtime::LibraryCall;
using runtime::TensorRef;
using Attribute = CudnnAttribute;

// The tensors' names for cuDNN.
constexpr int64_t kImage = 1, kWeight = 2, kResult = 3;

// An operation of cuDNN's, and which of a call's operands is which tensor of the convolution.
struct Kind {
  std::string_view name; // as config says it
  CudnnKind operation;
  Attribute alpha, beta, convolution, image, weight, result;
  std::array<int64_t, 3> operands;
};
constexpr Kind kKinds[] = {
    {"forward",
     CudnnKind::kConvolutionForward,
     Attribute::kForwardAlpha,
     Attribute::kForwardBeta,
     Attribute::kForwardConvDesc,
     Attribute::kForwardX,
     Attribute::kForwardW,
     Attribute::kForwardY,
     {kImage, kWeight, kResult}},
    {"input_gradient",
     CudnnKind::kConvolutionBackwardData,
     Attribute::kBackwardDataAlpha,
     Attribute::kBackwardDataBeta,
     Attribute::kBackwardDataConvDesc,
     Attribute::kBackwardDataDx,
     Attribute::kBackwardDataW,
     Attribute::kBackwardDataDy,
     {kResult, kWeight, kImage}},
    {"weight_gradient",
     CudnnKind::kConvolutionBackwardFilter,
     Attribute::kBackwardFilterAlpha,
     Attribute::kBackwardFilterBeta,
     Attribute::kBackwardFilterConvDesc,
     Attribute::kBackwardFilterX,
     Attribute::kBackwardFilterDw,
     Attribute::kBackwardFilterDy,
     {kImage, kResult, kWeight}},
};

struct Problem {
  const Kind *kind = nullptr;
  std::vector<int64_t> image, weight, result;         // dims
  int64_t image_at = 0, weight_at = 0, result_at = 0; // where they are aligned to
  std::vector<int64_t> strides, padding, dilation;
  int64_t groups = 1, bytes = 0; // of all operands
  DType dtype = DType::kFloat32;
  bool transforms = false;
};

std::string show(const LibraryCall &call) {
  return absl::StrJoin(call.operands, ", ", [](std::string *to, const TensorRef &tensor) {
    absl::StrAppend(to, name(tensor.dtype), "[", absl::StrJoin(tensor.dims, ", "), "]");
  });
}

absl::Status read_config(const LibraryCall &call, Problem &problem) {
  WEFT_ASSIGN_OR_RETURN(std::string kind, runtime::config_string(call.config, "kind", ""));
  for (const Kind &each : kKinds)
    if (each.name == kind)
      problem.kind = &each;
  if (problem.kind == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(
        "config kind is '", kind, "'; it must be forward, input_gradient or weight_gradient"));
  for (auto [key, to] :
       {std::pair("strides", &problem.strides), std::pair("padding", &problem.padding),
        std::pair("dilation", &problem.dilation)}) {
    WEFT_ASSIGN_OR_RETURN(*to, runtime::config_ints(call.config, key));
  }
  WEFT_ASSIGN_OR_RETURN(int64_t groups, runtime::config_int(call.config, "groups", 1));
  WEFT_ASSIGN_OR_RETURN(int64_t transforms, runtime::config_int(call.config, "transforms", 0));
  problem.groups = groups;
  problem.transforms = transforms != 0;
  return absl::OkStatus();
}

bool fits(const Problem &p) {
  size_t rank = p.image.size();
  if ((rank != 4 && rank != 5) || p.weight.size() != rank || p.result.size() != rank)
    return false;
  for (const auto *values : {&p.strides, &p.padding, &p.dilation})
    if (values->size() != rank - 2)
      return false;
  if (p.groups < 1 || p.image[0] != p.result[0] || p.weight[0] != p.result[1] ||
      p.weight[0] % p.groups != 0 || p.weight[1] * p.groups != p.image[1])
    return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (p.strides[i] < 1 || p.padding[i] < 0 || p.dilation[i] < 1)
      return false;
    int64_t room = p.image[2 + i] + 2 * p.padding[i] - p.dilation[i] * (p.weight[2 + i] - 1) - 1;
    if (room < 0 || room / p.strides[i] + 1 != p.result[2 + i])
      return false;
  }
  return true;
}

// What an operand's address is a multiple of, as far as cuDNN wants to know. Buffers are aligned to
// more.
int64_t alignment(int64_t offset) {
  constexpr int64_t kMost = 16;
  return offset % kMost == 0 ? kMost : offset & -offset;
}

absl::StatusOr<Problem> read(const LibraryCall &call) {
  Problem problem;
  WEFT_RETURN_IF_ERROR(read_config(call, problem));
  if (call.operands.size() != 3 || call.inputs != 2)
    return absl::InvalidArgumentError("takes two tensors and gives the third");
  auto refuse = [&](const char *why) {
    return absl::InvalidArgumentError(absl::StrCat(why, ": ", show(call)));
  };
  problem.dtype = call.operands[0].dtype;
  if (problem.dtype != DType::kFloat32 && problem.dtype != DType::kBFloat16 &&
      problem.dtype != DType::kFloat16)
    return refuse("takes float32, bfloat16 or float16");
  for (size_t i = 0; i < 3; ++i) {
    const TensorRef &operand = call.operands[i];
    if (operand.dtype != problem.dtype)
      return refuse("takes operands of one dtype");
    int64_t stride = 1;
    for (size_t d = operand.dims.size(); d-- > 0; stride *= operand.dims[d])
      if (operand.dims[d] != 1 && operand.strides[d] != stride)
        return refuse("takes contiguous operands");
    if (stride == 0)
      return refuse("there is nothing to multiply");
    problem.bytes += stride * byte_size(operand.dtype);
    int64_t id = problem.kind->operands[i];
    (id == kImage    ? problem.image
     : id == kWeight ? problem.weight
                     : problem.result) = operand.dims;
    (id == kImage    ? problem.image_at
     : id == kWeight ? problem.weight_at
                     : problem.result_at) = alignment(operand.offset);
  }
  if (!fits(problem))
    return refuse("the operands' dims are not those of a convolution");
  return problem;
}

CudnnData data_of(DType dtype) {
  return dtype == DType::kBFloat16  ? CudnnData::kBfloat16
         : dtype == DType::kFloat16 ? CudnnData::kHalf
                                    : CudnnData::kFloat;
}

absl::StatusOr<CudnnDescriptor> describe_tensor(const Cudnn &library, DType dtype, int64_t id,
                                                const std::vector<int64_t> &dims,
                                                int64_t alignment) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  CudnnDescriptor tensor(library, CudnnKind::kTensor, "describing a tensor");
  tensor.set(Attribute::kTensorDataType, data_of(dtype));
  tensor.set(Attribute::kTensorDimensions, dims);
  tensor.set(Attribute::kTensorStrides, strides);
  tensor.set(Attribute::kTensorUniqueId, id);
  tensor.set(Attribute::kTensorByteAlignment, alignment);
  WEFT_RETURN_IF_ERROR(tensor.finalize());
  return tensor;
}

// cuDNN finds the number of groups by the channels of image and weight.
absl::StatusOr<std::unique_ptr<CudnnPlan>> choose(CudnnStream &stream, const Problem &problem) {
  const Cudnn &library = stream.library;
  const Kind &kind = *problem.kind;
  CudnnDescriptor convolution(library, CudnnKind::kConvolution, "describing a convolution");
  convolution.set(Attribute::kConvolutionCompType, CudnnData::kFloat);
  convolution.set(Attribute::kConvolutionConvMode, CudnnType::kConvolutionMode, 1,
                  &kCudnnCrossCorrelation);
  convolution.set(Attribute::kConvolutionSpatialDims, std::ssize(problem.strides));
  convolution.set(Attribute::kConvolutionPrePaddings, problem.padding);
  convolution.set(Attribute::kConvolutionPostPaddings, problem.padding);
  convolution.set(Attribute::kConvolutionFilterStrides, problem.strides);
  convolution.set(Attribute::kConvolutionDilations, problem.dilation);
  WEFT_RETURN_IF_ERROR(convolution.finalize());
  std::vector<CudnnDescriptor> tensors; // which outlive the operation
  CudnnDescriptor operation(library, kind.operation, "describing an operation");
  for (auto [attribute, id, dims, at] :
       {std::tuple(kind.image, kImage, &problem.image, problem.image_at),
        std::tuple(kind.weight, kWeight, &problem.weight, problem.weight_at),
        std::tuple(kind.result, kResult, &problem.result, problem.result_at)}) {
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor tensor,
                          describe_tensor(library, problem.dtype, id, *dims, at));
    operation.set(attribute, tensors.emplace_back(std::move(tensor)));
  }
  operation.set(kind.convolution, convolution);
  operation.set(kind.alpha, 1.0f);
  operation.set(kind.beta, 0.0f);
  WEFT_RETURN_IF_ERROR(operation.finalize());
  CudnnDemands demands;
  demands.full_float32 = problem.dtype == DType::kFloat32;
  demands.transforms = problem.transforms;
  for (const UntoldEngine &engine : kUntoldEngines)
    if (engine.kind == problem.kind->name && engine.dtype == problem.dtype &&
        !(engine.transforms && problem.transforms))
      demands.untold.emplace(engine.number, engine.what);
  demands.most_workspace_bytes =
      std::max(kLeastConvolutionWorkspace, kConvolutionWorkspaceOperands * problem.bytes);
  return CudnnPlan::choose(stream, operation, demands);
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> choose(const CudaDevice &device, const Cudnn &library,
                                                  const Problem &problem) {
  WEFT_ASSIGN_OR_RETURN(CudnnStream * stream, cudnn_stream(device, library));
  return choose(*stream, problem);
}

class Convolution : public runtime::LibraryCallState {
public:
  Convolution(const Kind &kind, std::unique_ptr<CudnnPlan> plan)
      : kind_(kind), plan_(std::move(plan)) {}

  int64_t scratch_bytes() const override {
    return plan_->workspace_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    return plan_->run(kind_.operands, operands, scratch);
  }

private:
  const Kind &kind_;
  std::unique_ptr<CudnnPlan> plan_;
};

class ConvolutionEntry : public runtime::LibraryEntry {
public:
  ConvolutionEntry(std::shared_ptr<CudaDevice> device, const Cudnn &library)
      : device_(std::move(device)), library_(library) {}

  std::string_view name() const override {
    return "cudnn.convolution";
  }

  double operations(const LibraryCall &call) const override {
    absl::StatusOr<Problem> problem = read(call);
    if (!problem.ok())
      return 0;
    double result = 2;
    for (int64_t dim : problem->result)
      result *= static_cast<double>(dim);
    for (int64_t dim : std::span(problem->weight).subspan(1))
      result *= static_cast<double>(dim);
    return result;
  }

  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const LibraryCall &call,
                                                                  int) const override {
    WEFT_ASSIGN_OR_RETURN(Problem problem, read(call));
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CudnnPlan> plan, choose(*device_, library_, problem));
    return std::make_unique<Convolution>(*problem.kind, std::move(plan));
  }

private:
  std::shared_ptr<CudaDevice> device_;
  Cudnn library_;
};

} // namespace

std::unique_ptr<runtime::LibraryEntry> make_convolution_entry(std::shared_ptr<CudaDevice> device,
                                                              const Cudnn &library) {
  return std::make_unique<ConvolutionEntry>(std::move(device), library);
}

absl::StatusOr<std::string> convolution_implementation(const std::shared_ptr<CudaDevice> &device,
                                                       const Cudnn &library,
                                                       const LibraryCall &call) {
  WEFT_ASSIGN_OR_RETURN(Problem problem, read(call));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CudnnPlan> plan, choose(*device, library, problem));
  return plan->show();
}

} // namespace weft::backends::cuda

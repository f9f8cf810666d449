#include "backends/cuda/device/cudnn_convolution.h"

#include <algorithm>
#include <deque>

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
constexpr int64_t kImage = 1, kWeight = 2, kResult = 3, kBias = 4, kSum = 5;

// An operation of cuDNN's, and which of a call's operands is which tensor of the convolution.
struct Kind {
  std::string_view name; // as config says it
  CudnnKind operation;
  Attribute alpha, beta, convolution, image, weight, result;
  std::array<int64_t, 3> operands; // without the bias, which stands before the last
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
  std::vector<int64_t> image, weight, result;                      // dims
  int64_t image_at = 0, weight_at = 0, result_at = 0, bias_at = 0; // where they are aligned to
  std::vector<int64_t> strides, padding, dilation;
  int64_t groups = 1, bytes = 0; // of all operands
  DType dtype = DType::kFloat32;
  bool transforms = false, bias = false;

  std::vector<int64_t> ids() const {
    std::vector<int64_t> ids(kind->operands.begin(), kind->operands.end());
    if (bias)
      ids.insert(ids.end() - 1, kBias);
    return ids;
  }
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
  WEFT_ASSIGN_OR_RETURN(int64_t bias, runtime::config_int(call.config, "bias", 0));
  problem.bias = bias != 0;
  if (problem.bias && problem.kind->operation != CudnnKind::kConvolutionForward)
    return absl::InvalidArgumentError(absl::StrCat("adds no bias to an ", kind));
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
constexpr int64_t kMostAlignment = 16;
int64_t alignment(int64_t offset) {
  return offset % kMostAlignment == 0 ? kMostAlignment : offset & -offset;
}

absl::StatusOr<Problem> read(const LibraryCall &call) {
  Problem problem;
  WEFT_RETURN_IF_ERROR(read_config(call, problem));
  std::vector<int64_t> ids = problem.ids();
  if (call.operands.size() != ids.size() || call.inputs != std::ssize(ids) - 1)
    return absl::InvalidArgumentError(
        "takes two tensors, and a bias where config has bias 1, and gives another one");
  auto refuse = [&](const char *why) {
    return absl::InvalidArgumentError(absl::StrCat(why, ": ", show(call)));
  };
  problem.dtype = call.operands[0].dtype;
  if (problem.dtype != DType::kFloat32 && problem.dtype != DType::kBFloat16 &&
      problem.dtype != DType::kFloat16)
    return refuse("takes float32, bfloat16 or float16");
  int64_t biases = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
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
    int64_t id = ids[i];
    if (id == kBias) {
      problem.bias_at = alignment(operand.offset);
      biases = stride;
      continue;
    }
    (id == kImage ? problem.image : id == kWeight ? problem.weight : problem.result) = operand.dims;
    (id == kImage    ? problem.image_at
     : id == kWeight ? problem.weight_at
                     : problem.result_at) = alignment(operand.offset);
  }
  if (!fits(problem))
    return refuse("the operands' dims are not those of a convolution");
  if (problem.bias && biases != problem.result[1])
    return refuse("takes a bias of one number a channel of the result");
  return problem;
}

CudnnData data_of(DType dtype) {
  return dtype == DType::kBFloat16  ? CudnnData::kBfloat16
         : dtype == DType::kFloat16 ? CudnnData::kHalf
                                    : CudnnData::kFloat;
}

absl::StatusOr<CudnnDescriptor> describe_tensor(const Cudnn &library, DType dtype, int64_t id,
                                                const std::vector<int64_t> &dims, int64_t alignment,
                                                bool is_virtual = false) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  CudnnDescriptor tensor(library, CudnnKind::kTensor, "describing a tensor");
  tensor.set(Attribute::kTensorDataType, data_of(dtype));
  tensor.set(Attribute::kTensorDimensions, dims);
  tensor.set(Attribute::kTensorStrides, strides);
  tensor.set(Attribute::kTensorUniqueId, id);
  tensor.set(Attribute::kTensorByteAlignment, alignment);
  if (is_virtual)
    tensor.set(Attribute::kTensorIsVirtual, true);
  WEFT_RETURN_IF_ERROR(tensor.finalize());
  return tensor;
}

enum class Bias {
  kNone,
  kAsWritten, // by cuDNN, as it writes the result
  kAhead      // in the result, to which the convolution is added
};

// The addition of the bias to the convolution's float32 sums, which nobody else sees. What it is
// described by is added to `parts`, which outlive it.
absl::StatusOr<CudnnDescriptor> describe_addition(const Cudnn &library, const Problem &problem,
                                                  const CudnnDescriptor &sums,
                                                  const CudnnDescriptor &result,
                                                  std::deque<CudnnDescriptor> &parts) {
  std::vector<int64_t> dims(problem.result.size(), 1);
  dims[1] = problem.result[1];
  WEFT_ASSIGN_OR_RETURN(CudnnDescriptor bias,
                        describe_tensor(library, problem.dtype, kBias, dims, problem.bias_at));
  constexpr const char *kWhat = "describing an addition";
  CudnnDescriptor &add = parts.emplace_back(library, CudnnKind::kPointwise, kWhat);
  add.set(Attribute::kPointwiseMode, CudnnType::kPointwiseMode, 1, &kCudnnAdd);
  add.set(Attribute::kPointwiseMathPrec, CudnnData::kFloat);
  WEFT_RETURN_IF_ERROR(add.finalize());
  CudnnDescriptor operation(library, CudnnKind::kPointwiseOperation, kWhat);
  operation.set(Attribute::kPointwiseOperationDesc, add);
  operation.set(Attribute::kPointwiseOperationX, sums);
  operation.set(Attribute::kPointwiseOperationB, parts.emplace_back(std::move(bias)));
  operation.set(Attribute::kPointwiseOperationY, result);
  WEFT_RETURN_IF_ERROR(operation.finalize());
  return operation;
}

// cuDNN finds the number of groups by the channels of image and weight.
absl::StatusOr<std::unique_ptr<CudnnPlan>> choose(CudnnStream &stream, const Problem &problem,
                                                  Bias bias) {
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
  std::deque<CudnnDescriptor> parts; // which outlive the operations
  std::vector<CudnnDescriptor> operations;
  const CudnnDescriptor *written = nullptr, *result = nullptr; // by the convolution; at the end
  CudnnDescriptor operation(library, kind.operation, "describing an operation");
  for (auto [attribute, id, dims, at] :
       {std::tuple(kind.image, kImage, &problem.image, problem.image_at),
        std::tuple(kind.weight, kWeight, &problem.weight, problem.weight_at),
        std::tuple(kind.result, kResult, &problem.result, problem.result_at)}) {
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor tensor,
                          describe_tensor(library, problem.dtype, id, *dims, at));
    result = written = &parts.emplace_back(std::move(tensor));
    if (id == kResult && bias == Bias::kAsWritten) {
      WEFT_ASSIGN_OR_RETURN(CudnnDescriptor sums, describe_tensor(library, DType::kFloat32, kSum,
                                                                  *dims, kMostAlignment, true));
      written = &parts.emplace_back(std::move(sums));
    }
    operation.set(attribute, *written);
  }
  operation.set(kind.convolution, convolution);
  operation.set(kind.alpha, 1.0f);
  operation.set(kind.beta, bias == Bias::kAhead ? 1.0f : 0.0f);
  WEFT_RETURN_IF_ERROR(operation.finalize());
  operations.push_back(std::move(operation));
  if (bias == Bias::kAsWritten) {
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor addition,
                          describe_addition(library, problem, *written, *result, parts));
    operations.push_back(std::move(addition));
  }
  CudnnDemands demands;
  demands.full_float32 = problem.dtype == DType::kFloat32;
  demands.transforms = problem.transforms;
  for (const UntoldEngine &engine : kUntoldEngines)
    if (engine.kind == problem.kind->name && engine.dtype == problem.dtype &&
        !(engine.transforms && problem.transforms))
      demands.untold.emplace(engine.number, engine.what);
  demands.most_workspace_bytes =
      std::max(kLeastConvolutionWorkspace, kConvolutionWorkspaceOperands * problem.bytes);
  return CudnnPlan::choose(stream, operations, demands);
}

struct Choice {
  std::unique_ptr<CudnnPlan> plan;
  Bias bias = Bias::kNone;
  std::string detour; // LibraryCallState::detour
};

absl::StatusOr<Choice> choose(const CudaDevice &device, const Cudnn &library,
                              const Problem &problem) {
  WEFT_ASSIGN_OR_RETURN(CudnnStream * stream, cudnn_stream(device, library));
  Choice choice;
  if (problem.bias)
    choice.bias = Bias::kAsWritten;
  absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = choose(*stream, problem, choice.bias);
  // Whatever it says: libraries refuse such graphs as invalid, too.
  if (!plan.ok() && problem.bias && !absl::IsResourceExhausted(plan.status())) {
    choice.bias = Bias::kAhead;
    choice.detour = absl::StrCat("bias-ahead: the result is filled with the bias before the "
                                 "convolution is added to it; as one graph: ",
                                 plan.status().message());
    plan = choose(*stream, problem, choice.bias);
  }
  if (!plan.ok())
    return absl::Status(
        plan.status().code(),
        absl::StrCat(plan.status().message(), choice.detour.empty() ? "" : "; ", choice.detour));
  choice.plan = *std::move(plan);
  return choice;
}

class Convolution : public runtime::LibraryCallState {
public:
  Convolution(std::shared_ptr<CudaDevice> device, Problem problem, Choice choice)
      : device_(std::move(device)), problem_(std::move(problem)), ids_(problem_.ids()),
        choice_(std::move(choice)) {
    // What is in the result already is no tensor of the plan's.
    if (choice_.bias == Bias::kAhead)
      ids_.erase(ids_.end() - 2);
  }

  int64_t scratch_bytes() const override {
    return choice_.plan->workspace_bytes();
  }
  std::string detour() const override {
    return choice_.detour;
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    if (choice_.bias != Bias::kAhead)
      return choice_.plan->run(ids_, operands, scratch);
    WEFT_RETURN_IF_ERROR(fill(operands[2], operands[3]));
    void *const others[] = {operands[0], operands[1], operands[3]};
    return choice_.plan->run(ids_, others, scratch);
  }

private:
  // Each channel of the result with its number: one element of each channel of the first image,
  // then as many as there are, until they are full; then as many images as there are.
  absl::Status fill(const void *bias, const void *result) const {
    const Driver &driver = device_->driver();
    constexpr const char *kWhat = "filling a result with a bias";
    auto of = [](const void *pointer) {
      return reinterpret_cast<DevicePointer>(pointer);
    };
    auto width = static_cast<size_t>(byte_size(problem_.dtype));
    size_t channels = static_cast<size_t>(problem_.result[1]), channel = width;
    for (int64_t dim : std::span(problem_.result).subspan(2))
      channel *= static_cast<size_t>(dim);
    CopyRows rows;
    rows.source.device = of(bias);
    rows.target.device = of(result);
    rows.source.pitch = rows.width = width;
    rows.target.pitch = channel;
    rows.rows = channels;
    WEFT_RETURN_IF_ERROR(driver.check(driver.copy_rows(&rows, device_->stream()), kWhat));
    rows.source = rows.target;
    for (size_t done = width; done < channel; done += rows.width) {
      rows.width = std::min(done, channel - done);
      rows.target.device = of(result) + done;
      WEFT_RETURN_IF_ERROR(driver.check(driver.copy_rows(&rows, device_->stream()), kWhat));
    }
    size_t image = channels * channel, all = image * static_cast<size_t>(problem_.result[0]), more;
    for (size_t done = image; done < all; done += more) {
      more = std::min(done, all - done);
      WEFT_RETURN_IF_ERROR(driver.check(
          driver.copy_on_device(of(result) + done, of(result), more, device_->stream()), kWhat));
    }
    return absl::OkStatus();
  }

  std::shared_ptr<CudaDevice> device_;
  Problem problem_;
  std::vector<int64_t> ids_; // of the plan's tensors
  Choice choice_;
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
    WEFT_ASSIGN_OR_RETURN(Choice choice, choose(*device_, library_, problem));
    return std::make_unique<Convolution>(device_, std::move(problem), std::move(choice));
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
  WEFT_ASSIGN_OR_RETURN(Choice choice, choose(*device, library, problem));
  return choice.plan->show();
}

} // namespace weft::backends::cuda

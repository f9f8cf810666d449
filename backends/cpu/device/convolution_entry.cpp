#include "backends/cpu/device/convolution_entry.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cpu/device/convolution_packing.h"
#include "backends/cpu/device/depthwise_blocks.h"
#include "backends/cpu/device/depthwise_gradient.h"
#include "backends/cpu/device/depthwise_pixels.h"
#include "backends/cpu/device/few_channels_pixels.h"
#include "backends/cpu/device/few_channels_rows.h"
#include "backends/cpu/device/library_convolution.h"
#include "backends/cpu/device/onednn_convolution.h"
#include "backends/cpu/device/onednn_threads.h"
#include "backends/cpu/device/pointwise_pixels.h"
#include "backends/cpu/device/pointwise_rows.h"
#include "backends/cpu/device/weight_gradient_parts.h"
#include "backends/cpu/device/widened_call.h"
#include "backends/cpu/device/winograd_convolution.h"
#include "backends/cpu/device/winograd_gradient.h"
#include "runtime/core/status.h"

namespace weft::backends::cpu {
namespace {

using runtime::Config;
using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::PackedCallState;
using runtime::TensorRef;

absl::StatusOr<std::array<int64_t, 4>> dims_of(const TensorRef &tensor) {
  if (tensor.dims.size() != 4 ||
      (tensor.dtype != DType::kFloat32 && tensor.dtype != DType::kBFloat16))
    return absl::InvalidArgumentError("images and weights must be float32 or bfloat16 of 4 dims");
  int64_t stride = 1;
  std::array<int64_t, 4> dims;
  for (size_t i = 4; i-- > 0;) {
    dims[i] = tensor.dims[i];
    if (dims[i] < 1)
      return absl::InvalidArgumentError("images and weights must have elements");
    if (dims[i] != 1 && tensor.strides[i] != stride)
      return absl::UnimplementedError("images and weights must be row-major");
    stride *= dims[i];
  }
  return dims;
}

absl::StatusOr<ConvolutionProblem> read_problem(const LibraryCall &call) {
  ConvolutionProblem p;
  WEFT_ASSIGN_OR_RETURN(std::string kind, runtime::config_string(call.config, "kind", ""));
  if (kind == "input_gradient")
    p.kind = ConvolutionKind::kInputGradient;
  else if (kind == "weight_gradient")
    p.kind = ConvolutionKind::kWeightGradient;
  else if (kind != "forward")
    return absl::InvalidArgumentError(absl::StrCat(
        "config kind is '", kind, "'; it must be forward, input_gradient or weight_gradient"));
  for (auto [key, to] : {std::pair("strides", &p.strides), std::pair("padding", &p.padding),
                         std::pair("dilation", &p.dilation)}) {
    WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> pair, runtime::config_ints(call.config, key));
    if (pair.size() != 2)
      return absl::InvalidArgumentError(absl::StrCat("config ", key, " must be two integers"));
    std::copy(pair.begin(), pair.end(), to->begin());
  }
  WEFT_ASSIGN_OR_RETURN(int64_t groups, runtime::config_int(call.config, "groups", 1));
  WEFT_ASSIGN_OR_RETURN(int64_t bias, runtime::config_int(call.config, "bias", 0));
  WEFT_ASSIGN_OR_RETURN(int64_t channels_last,
                        runtime::config_int(call.config, "channels_last", 0));
  WEFT_ASSIGN_OR_RETURN(int64_t row_major_image,
                        runtime::config_int(call.config, "row_major_image", 0));
  WEFT_ASSIGN_OR_RETURN(std::string post_ops, runtime::config_string(call.config, "post_ops", ""));
  WEFT_ASSIGN_OR_RETURN(std::string winograd, runtime::config_string(call.config, "winograd", ""));
  if (!winograd.empty() && winograd != "stable" && winograd != "changing")
    return absl::InvalidArgumentError(
        absl::StrCat("config winograd is '", winograd, "'; it may be stable or changing"));
  if (!winograd.empty())
    p.winograd =
        p.kind == ConvolutionKind::kForward ? winograd_of(winograd) : Winograd::kWeightChanges;
  p.groups = groups;
  p.bias = bias != 0;
  p.channels_last = channels_last != 0;
  p.row_major_image = row_major_image != 0;
  p.relu.follows = post_ops == "relu" || post_ops == "relu6";
  if (post_ops == "relu6")
    p.relu.most = 6;
  if (!post_ops.empty() && !p.relu)
    return absl::InvalidArgumentError(
        absl::StrCat("config post_ops is '", post_ops, "'; it may be relu or relu6"));
  if ((p.bias || p.relu) && p.kind != ConvolutionKind::kForward)
    return absl::InvalidArgumentError("a gradient has neither bias nor post_ops");
  if (call.operands.size() != 3 + (p.bias ? 1u : 0u))
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", call.operands.size(), " operands; there must be ", 3 + (p.bias ? 1 : 0)));

  const TensorRef &first = call.operands[0], &second = call.operands[1],
                  &last = call.operands.back();
  bool forward = p.kind == ConvolutionKind::kForward,
       by_input = p.kind == ConvolutionKind::kInputGradient;
  for (auto [to, from] : {std::pair(&p.image, by_input ? &last : &first),
                          std::pair(&p.weight, forward || by_input ? &second : &last),
                          std::pair(&p.result, forward    ? &last
                                               : by_input ? &first
                                                          : &second)}) {
    WEFT_ASSIGN_OR_RETURN(auto dims, dims_of(*from));
    *to = dims;
    if (p.channels_last && to != &p.weight && !(p.row_major_image && to == &p.image))
      *to = {dims[0], dims[3], dims[1], dims[2]};
  }
  p.dtype = first.dtype;
  p.computed = last.dtype;
  if (second.dtype != p.dtype || (p.dtype == DType::kFloat32 && p.computed != p.dtype) ||
      (p.kind == ConvolutionKind::kWeightGradient && p.computed != DType::kFloat32))
    return absl::InvalidArgumentError(
        "the factors must be of one dtype, float32 or bfloat16; what is computed is float32, or of "
        "bfloat16 factors bfloat16, but for a weight's gradient");
  if (p.row_major_image && !few_channels_pixels_computes(p))
    return absl::InvalidArgumentError(
        "config row_major_image is for what few_channels_pixels_computes()");
  bool fits = p.groups >= 1 && p.image[0] == p.result[0] && p.weight[0] == p.result[1] &&
              p.weight[0] % p.groups == 0 && p.weight[1] * p.groups == p.image[1];
  for (size_t i = 0; i < 2 && fits; ++i) {
    fits = p.strides[i] >= 1 && p.padding[i] >= 0 && p.dilation[i] >= 1;
    if (fits)
      fits = (p.image[2 + i] + 2 * p.padding[i] - p.dilation[i] * (p.weight[2 + i] - 1) - 1) /
                     p.strides[i] +
                 1 ==
             p.result[2 + i];
  }
  if (!fits)
    return absl::InvalidArgumentError("the operands' dims are not those of a convolution");
  if (p.bias) {
    int64_t elements = 1;
    for (int64_t dim : call.operands[2].dims)
      elements *= dim;
    if (elements != p.weight[0] || call.operands[2].dtype != DType::kFloat32)
      return absl::InvalidArgumentError(
          absl::StrCat("the bias must be float32 of ", p.weight[0], " elements"));
  }
  return p;
}

// A kernel of ours.
struct OwnKernel {
  const char *name;
  bool (*computes)(const ConvolutionProblem &problem);
  std::unique_ptr<LibraryCallState> (*make)(const ConvolutionProblem &problem, int threads);
  // With packed_weight. Null where a weight is read as it is.
  std::unique_ptr<PackedCallState> (*make_packed)(const ConvolutionProblem &problem, int threads);
};
template <auto kMake>
std::unique_ptr<LibraryCallState> of_plain_weight(const ConvolutionProblem &problem, int threads) {
  return kMake(problem, threads);
}
constexpr OwnKernel kOwnKernels[] = {
    {"depthwise, block by block", depthwise_blocks_computes, depthwise_blocks, nullptr},
    {"depthwise, pixel by pixel", depthwise_pixels_computes, of_plain_weight<depthwise_pixels>,
     depthwise_pixels},
    {"of few channels, pixel by pixel", few_channels_pixels_computes, few_channels_pixels, nullptr},
    {"of few channels, row by row", few_channels_rows_computes, few_channels_rows, nullptr},
    {"1x1, pixel by pixel", pointwise_pixels_computes, of_plain_weight<pointwise_pixels>,
     pointwise_pixels},
    {"1x1, row by row", pointwise_rows_computes, pointwise_rows, nullptr},
};

// Null where the library computes the convolution.
const OwnKernel *own_kernel(const ConvolutionProblem &problem) {
  for (const OwnKernel &kernel : kOwnKernels)
    if (kernel.computes(problem))
      return &kernel;
  return nullptr;
}

absl::StatusOr<std::unique_ptr<LibraryCallState>> init_weight_gradient(const ConvolutionProblem &p,
                                                                       int threads) {
  if (p.dtype == DType::kFloat32)
    if (std::unique_ptr<LibraryCallState> depthwise = depthwise_weight_gradient(p, threads))
      return depthwise;
  auto direct = weight_gradient_in_parts(p, threads);
  int64_t tile = winograd_gradient_tile(p);
  if (!direct.ok() || tile == 0)
    return direct;
  return winograd_weight_gradient(p, tile, threads, *std::move(direct));
}

// Null where sums of products are as fast, or the library has no fast products for it.
absl::StatusOr<std::unique_ptr<PackedCallState>> init_winograd(const ConvolutionProblem &problem,
                                                               int threads) {
  int64_t tile = winograd_tile(problem);
  if (tile == 0)
    return nullptr;
  auto winograd = winograd_convolution(problem, tile, threads);
  if (absl::IsUnimplemented(winograd.status()))
    return nullptr;
  return winograd;
}

class ConvolutionEntry : public runtime::LibraryEntry {
public:
  std::string_view name() const override {
    return "onednn.convolution";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    WEFT_ASSIGN_OR_RETURN(ConvolutionProblem problem, read_problem(call));
    if (problem.dtype == DType::kBFloat16 && !onednn_convolves_bf16())
      return init_widened(call, *this, threads);
    if (problem.kind == ConvolutionKind::kWeightGradient)
      return init_weight_gradient(problem, threads);
    if (const OwnKernel *own = own_kernel(problem))
      return own->make(problem, threads);
    if (auto winograd = init_winograd(problem, threads); !winograd.ok() || *winograd)
      return winograd;
    return library_convolution(problem, threads);
  }
  double operations(const LibraryCall &call) const override {
    absl::StatusOr<ConvolutionProblem> problem = read_problem(call);
    if (!problem.ok())
      return 0;
    double result = 2;
    for (int64_t dim : problem->result)
      result *= static_cast<double>(dim);
    for (int64_t dim : std::span(problem->weight).subspan(1))
      result *= static_cast<double>(dim);
    return result;
  }
  absl::StatusOr<std::unique_ptr<PackedCallState>> init_packed(const LibraryCall &call,
                                                               const std::vector<bool> &stable,
                                                               int threads) const override {
    WEFT_ASSIGN_OR_RETURN(ConvolutionProblem problem, read_problem(call));
    const auto &[batch, channels, height, width] = problem.result;
    int64_t bytes = channels * problem.weight[1] * problem.weight[2] * problem.weight[3] *
                    byte_size(problem.dtype);
    if (problem.kind != ConvolutionKind::kForward || !stable[1] ||
        (problem.dtype == DType::kBFloat16 && !onednn_convolves_bf16()))
      return nullptr;
    if (const OwnKernel *own = own_kernel(problem)) {
      problem.packed_weight = true;
      return own->make_packed && bytes >= kMinPackedConvolutionBytes
                 ? own->make_packed(problem, threads)
                 : nullptr;
    }
    bool pays = convolution_packing_pays(batch * height * width, bytes, false),
         pays_transformed = winograd_tile(problem) > 0 &&
                            convolution_packing_pays(batch * height * width, bytes, true);
    if (!(pays || pays_transformed))
      return nullptr;
    problem.packed_weight = true;
    if (pays_transformed)
      if (auto winograd = init_winograd(problem, threads); !winograd.ok() || *winograd)
        return winograd;
    if (!pays)
      return nullptr;
    WEFT_ASSIGN_OR_RETURN(auto packed, packed_library_convolution(problem, threads));
    if (packed && packed->packed_bytes() > kMaxPackedGrowth * bytes)
      return nullptr;
    return packed;
  }
};

} // namespace

const runtime::LibraryEntry &convolution_entry() {
  static const ConvolutionEntry entry;
  return entry;
}

bool convolution_takes_relu(const ConvolutionProblem &problem) {
  bool is_ours = own_kernel(problem) || winograd_tile(problem) > 0,
       may_be_fast = problem.channels_last || problem.weight[2] * problem.weight[3] > 1;
  return problem.kind == ConvolutionKind::kForward &&
         (is_ours || (may_be_fast && onednn_tells_nan()));
}

absl::StatusOr<std::string> convolution_implementation(const LibraryCall &call, int threads) {
  WEFT_ASSIGN_OR_RETURN(ConvolutionProblem problem, read_problem(call));
  if (const OwnKernel *own = own_kernel(problem))
    return own->name;
  if (int64_t tile = problem.kind == ConvolutionKind::kWeightGradient
                         ? winograd_gradient_tile(problem)
                         : winograd_tile(problem))
    return absl::StrCat("winograd of tiles of ", tile, "x", tile);
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OnednnConvolution> convolution,
                        OnednnConvolution::create(problem, threads, threads));
  return absl::StrCat(convolution->reorders(), " reorders, ",
                      std::string(convolution->implementation()));
}

} // namespace weft::backends::cpu

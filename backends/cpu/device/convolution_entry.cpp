#include "backends/cpu/device/convolution_entry.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cpu/device/convolution_packing.h"
#include "backends/cpu/device/convolution_parts.h"
#include "backends/cpu/device/depthwise_gradient.h"
#include "backends/cpu/device/onednn_convolution.h"
#include "backends/cpu/device/parts_scratch.h"
#include "backends/cpu/device/widened_call.h"
#include "backends/cpu/device/winograd_convolution.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

using runtime::Config;
using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::TensorRef;

// Parts of a weight gradient: as many as there may be threads; fewer where their partial results,
// of the weight's size each, would take more than this.
constexpr int64_t kMostParts = 16, kMostPartialBytes = 32 << 20;

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
  absl::StatusOr<std::string> kind = runtime::config_string(call.config, "kind", "");
  if (!kind.ok())
    return kind.status();
  if (*kind == "input_gradient")
    p.kind = ConvolutionKind::kInputGradient;
  else if (*kind == "weight_gradient")
    p.kind = ConvolutionKind::kWeightGradient;
  else if (*kind != "forward")
    return absl::InvalidArgumentError(absl::StrCat(
        "config kind is '", *kind, "'; it must be forward, input_gradient or weight_gradient"));
  for (auto [key, to] : {std::pair("strides", &p.strides), std::pair("padding", &p.padding),
                         std::pair("dilation", &p.dilation)}) {
    absl::StatusOr<std::vector<int64_t>> pair = runtime::config_ints(call.config, key);
    if (!pair.ok())
      return pair.status();
    if (pair->size() != 2)
      return absl::InvalidArgumentError(absl::StrCat("config ", key, " must be two integers"));
    std::copy(pair->begin(), pair->end(), to->begin());
  }
  absl::StatusOr<int64_t> groups = runtime::config_int(call.config, "groups", 1),
                          bias = runtime::config_int(call.config, "bias", 0),
                          channels_last = runtime::config_int(call.config, "channels_last", 0);
  absl::StatusOr<std::string> post_ops = runtime::config_string(call.config, "post_ops", ""),
                              winograd = runtime::config_string(call.config, "winograd", "");
  if (!groups.ok())
    return groups.status();
  if (!bias.ok())
    return bias.status();
  if (!channels_last.ok())
    return channels_last.status();
  if (!post_ops.ok())
    return post_ops.status();
  if (!winograd.ok())
    return winograd.status();
  if (!winograd->empty() && *winograd != "stable" && *winograd != "changing")
    return absl::InvalidArgumentError(
        absl::StrCat("config winograd is '", *winograd, "'; it may be stable or changing"));
  if (!winograd->empty())
    p.winograd = *winograd == "stable" && p.kind == ConvolutionKind::kForward
                     ? Winograd::kWeightStays
                     : Winograd::kWeightChanges;
  p.groups = *groups;
  p.bias = *bias != 0;
  p.channels_last = *channels_last != 0;
  p.relu = *post_ops == "relu";
  if (!post_ops->empty() && !p.relu)
    return absl::InvalidArgumentError(
        absl::StrCat("config post_ops is '", *post_ops, "'; it may be relu"));
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
    absl::StatusOr<std::array<int64_t, 4>> dims = dims_of(*from);
    if (!dims.ok())
      return dims.status();
    *to = *dims;
    if (p.channels_last && to != &p.weight)
      *to = {(*dims)[0], (*dims)[3], (*dims)[1], (*dims)[2]};
  }
  p.dtype = first.dtype;
  p.computed = last.dtype;
  if (second.dtype != p.dtype || (p.dtype == DType::kFloat32 && p.computed != p.dtype) ||
      (p.kind == ConvolutionKind::kWeightGradient && p.computed != DType::kFloat32))
    return absl::InvalidArgumentError(
        "the factors must be of one dtype, float32 or bfloat16; what is computed is float32, or of "
        "bfloat16 factors bfloat16, but for a weight's gradient");
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

class ConvolutionState : public LibraryCallState {
public:
  explicit ConvolutionState(std::unique_ptr<OnednnConvolution> convolution)
      : convolution_(std::move(convolution)) {}
  int64_t scratch_bytes() const override {
    return convolution_->scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    return convolution_->run(operands, scratch);
  }

private:
  std::unique_ptr<OnednnConvolution> convolution_;
};

// A forward convolution whose weight is packed.
class PackedConvolutionState : public runtime::PackedCallState {
public:
  explicit PackedConvolutionState(std::unique_ptr<OnednnConvolution> convolution)
      : convolution_(std::move(convolution)) {}
  int operand() const override {
    return 1;
  }
  int64_t packed_bytes() const override {
    return convolution_->weight_bytes();
  }
  std::string form() const override {
    return convolution_->weight_form();
  }
  absl::Status pack(const void *plain, void *packed) override {
    return convolution_->pack(plain, packed);
  }
  int64_t scratch_bytes() const override {
    return convolution_->scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    return convolution_->run(operands, scratch);
  }

private:
  std::unique_ptr<OnednnConvolution> convolution_;
};

// The weight gradient of a batch in parts.
class PartedState : public LibraryCallState {
public:
  // Partial results stay in the library's layout, so that what is copied out of it is their sum
  // alone.
  static absl::StatusOr<std::unique_ptr<LibraryCallState>> create(ConvolutionProblem problem,
                                                                  int64_t parts, int threads) {
    problem.packed_weight = true;
    auto state = std::make_unique<PartedState>();
    if (absl::Status status = state->build(problem, parts, threads); !status.ok())
      return status;
    bool equal = std::all_of(state->parts_.begin(), state->parts_.end(), [&](const Part &part) {
      return part.convolution->weight_form() == state->parts_.front().convolution->weight_form();
    });
    if (!equal) {
      problem.packed_weight = false;
      state = std::make_unique<PartedState>();
      if (absl::Status status = state->build(problem, parts, threads); !status.ok())
        return status;
    }
    return state;
  }

  int64_t scratch_bytes() const override {
    return partial_bytes_ + scratch_.bytes(threads_);
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch), {}};
    call.statuses.resize(parts_.size());
    runtime::parallel_for(static_cast<int64_t>(parts_.size()), 1, threads_, compute, &call);
    for (const absl::Status &status : call.statuses)
      if (!status.ok())
        return status;
    runtime::parallel_for(partial_elements_, kSumGrain, threads_, add_up, &call);
    return packed_ ? parts_.front().convolution->unpack(partial(call, 0), operands[2])
                   : absl::OkStatus();
  }

private:
  static constexpr int64_t kSumGrain = 16384; // elements that are worth a second thread

  struct Part {
    int64_t image = 0, gradient = 0; // bytes before the part's first image
    int64_t partial = 0;             // bytes before its partial result, in the scratch memory
    std::unique_ptr<OnednnConvolution> convolution;
  };
  struct Call {
    PartedState *state;
    std::span<void *const> operands;
    char *scratch;
    std::vector<absl::Status> statuses;
  };

  absl::Status build(const ConvolutionProblem &problem, int64_t parts, int threads) {
    auto elements = [](const std::array<int64_t, 4> &dims) {
      return dims[0] * dims[1] * dims[2] * dims[3];
    };
    int64_t batch = problem.image[0];
    threads_ = threads;
    for (int64_t i = 0, first = 0; i < parts; ++i) {
      int64_t count = batch / parts + (i < batch % parts);
      ConvolutionProblem part = problem;
      part.image[0] = part.result[0] = count;
      absl::StatusOr<std::unique_ptr<OnednnConvolution>> convolution =
          OnednnConvolution::create(part, 1, threads);
      if (!convolution.ok())
        return convolution.status();
      Part &made = parts_.emplace_back();
      made.image = first * (elements(problem.image) / batch) * byte_size(problem.dtype);
      made.gradient = first * (elements(problem.result) / batch) * byte_size(problem.dtype);
      scratch_.add((*convolution)->scratch_bytes());
      made.convolution = *std::move(convolution);
      made.partial = partial_bytes_;
      if (i == 0) {
        packed_ = made.convolution->weight_bytes() > 0;
        partial_elements_ =
            packed_ ? made.convolution->weight_bytes() / 4 : elements(problem.weight);
      }
      // Where it is plain, the first part's is the result itself.
      if (i > 0 || packed_)
        partial_bytes_ += runtime::align(partial_elements_ * 4);
      first += count;
    }
    return absl::OkStatus();
  }

  static float *partial(Call &call, size_t i) {
    return i == 0 && !call.state->packed_
               ? static_cast<float *>(call.operands[2])
               : reinterpret_cast<float *>(call.scratch + call.state->parts_[i].partial);
  }

  static int32_t compute(void *data, int thread, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    PartedState &state = *call.state;
    char *scratch = call.scratch + state.partial_bytes_; // behind the partial results
    for (int64_t i = begin; i < end; ++i) {
      Part &part = state.parts_[static_cast<size_t>(i)];
      void *operands[] = {static_cast<char *>(call.operands[0]) + part.image,
                          static_cast<char *>(call.operands[1]) + part.gradient,
                          partial(call, static_cast<size_t>(i))};
      call.statuses[static_cast<size_t>(i)] =
          part.convolution->run(operands, state.scratch_.of(scratch, i, thread, state.threads_));
    }
    return 0;
  }

  static int32_t add_up(void *data, int, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    float *sum = partial(call, 0);
    for (size_t i = 1; i < call.state->parts_.size(); ++i) {
      const float *term = partial(call, i);
      for (int64_t k = begin; k < end; ++k)
        sum[k] += term[k];
    }
    return 0;
  }

  std::vector<Part> parts_;
  bool packed_ = false; // whether partial results are in the library's layout
  int64_t partial_elements_ = 0, partial_bytes_ = 0;
  PartsScratch scratch_;
  int threads_ = 1;
};

int64_t parts_of(const ConvolutionProblem &p) {
  if (p.kind != ConvolutionKind::kWeightGradient)
    return 1;
  int64_t bytes = p.weight[0] * p.weight[1] * p.weight[2] * p.weight[3] * 4;
  return std::min({p.image[0], kMostParts, std::max<int64_t>(1, kMostPartialBytes / bytes)});
}

class ConvolutionEntry : public runtime::LibraryEntry {
public:
  std::string_view name() const override {
    return "onednn.convolution";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    absl::StatusOr<ConvolutionProblem> problem = read_problem(call);
    if (!problem.ok())
      return problem.status();
    if (problem->dtype == DType::kBFloat16 && !onednn_convolves_bf16())
      return init_widened(call, *this, threads);
    if (problem->kind == ConvolutionKind::kWeightGradient) {
      auto state = problem->dtype == DType::kFloat32 ? depthwise_weight_gradient(*problem, threads)
                                                     : nullptr;
      return state ? std::move(state) : PartedState::create(*problem, parts_of(*problem), threads);
    }
    if (int64_t tile = winograd_tile(*problem)) {
      absl::StatusOr<std::unique_ptr<runtime::PackedCallState>> winograd =
          winograd_convolution(*problem, tile, threads);
      if (winograd.ok() || !absl::IsUnimplemented(winograd.status()))
        return winograd;
    }
    absl::StatusOr<std::unique_ptr<OnednnConvolution>> convolution =
        OnednnConvolution::create(*problem, threads, threads);
    if (!convolution.ok())
      return convolution.status();
    if ((*convolution)->depends_on_threads())
      return convolution_in_parts(*problem, threads);
    return std::make_unique<ConvolutionState>(*std::move(convolution));
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
  absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
  init_packed(const LibraryCall &call, const std::vector<bool> &stable,
              int threads) const override {
    absl::StatusOr<ConvolutionProblem> problem = read_problem(call);
    if (!problem.ok())
      return problem.status();
    const auto &[batch, channels, height, width] = problem->result;
    int64_t bytes = channels * problem->weight[1] * problem->weight[2] * problem->weight[3] *
                    byte_size(problem->dtype);
    if (problem->dtype == DType::kBFloat16 && !onednn_convolves_bf16())
      return nullptr;
    int64_t tile = winograd_tile(*problem);
    if (problem->kind != ConvolutionKind::kForward || !stable[1] ||
        !convolution_packing_pays(batch * height * width, bytes, tile > 0))
      return nullptr;
    problem->packed_weight = true;
    if (tile > 0) {
      absl::StatusOr<std::unique_ptr<runtime::PackedCallState>> winograd =
          winograd_convolution(*problem, tile, threads);
      if (absl::IsUnimplemented(winograd.status()))
        return nullptr;
      return winograd;
    }
    absl::StatusOr<std::unique_ptr<OnednnConvolution>> convolution =
        OnednnConvolution::create(*problem, threads, threads);
    if (!convolution.ok())
      return convolution.status();
    int64_t packed = (*convolution)->weight_bytes();
    if (packed == 0 || packed > kMaxPackedGrowth * bytes || (*convolution)->depends_on_threads())
      return nullptr;
    return std::make_unique<PackedConvolutionState>(*std::move(convolution));
  }
};

} // namespace

const runtime::LibraryEntry &convolution_entry() {
  static const ConvolutionEntry entry;
  return entry;
}

absl::StatusOr<std::string> convolution_implementation(const LibraryCall &call, int threads) {
  absl::StatusOr<ConvolutionProblem> problem = read_problem(call);
  if (!problem.ok())
    return problem.status();
  if (int64_t tile = winograd_tile(*problem))
    return absl::StrCat("winograd of tiles of ", tile, "x", tile);
  absl::StatusOr<std::unique_ptr<OnednnConvolution>> convolution =
      OnednnConvolution::create(*problem, threads, threads);
  if (!convolution.ok())
    return convolution.status();
  return absl::StrCat((*convolution)->reorders(), " reorders, ",
                      std::string((*convolution)->implementation()));
}

} // namespace weft::backends::cpu

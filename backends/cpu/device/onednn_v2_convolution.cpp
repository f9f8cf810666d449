// Convolutions by oneDNN 2's C API.
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "backends/cpu/device/library_sizes.h"
#include "backends/cpu/device/onednn_convolution.h"
#include "backends/cpu/device/onednn_threads.h"
#include "backends/cpu/device/onednn_v2_reorder.h"
#include "runtime/core/status.h"
#include "runtime/executable/program.h"

namespace weft::backends::cpu {
namespace {

using PrimitiveDesc = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using Memory = Owned<dnnl_memory_t, dnnl_memory_destroy>;

// An operand of the primitive, in the layout that it wants; copied where the caller's is another
// one.
struct Operand {
  bool is_result = false;
  Memory wanted;
  OnednnV2Reorder reorder;        // built if it is copied
  int64_t bytes = 0, offset = -1; // of the copy, in scratch
};

// In which layout the primitive has images: the caller's, blocks of channels, or what the library
// chooses.
enum class ImageLayout { kGiven, kBlocked, kLibrary };

struct Attempt {
  ImageLayout layout;
  bool fast_only; // else whatever implementation there is
};

// What is tried in order, by figures of oneDNN 2.6.3 (ResNet-18's and MobileNetV2's shapes;
// AVX-512: Emerald Rapids and Zen 4; AVX2: Zen 3 and Emerald Rapids without its AVX-512). GFLOP/s
// of two threads, and for the weight's gradient of one:
//
//                                   AVX-512: row-major  channels last blocks AVX2: channels last
//                                                       blocks
//   forward, 3x3, batch 1 and 16              240-300        380-470 420-470 220-230 225-235
//   forward, depthwise                            3-8         50-175 35-200 45-150 45-150
//   forward, 1x1                              220-400        260-440 270-440 210-230 210-230
//   input's gradient, 3x3                           -        390-460 390-500 205-225 215-230
//   weight's gradient, 3x3                          -        150-215 155-215 85-110 105-120
//   weight's gradient, depthwise                    - 21-87 27-90 9-50 22-75
//
// Copying row-major images into blocks and back takes as long as 5 to 25 % of a 3x3 convolution,
// and 2 to 5 times as long as a depthwise or an early 1x1 one; from channels last as long as that
// or longer. So with channels last nothing is copied, but on machines without AVX-512 for weight's
// gradients of 3x3 and larger kernels (on Zen 3 blocks are twice as fast for them), and for forward
// ones of many channels: there the kernel reads pixels that lie far apart, often in one set of the
// cache. One thread of Zen 3, batch 1, us, channels last / copies and blocks:
//
//   64 -> 128, 56^2, stride 2       1336 / 1311    512 -> 512, 14^2, stride 2   3534 / 3407
//   128 -> 128, 56^2, stride 2      4878 / 2843    64 -> 192, 27^2, 5x5         5815 / 4402
//   128 -> 256, 28^2, stride 2      1569 / 1313    384 -> 256, 13^2             3666 / 3408
//   256 -> 256, 28^2, stride 2      3935 / 2674    512 -> 512, 7^2              3040 / 2896
constexpr int64_t kFarChannels = 64;

std::vector<Attempt> attempts(const ConvolutionProblem &p) {
  using enum ImageLayout;
  bool one_tap = p.weight[2] * p.weight[3] == 1,
       far = p.kind == ConvolutionKind::kWeightGradient ||
             (p.kind == ConvolutionKind::kForward && p.image[1] >= kFarChannels &&
              p.result[1] >= kFarChannels);
  bool copies = !p.channels_last || (far && p.groups == 1 && !has_avx512());
  if (copies && !one_tap)
    return {{kBlocked, true}, {kLibrary, false}, {kGiven, false}};
  // A 1x1 kernel reads each element too seldom to pay for a reorder of the images.
  if (!p.channels_last)
    return {{kGiven, false}};
  return {{kGiven, true}, {kBlocked, true}, {kLibrary, false}, {kGiven, false}};
}

// Channels of a block, as the library's kernels for this machine want them.
int64_t block_size() {
  return has_avx512() ? 16 : 8;
}

class OnednnV2Convolution : public OnednnConvolution {
public:
  OnednnV2Convolution(int threads, int copy_threads)
      : threads_(threads), copy_threads_(copy_threads) {}

  absl::Status build(const ConvolutionProblem &problem, Attempt attempt);
  std::string_view implementation() const override {
    return implementation_;
  }
  // oneDNN 2.6.3's own kernels give each element one order (BitsDoNotDependOnTheNumberOfThreads).
  bool depends_on_threads() const override {
    return implementation_.find("gemm") != std::string::npos;
  }
  int reorders() const override {
    return reorders_;
  }
  int64_t scratch_bytes() const override {
    return scratch_bytes_;
  }
  int64_t weight_bytes() const override {
    return weight_bytes_;
  }
  std::string weight_form() const override {
    return weight_form_;
  }
  absl::Status pack(const void *plain, void *packed) const override {
    return copy(pack_, plain, packed);
  }
  absl::Status unpack(const void *packed, void *plain) const override {
    return copy(unpack_, packed, plain);
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override;
  bool tells_nan() const override {
    return is_fast() && onednn_tells_nan();
  }
  bool may_have_met_nan() const override {
    return met_nan_;
  }

private:
  // "jit:...", "jit_1x1:...", "brgconv:...", "brdgmm_dw:..."; not "gemm:jit", "ref:any".
  bool is_fast() const {
    return implementation_.starts_with("jit") || implementation_.starts_with("br");
  }
  absl::Status add(const_dnnl_primitive_desc_t primitive, int index,
                   const dnnl_memory_desc_t &given, bool is_result, bool is_own = false);
  absl::Status copy(const OnednnV2Reorder &reorder, const void *from, void *to) const {
    if (!reorder.is_built())
      return absl::FailedPreconditionError("the convolution's weight is plain");
    OnednnTeam team(copy_threads_);
    WEFT_RETURN_IF_ERROR(reorder.run(from, to));
    return team.status();
  }

  int threads_, copy_threads_;
  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  Primitive primitive_;
  std::string implementation_;
  int reorders_ = 0;
  // oneDNN's scratchpad at the start of the scratch memory, then the reordered operands.
  int64_t scratchpad_bytes_ = 0, scratch_bytes_ = 0;
  Memory scratchpad_;
  std::vector<std::unique_ptr<Operand>> operands_; // in run()'s order
  std::vector<dnnl_exec_arg_t> arguments_;
  int64_t weight_bytes_ = 0;
  std::string weight_form_;
  OnednnV2Reorder pack_, unpack_;
  bool met_nan_ = false;
};

// is_own: the weight, which the caller has in the layout that the primitive wants.
absl::Status OnednnV2Convolution::add(const_dnnl_primitive_desc_t primitive, int index,
                                      const dnnl_memory_desc_t &given, bool is_result,
                                      bool is_own) {
  auto operand = std::make_unique<Operand>();
  operand->is_result = is_result;
  const dnnl_memory_desc_t *wanted =
      dnnl_primitive_desc_query_md(primitive, dnnl_query_exec_arg_md, index);
  if (wanted == nullptr)
    return absl::InternalError("oneDNN does not say in which layout it wants an operand");
  WEFT_ONEDNN(dnnl_memory_create, operand->wanted.out(), wanted, engine_, DNNL_MEMORY_NONE);
  bool equal = dnnl_memory_desc_equal(wanted, &given) != 0;
  if (is_own && is_packed(*wanted)) {
    weight_bytes_ = static_cast<int64_t>(dnnl_memory_desc_get_size(wanted));
    weight_form_ = form_of(given, *wanted);
    OnednnTeam team(copy_threads_);
    WEFT_RETURN_IF_ERROR(pack_.build(given, *wanted));
    WEFT_RETURN_IF_ERROR(unpack_.build(*wanted, given));
  } else if (!equal) {
    ++reorders_;
    operand->bytes = static_cast<int64_t>(dnnl_memory_desc_get_size(wanted));
    absl::Status status =
        is_result ? operand->reorder.build(*wanted, given) : operand->reorder.build(given, *wanted);
    if (!status.ok())
      return status;
  }
  arguments_.push_back({index, operand->wanted.get()});
  operands_.push_back(std::move(operand));
  return absl::OkStatus();
}

absl::Status OnednnV2Convolution::build(const ConvolutionProblem &p, Attempt attempt) {
  WEFT_ASSIGN_OR_RETURN(auto both, engine_and_stream());
  std::tie(engine_, stream_) = both;

  std::vector<int64_t> weight(p.weight.begin(), p.weight.end());
  if (p.groups > 1) {
    weight[0] /= p.groups;
    weight.insert(weight.begin(), p.groups);
  }
  auto type_of = [&](ConvolutionKind computes) {
    return data_type(p.kind == computes ? p.computed : p.dtype);
  };
  const dnnl_data_type_t image_type = type_of(ConvolutionKind::kInputGradient),
                         weight_type = type_of(ConvolutionKind::kWeightGradient),
                         result_type = type_of(ConvolutionKind::kForward);
  dnnl_memory_desc_t image, weights, bias, result; // the caller's layouts
  dnnl_format_tag_t given = p.channels_last ? dnnl_nhwc : dnnl_nchw;
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &image, 4, p.image.data(), image_type, given);
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &weights, static_cast<int>(weight.size()),
              weight.data(), weight_type, p.groups > 1 ? dnnl_goihw : dnnl_oihw);
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &bias, 1, p.weight.data(), dnnl_f32, dnnl_x);
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &result, 4, p.result.data(), result_type, given);
  dnnl_memory_desc_t any_image = image, any_weights, any_result = result;
  if (attempt.layout != ImageLayout::kGiven) {
    // Images of few channels, such as an RGB picture, stay as they are: blocks of them would hold
    // padding.
    auto tag = [&](int64_t channels) {
      if (attempt.layout == ImageLayout::kLibrary)
        return dnnl_format_tag_any;
      return channels < block_size() ? dnnl_nchw : block_size() == 16 ? dnnl_nChw16c : dnnl_nChw8c;
    };
    WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &any_image, 4, p.image.data(), image_type,
                tag(p.image[1]));
    WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &any_result, 4, p.result.data(), result_type,
                tag(p.result[1]));
  }
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &any_weights, static_cast<int>(weight.size()),
              weight.data(), weight_type, dnnl_format_tag_any);

  // oneDNN counts dilation from 0, and the rows behind the last window are not padding but left
  // over: a negative number.
  std::array<int64_t, 2> dilation, behind;
  for (size_t i = 0; i < 2; ++i) {
    dilation[i] = p.dilation[i] - 1;
    behind[i] = (p.result[2 + i] - 1) * p.strides[i] + p.dilation[i] * (p.weight[2 + i] - 1) + 1 -
                p.image[2 + i] - p.padding[i];
  }
  Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attributes;
  WEFT_ONEDNN(dnnl_primitive_attr_create, attributes.out());
  WEFT_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode, attributes.get(), dnnl_scratchpad_mode_user);
  if (p.relu) {
    Owned<dnnl_post_ops_t, dnnl_post_ops_destroy> post_ops;
    WEFT_ONEDNN(dnnl_post_ops_create, post_ops.out());
    bool clips = p.relu.clips();
    WEFT_ONEDNN(dnnl_post_ops_append_eltwise, post_ops.get(), 1.0f,
                clips ? dnnl_eltwise_clip : dnnl_eltwise_relu, 0.0f, clips ? p.relu.most : 0.0f);
    WEFT_ONEDNN(dnnl_primitive_attr_set_post_ops, attributes.get(), post_ops.get());
  }

  OnednnTeam team(threads_);
  dnnl_convolution_desc_t operation;
  switch (p.kind) {
  case ConvolutionKind::kForward:
    WEFT_ONEDNN(dnnl_dilated_convolution_forward_desc_init, &operation, dnnl_forward_inference,
                dnnl_convolution_direct, &any_image, &any_weights, p.bias ? &bias : nullptr,
                &any_result, p.strides.data(), dilation.data(), p.padding.data(), behind.data());
    break;
  case ConvolutionKind::kInputGradient:
    WEFT_ONEDNN(dnnl_dilated_convolution_backward_data_desc_init, &operation,
                dnnl_convolution_direct, &any_image, &any_weights, &any_result, p.strides.data(),
                dilation.data(), p.padding.data(), behind.data());
    break;
  case ConvolutionKind::kWeightGradient:
    WEFT_ONEDNN(dnnl_dilated_convolution_backward_weights_desc_init, &operation,
                dnnl_convolution_direct, &any_image, &any_weights, nullptr, &any_result,
                p.strides.data(), dilation.data(), p.padding.data(), behind.data());
    break;
  }
  PrimitiveDesc desc;
  {
    auto alone = alone_at_making();
    WEFT_ONEDNN(dnnl_primitive_desc_create, desc.out(), &operation, attributes.get(), engine_,
                nullptr);
    WEFT_ONEDNN(dnnl_primitive_create, primitive_.out(), desc.get());
  }
  const char *name = "";
  WEFT_ONEDNN(dnnl_primitive_desc_query, desc.get(), dnnl_query_impl_info_str, 0, &name);
  implementation_ = name;
  if (attempt.fast_only && !is_fast())
    return absl::UnimplementedError(absl::StrCat(
        "oneDNN has no fast convolution of images in this layout, but ", implementation_));

  auto add_all = [&]() -> absl::Status {
    if (p.kind == ConvolutionKind::kInputGradient) {
      WEFT_RETURN_IF_ERROR(add(desc.get(), DNNL_ARG_DIFF_DST, result, false));
      WEFT_RETURN_IF_ERROR(add(desc.get(), DNNL_ARG_WEIGHTS, weights, false));
      return add(desc.get(), DNNL_ARG_DIFF_SRC, image, true);
    }
    WEFT_RETURN_IF_ERROR(add(desc.get(), DNNL_ARG_SRC, image, false));
    if (p.kind == ConvolutionKind::kWeightGradient) {
      WEFT_RETURN_IF_ERROR(add(desc.get(), DNNL_ARG_DIFF_DST, result, false));
      return add(desc.get(), DNNL_ARG_DIFF_WEIGHTS, weights, true, p.packed_weight);
    }
    WEFT_RETURN_IF_ERROR(add(desc.get(), DNNL_ARG_WEIGHTS, weights, false, p.packed_weight));
    if (p.bias)
      WEFT_RETURN_IF_ERROR(add(desc.get(), DNNL_ARG_BIAS, bias, false));
    return add(desc.get(), DNNL_ARG_DST, result, true);
  };
  WEFT_RETURN_IF_ERROR(add_all());

  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  scratchpad_bytes_ =
      scratch == nullptr ? 0 : static_cast<int64_t>(dnnl_memory_desc_get_size(scratch));
  if (scratchpad_bytes_ > 0) {
    WEFT_ONEDNN(dnnl_memory_create, scratchpad_.out(), scratch, engine_, DNNL_MEMORY_NONE);
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
  }
  scratch_bytes_ = runtime::align(scratchpad_bytes_);
  for (auto &operand : operands_) {
    if (!operand->reorder.is_built())
      continue;
    operand->offset = scratch_bytes_;
    scratch_bytes_ += runtime::align(operand->bytes);
  }
  return absl::OkStatus();
}

absl::Status OnednnV2Convolution::run(std::span<void *const> operands, void *scratch) {
  OnednnTeam team(threads_);
  char *memory = static_cast<char *>(scratch);
  if (scratchpad_bytes_ > 0)
    WEFT_ONEDNN(dnnl_memory_set_data_handle, scratchpad_.get(), memory);
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand &operand = *operands_[i];
    bool copied = operand.reorder.is_built();
    void *used = copied ? memory + operand.offset : operands[i];
    WEFT_ONEDNN(dnnl_memory_set_data_handle, operand.wanted.get(), used);
    if (copied && !operand.is_result)
      WEFT_RETURN_IF_ERROR(operand.reorder.run(operands[i], used));
  }
  WEFT_ONEDNN(dnnl_primitive_execute, primitive_.get(), stream_,
              static_cast<int>(arguments_.size()), arguments_.data());
  const Operand &result = *operands_.back();
  if (result.reorder.is_built())
    WEFT_RETURN_IF_ERROR(result.reorder.run(memory + result.offset, operands.back()));
  met_nan_ = team.may_have_met_nan();
  return team.status();
}

} // namespace

bool onednn_convolves_bf16() {
  return takes_bf16();
}

absl::StatusOr<std::unique_ptr<OnednnConvolution>>
OnednnConvolution::create(const ConvolutionProblem &problem, int threads, int copy_threads) {
  for (const std::array<int64_t, 4> &images : {problem.image, problem.result})
    if (!library_counts({images[0], images[2], images[3]}))
      return absl::UnimplementedError(absl::StrCat("oneDNN takes images of at most ",
                                                   kMostOfLibrary, " pixels together, not [",
                                                   absl::StrJoin(images, ", "), "]"));
  if (!library_counts(problem.weight))
    return absl::UnimplementedError(absl::StrCat("oneDNN takes weights of at most ", kMostOfLibrary,
                                                 " elements, not [",
                                                 absl::StrJoin(problem.weight, ", "), "]"));
  absl::Status status;
  for (Attempt attempt : attempts(problem)) {
    auto convolution = std::make_unique<OnednnV2Convolution>(threads, copy_threads);
    status = convolution->build(problem, attempt);
    if (status.ok())
      return convolution;
    if (status.code() != absl::StatusCode::kUnimplemented)
      return status;
  }
  return status;
}

} // namespace weft::backends::cpu

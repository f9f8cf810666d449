// Convolutions by oneDNN 2's C API.
#include <string>
#include <vector>

#include "backends/cpu/device/onednn_convolution.h"
#include "backends/cpu/device/onednn_v2.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

constexpr int64_t kAlignment = 64;
int64_t align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

using PrimitiveDesc = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using Memory = Owned<dnnl_memory_t, dnnl_memory_destroy>;

// An operand of the primitive, in the layout that it wants; `given` is the caller's, where that is another one.
struct Operand {
  int index = 0; // DNNL_ARG_...
  bool is_result = false;
  Memory wanted, given;
  Primitive reorder;
  int64_t offset = -1; // of the reordered copy, in scratch
};

class OnednnV2Convolution : public OnednnConvolution {
public:
  explicit OnednnV2Convolution(int threads) : threads_(threads) {}

  absl::Status build(const ConvolutionProblem &problem);
  std::string_view implementation() const override { return implementation_; }
  int reorders() const override { return reorders_; }
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  absl::Status run(std::span<void *const> operands, void *scratch) override;

private:
  absl::Status add(const_dnnl_primitive_desc_t primitive, int index, const dnnl_memory_desc_t &given, bool is_result);
  absl::Status reorder(Operand &operand) const;

  int threads_;
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
};

absl::Status OnednnV2Convolution::add(const_dnnl_primitive_desc_t primitive, int index, const dnnl_memory_desc_t &given, bool is_result) {
  auto operand = std::make_unique<Operand>();
  operand->index = index;
  operand->is_result = is_result;
  const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(primitive, dnnl_query_exec_arg_md, index);
  if (wanted == nullptr) return absl::InternalError("oneDNN does not say in which layout it wants an operand");
  WEFT_ONEDNN(dnnl_memory_create, operand->wanted.out(), wanted, engine_, DNNL_MEMORY_NONE);
  if (dnnl_memory_desc_equal(wanted, &given) == 0) {
    ++reorders_;
    WEFT_ONEDNN(dnnl_memory_create, operand->given.out(), &given, engine_, DNNL_MEMORY_NONE);
    Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attributes;
    WEFT_ONEDNN(dnnl_primitive_attr_create, attributes.out());
    WEFT_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode, attributes.get(), dnnl_scratchpad_mode_user);
    PrimitiveDesc desc;
    const dnnl_memory_desc_t *from = is_result ? wanted : &given, *to = is_result ? &given : wanted;
    WEFT_ONEDNN(dnnl_reorder_primitive_desc_create, desc.out(), from, engine_, to, engine_, attributes.get());
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
    // Plain and blocked layouts of one dtype need none; should a version want some, its own memory would escape the plan.
    if (scratch != nullptr && dnnl_memory_desc_get_size(scratch) > 0)
      return absl::UnimplementedError("oneDNN wants scratch memory for a reorder of a convolution's operand");
    WEFT_ONEDNN(dnnl_primitive_create, operand->reorder.out(), desc.get());
    operand->offset = static_cast<int64_t>(dnnl_memory_desc_get_size(wanted)); // bytes, until offsets are known
  }
  arguments_.push_back({index, operand->wanted.get()});
  operands_.push_back(std::move(operand));
  return absl::OkStatus();
}

absl::Status OnednnV2Convolution::build(const ConvolutionProblem &p) {
  auto both = engine_and_stream();
  if (!both.ok()) return both.status();
  std::tie(engine_, stream_) = *both;

  std::vector<int64_t> weight(p.weight.begin(), p.weight.end());
  if (p.groups > 1) {
    weight[0] /= p.groups;
    weight.insert(weight.begin(), p.groups);
  }
  dnnl_memory_desc_t image, weights, bias, result; // the caller's layouts
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &image, 4, p.image.data(), dnnl_f32, dnnl_nchw);
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &weights, static_cast<int>(weight.size()), weight.data(), dnnl_f32,
              p.groups > 1 ? dnnl_goihw : dnnl_oihw);
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &bias, 1, p.weight.data(), dnnl_f32, dnnl_x);
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &result, 4, p.result.data(), dnnl_f32, dnnl_nchw);
  dnnl_memory_desc_t any_image = image, any_weights, any_result = result;
  if (p.own_layouts) {
    WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &any_image, 4, p.image.data(), dnnl_f32, dnnl_format_tag_any);
    WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &any_result, 4, p.result.data(), dnnl_f32, dnnl_format_tag_any);
  }
  WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &any_weights, static_cast<int>(weight.size()), weight.data(), dnnl_f32, dnnl_format_tag_any);

  // oneDNN counts dilation from 0, and the rows behind the last window are not padding but left over: a negative number.
  std::array<int64_t, 2> dilation, behind;
  for (size_t i = 0; i < 2; ++i) {
    dilation[i] = p.dilation[i] - 1;
    behind[i] = (p.result[2 + i] - 1) * p.strides[i] + p.dilation[i] * (p.weight[2 + i] - 1) + 1 - p.image[2 + i] - p.padding[i];
  }
  Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attributes;
  WEFT_ONEDNN(dnnl_primitive_attr_create, attributes.out());
  WEFT_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode, attributes.get(), dnnl_scratchpad_mode_user);
  if (p.relu) {
    Owned<dnnl_post_ops_t, dnnl_post_ops_destroy> post_ops;
    WEFT_ONEDNN(dnnl_post_ops_create, post_ops.out());
    WEFT_ONEDNN(dnnl_post_ops_append_eltwise, post_ops.get(), 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
    WEFT_ONEDNN(dnnl_primitive_attr_set_post_ops, attributes.get(), post_ops.get());
  }

  runtime::ScopedTeamSize team(threads_);
  dnnl_convolution_desc_t operation;
  switch (p.kind) {
  case ConvolutionKind::kForward:
    WEFT_ONEDNN(dnnl_dilated_convolution_forward_desc_init, &operation, dnnl_forward_inference, dnnl_convolution_direct, &any_image,
                &any_weights, p.bias ? &bias : nullptr, &any_result, p.strides.data(), dilation.data(), p.padding.data(), behind.data());
    break;
  case ConvolutionKind::kInputGradient:
    WEFT_ONEDNN(dnnl_dilated_convolution_backward_data_desc_init, &operation, dnnl_convolution_direct, &any_image, &any_weights,
                &any_result, p.strides.data(), dilation.data(), p.padding.data(), behind.data());
    break;
  case ConvolutionKind::kWeightGradient:
    WEFT_ONEDNN(dnnl_dilated_convolution_backward_weights_desc_init, &operation, dnnl_convolution_direct, &any_image, &any_weights, nullptr,
                &any_result, p.strides.data(), dilation.data(), p.padding.data(), behind.data());
    break;
  }
  PrimitiveDesc desc;
  WEFT_ONEDNN(dnnl_primitive_desc_create, desc.out(), &operation, attributes.get(), engine_, nullptr);
  WEFT_ONEDNN(dnnl_primitive_create, primitive_.out(), desc.get());
  const char *name = "";
  WEFT_ONEDNN(dnnl_primitive_desc_query, desc.get(), dnnl_query_impl_info_str, 0, &name);
  implementation_ = name;

  auto add_all = [&]() -> absl::Status {
    if (p.kind == ConvolutionKind::kInputGradient) {
      if (absl::Status status = add(desc.get(), DNNL_ARG_DIFF_DST, result, false); !status.ok()) return status;
      if (absl::Status status = add(desc.get(), DNNL_ARG_WEIGHTS, weights, false); !status.ok()) return status;
      return add(desc.get(), DNNL_ARG_DIFF_SRC, image, true);
    }
    if (absl::Status status = add(desc.get(), DNNL_ARG_SRC, image, false); !status.ok()) return status;
    if (p.kind == ConvolutionKind::kWeightGradient) {
      if (absl::Status status = add(desc.get(), DNNL_ARG_DIFF_DST, result, false); !status.ok()) return status;
      return add(desc.get(), DNNL_ARG_DIFF_WEIGHTS, weights, true);
    }
    if (absl::Status status = add(desc.get(), DNNL_ARG_WEIGHTS, weights, false); !status.ok()) return status;
    if (p.bias)
      if (absl::Status status = add(desc.get(), DNNL_ARG_BIAS, bias, false); !status.ok()) return status;
    return add(desc.get(), DNNL_ARG_DST, result, true);
  };
  if (absl::Status status = add_all(); !status.ok()) return status;

  const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  scratchpad_bytes_ = scratch == nullptr ? 0 : static_cast<int64_t>(dnnl_memory_desc_get_size(scratch));
  if (scratchpad_bytes_ > 0) {
    WEFT_ONEDNN(dnnl_memory_create, scratchpad_.out(), scratch, engine_, DNNL_MEMORY_NONE);
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
  }
  scratch_bytes_ = align(scratchpad_bytes_);
  for (auto &operand : operands_) {
    if (operand->given.get() == nullptr) continue;
    int64_t bytes = operand->offset;
    operand->offset = scratch_bytes_;
    scratch_bytes_ += align(bytes);
  }
  return absl::OkStatus();
}

absl::Status OnednnV2Convolution::reorder(Operand &operand) const {
  dnnl_memory_t from = operand.is_result ? operand.wanted.get() : operand.given.get();
  dnnl_memory_t to = operand.is_result ? operand.given.get() : operand.wanted.get();
  dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  WEFT_ONEDNN(dnnl_primitive_execute, operand.reorder.get(), stream_, 2, arguments);
  return absl::OkStatus();
}

absl::Status OnednnV2Convolution::run(std::span<void *const> operands, void *scratch) {
  runtime::ScopedTeamSize team(threads_);
  char *memory = static_cast<char *>(scratch);
  if (scratchpad_bytes_ > 0) WEFT_ONEDNN(dnnl_memory_set_data_handle, scratchpad_.get(), memory);
  for (size_t i = 0; i < operands_.size(); ++i) {
    Operand &operand = *operands_[i];
    bool reordered = operand.given.get() != nullptr;
    WEFT_ONEDNN(dnnl_memory_set_data_handle, operand.wanted.get(), reordered ? memory + operand.offset : operands[i]);
    if (!reordered) continue;
    WEFT_ONEDNN(dnnl_memory_set_data_handle, operand.given.get(), operands[i]);
    if (operand.is_result) continue;
    if (absl::Status status = reorder(operand); !status.ok()) return status;
  }
  WEFT_ONEDNN(dnnl_primitive_execute, primitive_.get(), stream_, static_cast<int>(arguments_.size()), arguments_.data());
  Operand &result = *operands_.back();
  return result.given.get() != nullptr ? reorder(result) : absl::OkStatus();
}

} // namespace

absl::StatusOr<std::unique_ptr<OnednnConvolution>> OnednnConvolution::create(const ConvolutionProblem &problem, int threads) {
  auto convolution = std::make_unique<OnednnV2Convolution>(threads);
  if (absl::Status status = convolution->build(problem); !status.ok()) return status;
  return convolution;
}

} // namespace weft::backends::cpu

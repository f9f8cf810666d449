// Matmul by oneDNN 2's C API. A newer oneDNN replaces the onednn_v2 files and no other.

#include "absl/strings/str_cat.h"
#include "backends/cpu/device/library_sizes.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/onednn_threads.h"
#include "backends/cpu/device/onednn_v2_reorder.h"
#include "runtime/core/status.h"

namespace weft::backends::cpu {
namespace {

absl::StatusOr<dnnl_memory_desc_t> memory_desc(const StridedShape &shape) {
  dnnl_memory_desc_t desc;
  for (int64_t dim : shape.dims)
    if (!library_counts({dim}))
      return absl::UnimplementedError(
          absl::StrCat("oneDNN takes dims of at most ", kMostOfLibrary, ", not ", dim));
  if (shape.dims.size() > DNNL_MAX_NDIMS)
    return absl::UnimplementedError(
        absl::StrCat("oneDNN takes at most ", DNNL_MAX_NDIMS, " dims, not ", shape.dims.size()));
  WEFT_ONEDNN(dnnl_memory_desc_init_by_strides, &desc, static_cast<int>(shape.dims.size()),
              shape.dims.data(), data_type(shape.dtype), shape.strides.data());
  return desc;
}

dnnl_alg_kind_t binary_kind(PostOp op) {
  switch (op) {
  case PostOp::kSub:
    return dnnl_binary_sub;
  case PostOp::kMul:
    return dnnl_binary_mul;
  case PostOp::kMax:
    return dnnl_binary_max;
  case PostOp::kMin:
    return dnnl_binary_min;
  default:
    return dnnl_binary_add;
  }
}

class OnednnV2Matmul : public OnednnMatmul {
public:
  explicit OnednnV2Matmul(int threads) : threads_(threads) {}
  ~OnednnV2Matmul() override {
    for (const dnnl_exec_arg_t &argument : arguments_)
      dnnl_memory_destroy(argument.memory);
  }

  absl::Status build(const MatmulProblem &problem, bool packed);
  std::string_view implementation() const override {
    return implementation_;
  }
  SumOrder sum_order() const override {
    return sum_order_;
  }
  int64_t scratch_bytes() const override {
    return scratch_bytes_;
  }
  int64_t packed_bytes() const override {
    return packed_bytes_;
  }
  std::string packed_form() const override {
    return packed_form_;
  }
  absl::Status pack(const void *b, void *packed) override;
  absl::Status run(std::span<void *const> operands, void *scratch) override;

private:
  absl::Status build_reorder(const dnnl_memory_desc_t &plain, const dnnl_memory_desc_t &packed);

  absl::Status add_argument(int index, const dnnl_memory_desc_t &desc) {
    dnnl_memory_t memory = nullptr;
    WEFT_ONEDNN(dnnl_memory_create, &memory, &desc, engine_, DNNL_MEMORY_NONE);
    arguments_.push_back({index, memory});
    return absl::OkStatus();
  }

  int threads_;
  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  Owned<dnnl_primitive_t, dnnl_primitive_destroy> primitive_;
  std::string implementation_;
  SumOrder sum_order_ = SumOrder::kFixed;
  int64_t scratch_bytes_ = 0;
  std::vector<dnnl_exec_arg_t> arguments_; // in the order of run()'s operands, then scratch
  int64_t packed_bytes_ = 0;
  std::string packed_form_;
  OnednnV2Reorder reorder_;
};

absl::Status OnednnV2Matmul::build(const MatmulProblem &problem, bool packed) {
  WEFT_ASSIGN_OR_RETURN(auto both, engine_and_stream());
  std::tie(engine_, stream_) = both;

  std::vector<std::pair<int, dnnl_memory_desc_t>> operands;
  auto add = [&](int index, const StridedShape &shape) -> absl::Status {
    absl::StatusOr<dnnl_memory_desc_t> desc = memory_desc(shape);
    if (desc.ok())
      operands.emplace_back(index, *desc);
    return desc.status();
  };
  WEFT_RETURN_IF_ERROR(add(DNNL_ARG_SRC, problem.a));
  WEFT_RETURN_IF_ERROR(add(DNNL_ARG_WEIGHTS, problem.b));
  WEFT_RETURN_IF_ERROR(add(DNNL_ARG_DST, problem.c));
  if (problem.bias)
    WEFT_RETURN_IF_ERROR(add(DNNL_ARG_BIAS, *problem.bias));

  const dnnl_memory_desc_t plain_b = operands[1].second;
  if (packed)
    WEFT_ONEDNN(dnnl_memory_desc_init_by_tag, &operands[1].second,
                static_cast<int>(problem.b.dims.size()), problem.b.dims.data(),
                data_type(problem.b.dtype), dnnl_format_tag_any);

  Owned<dnnl_post_ops_t, dnnl_post_ops_destroy> post_ops;
  WEFT_ONEDNN(dnnl_post_ops_create, post_ops.out());
  int position = 0;
  if (problem.accumulate) {
    WEFT_ONEDNN(dnnl_post_ops_append_sum, post_ops.get(), 1.0f);
    ++position;
  }
  for (const auto &[op, shape] : problem.post_ops) {
    int index = position++;
    if (op == PostOp::kRelu) {
      WEFT_ONEDNN(dnnl_post_ops_append_eltwise, post_ops.get(), 1.0f, dnnl_eltwise_relu, 0.0f,
                  0.0f);
      continue;
    }
    WEFT_RETURN_IF_ERROR(add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1, *shape));
    WEFT_ONEDNN(dnnl_post_ops_append_binary, post_ops.get(), binary_kind(op),
                &operands.back().second);
  }
  Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attributes;
  WEFT_ONEDNN(dnnl_primitive_attr_create, attributes.out());
  WEFT_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode, attributes.get(), dnnl_scratchpad_mode_user);
  WEFT_ONEDNN(dnnl_primitive_attr_set_post_ops, attributes.get(), post_ops.get());

  OnednnTeam team(threads_);
  dnnl_matmul_desc_t operation;
  WEFT_ONEDNN(dnnl_matmul_desc_init, &operation, &operands[0].second, &operands[1].second,
              problem.bias ? &operands[3].second : nullptr, &operands[2].second);
  Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> primitive_desc;
  {
    auto alone = alone_at_making();
    WEFT_ONEDNN(dnnl_primitive_desc_create, primitive_desc.out(), &operation, attributes.get(),
                engine_, nullptr);
    WEFT_ONEDNN(dnnl_primitive_create, primitive_.out(), primitive_desc.get());
  }
  const char *name = "";
  WEFT_ONEDNN(dnnl_primitive_desc_query, primitive_desc.get(), dnnl_query_impl_info_str, 0, &name);
  implementation_ = name;
  bool transposed = problem.a.strides.back() != 1 && problem.a.dims.back() > 1;
  if (implementation_.starts_with("gemm"))
    sum_order_ = SumOrder::kByTeam;
  else if (implementation_.starts_with("brg") && transposed &&
           problem.a.dims.back() >= kSharedTerms)
    sum_order_ = SumOrder::kByTerms;
  if (packed) {
    const dnnl_memory_desc_t *chosen =
        dnnl_primitive_desc_query_md(primitive_desc.get(), dnnl_query_weights_md, 0);
    if (chosen == nullptr)
      return absl::InternalError("oneDNN does not say which form of the weights it takes");
    operands[1].second = *chosen;
    WEFT_RETURN_IF_ERROR(build_reorder(plain_b, *chosen));
  }
  for (const auto &[index, desc] : operands)
    WEFT_RETURN_IF_ERROR(add_argument(index, desc));
  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(primitive_desc.get(), dnnl_query_scratchpad_md, 0);
  scratch_bytes_ =
      scratch == nullptr ? 0 : static_cast<int64_t>(dnnl_memory_desc_get_size(scratch));
  if (scratch_bytes_ > 0)
    return add_argument(DNNL_ARG_SCRATCHPAD, *scratch);
  return absl::OkStatus();
}

absl::Status OnednnV2Matmul::build_reorder(const dnnl_memory_desc_t &plain,
                                           const dnnl_memory_desc_t &packed) {
  if (!is_packed(packed))
    return absl::OkStatus(); // plain: nothing to pack
  packed_bytes_ = static_cast<int64_t>(dnnl_memory_desc_get_size(&packed));
  packed_form_ = form_of(plain, packed);
  return reorder_.build(plain, packed);
}

absl::Status OnednnV2Matmul::pack(const void *b, void *packed) {
  if (packed_bytes_ == 0)
    return absl::FailedPreconditionError("the matmul was not created packed");
  OnednnTeam team(threads_);
  WEFT_RETURN_IF_ERROR(reorder_.run(b, packed));
  return team.status();
}

absl::Status OnednnV2Matmul::run(std::span<void *const> operands, void *scratch) {
  for (size_t i = 0; i < arguments_.size(); ++i)
    WEFT_ONEDNN(dnnl_memory_set_data_handle, arguments_[i].memory,
                i < operands.size() ? operands[i] : scratch);
  OnednnTeam team(threads_);
  WEFT_ONEDNN(dnnl_primitive_execute, primitive_.get(), stream_,
              static_cast<int>(arguments_.size()), arguments_.data());
  return team.status();
}

} // namespace

absl::StatusOr<std::unique_ptr<OnednnMatmul>> OnednnMatmul::create(const MatmulProblem &problem,
                                                                   int threads, bool packed) {
  auto matmul = std::make_unique<OnednnV2Matmul>(threads);
  WEFT_RETURN_IF_ERROR(matmul->build(problem, packed));
  return matmul;
}

bool onednn_packs() {
  return has_avx512();
}

bool onednn_has_fast_bf16() {
  return has_fast_bf16();
}

bool onednn_takes_bf16() {
  return takes_bf16();
}

std::string onednn_version() {
  const dnnl_version_t *version = dnnl_version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

} // namespace weft::backends::cpu

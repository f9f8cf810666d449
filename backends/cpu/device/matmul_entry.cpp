#include "backends/cpu/device/matmul_entry.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/cpu/device/dense_call.h"
#include "backends/cpu/device/matmul_epilogue.h"
#include "backends/cpu/device/matmul_packing.h"
#include "backends/cpu/device/matmul_parts.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/tiled_matmul.h"
#include "backends/cpu/device/widened_call.h"
#include "runtime/core/status.h"

namespace weft::backends::cpu {
namespace {

using runtime::Config;
using runtime::ConfigValue;
using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::TensorRef;

// What oneDNN calls the implementation that it falls back to.
constexpr std::string_view kReference = "ref:any";

constexpr std::string_view kDenseLhs = "dense_lhs";

// The roles of the call's operands.
struct Operands {
  StridedShape a, b, c;
  std::vector<StridedShape> addends; // bias, then second operands of post-ops
};

std::string show(const StridedShape &shape) {
  return absl::StrCat("[", absl::StrJoin(shape.dims, ", "), "] with strides [",
                      absl::StrJoin(shape.strides, ", "), "]");
}

absl::StatusOr<std::vector<int64_t>> permutation(const Config &config, std::string_view key,
                                                 size_t rank) {
  std::vector<int64_t> result(rank);
  for (size_t i = 0; i < rank; ++i)
    result[i] = static_cast<int64_t>(i);
  if (runtime::find_config(config, key) == nullptr)
    return result;
  absl::StatusOr<std::vector<int64_t>> given = runtime::config_ints(config, key);
  if (given.ok() &&
      !std::is_permutation(given->begin(), given->end(), result.begin(), result.end()))
    return absl::InvalidArgumentError(absl::StrCat("config key '", std::string(key),
                                                   "' is not a permutation of ", rank, " dims"));
  return given;
}

void swap_last(StridedShape &shape) {
  size_t rank = shape.dims.size();
  std::swap(shape.dims[rank - 1], shape.dims[rank - 2]);
  std::swap(shape.strides[rank - 1], shape.strides[rank - 2]);
}

// Leading dims of 1, up to the rank.
void pad(StridedShape &shape, size_t rank) {
  size_t missing = rank - std::min(rank, shape.dims.size());
  shape.dims.insert(shape.dims.begin(), missing, 1);
  shape.strides.insert(shape.strides.begin(), missing, 0);
}

// oneDNN knows repetition as a dim of 1 only.
void unrepeat(StridedShape &shape) {
  for (size_t i = 0; i < shape.dims.size(); ++i)
    if (shape.strides[i] == 0)
      shape.dims[i] = 1;
}

void erase_dim(StridedShape &shape, size_t dim) {
  shape.dims.erase(shape.dims.begin() + static_cast<std::ptrdiff_t>(dim));
  shape.strides.erase(shape.strides.begin() + static_cast<std::ptrdiff_t>(dim));
}

// Whether dims `dim` and `dim + 1` of the shape are one dim, given the result's sizes of them: both
// run through the same memory in one stride, or both repeat.
bool merges(const StridedShape &shape, size_t dim, const StridedShape &result) {
  bool outer = shape.dims[dim] == result.dims[dim];
  bool inner = shape.dims[dim + 1] == result.dims[dim + 1];
  if (shape.dims[dim] == 1 && shape.dims[dim + 1] == 1)
    return true;
  if (result.dims[dim] == 1 || result.dims[dim + 1] == 1)
    return true;
  return outer && inner && shape.strides[dim] == shape.strides[dim + 1] * shape.dims[dim + 1];
}

void merge(StridedShape &shape, size_t dim) {
  if (shape.dims[dim + 1] == 1)
    shape.strides[dim + 1] = shape.strides[dim];
  shape.dims[dim + 1] *= shape.dims[dim];
  erase_dim(shape, dim);
}

// Strides of dims of 1 mean nothing; oneDNN chooses its implementation by them all the same, so
// give them those of contiguous memory.
void tidy(StridedShape &shape) {
  size_t rank = shape.dims.size();
  for (size_t i = rank; i-- > 0;)
    if (shape.dims[i] == 1)
      shape.strides[i] =
          i + 1 == rank ? 1 : std::max<int64_t>(shape.strides[i + 1] * shape.dims[i + 1], 1);
}

absl::StatusOr<Operands> read_operands(const LibraryCall &call) {
  absl::StatusOr<int64_t> has_bias = runtime::config_int(call.config, "bias", 0);
  absl::StatusOr<int64_t> transpose_lhs = runtime::config_int(call.config, "transpose_lhs", 0);
  absl::StatusOr<int64_t> transpose_rhs = runtime::config_int(call.config, "transpose_rhs", 0);
  for (const auto *value : {&has_bias, &transpose_lhs, &transpose_rhs})
    if (!value->ok())
      return value->status();
  if (call.operands.size() < 3 || static_cast<size_t>(call.inputs) != call.operands.size() - 1)
    return absl::InvalidArgumentError(absl::StrCat(
        "takes lhs, rhs, other inputs and out; there are ", call.inputs, " inputs and ",
        call.operands.size() - static_cast<size_t>(call.inputs), " outputs"));
  bool narrow = call.operands[0].dtype == DType::kBFloat16;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    DType dtype = call.operands[i].dtype;
    bool taken = dtype == DType::kFloat32 ? i > 1 || !narrow
                                          : narrow && dtype == DType::kBFloat16 &&
                                                (i < 2 || i + 1 == call.operands.size());
    if (!taken)
      return absl::UnimplementedError(absl::StrCat(
          "operand ", i, " is ", name(dtype),
          "; lhs and rhs are both float32 or bfloat16, beside bfloat16 ones out may be, too, and "
          "all others are float32"));
  }
  auto permuted = [&](const TensorRef &operand,
                      std::string_view key) -> absl::StatusOr<StridedShape> {
    WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> order,
                          permutation(call.config, key, operand.dims.size()));
    StridedShape shape{{}, {}, operand.dtype};
    for (int64_t dim : order) {
      shape.dims.push_back(operand.dims[static_cast<size_t>(dim)]);
      shape.strides.push_back(operand.strides[static_cast<size_t>(dim)]);
    }
    return shape;
  };
  Operands result;
  WEFT_ASSIGN_OR_RETURN(StridedShape a, permuted(call.operands[0], "lhs_permutation"));
  WEFT_ASSIGN_OR_RETURN(StridedShape b, permuted(call.operands[1], "rhs_permutation"));
  const TensorRef &out = call.operands.back();
  WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> out_order,
                        permutation(call.config, "out_permutation", out.dims.size()));
  StridedShape c{std::vector<int64_t>(out.dims.size()), std::vector<int64_t>(out.dims.size()),
                 out.dtype};
  for (size_t i = 0; i < out.dims.size(); ++i) {
    c.dims[static_cast<size_t>(out_order[i])] = out.dims[i];
    c.strides[static_cast<size_t>(out_order[i])] = out.strides[i];
  }
  size_t rank = c.dims.size();
  if (a.dims.size() < 2 || b.dims.size() < 2 || std::max(a.dims.size(), b.dims.size()) != rank)
    return absl::InvalidArgumentError(absl::StrCat("matrices of ranks ", a.dims.size(), " and ",
                                                   b.dims.size(), " into rank ", rank));
  if (*transpose_lhs != 0)
    swap_last(a);
  if (*transpose_rhs != 0)
    swap_last(b);
  pad(a, rank);
  pad(b, rank);
  bool fits = a.dims[rank - 2] == c.dims[rank - 2] && b.dims[rank - 1] == c.dims[rank - 1] &&
              a.dims[rank - 1] == b.dims[rank - 2];
  for (size_t i = 0; i + 2 < rank; ++i) {
    int64_t x = a.dims[i], y = b.dims[i];
    fits = fits && (x == y || x == 1 || y == 1) && c.dims[i] == (x == 1 ? y : x);
  }
  if (!fits)
    return absl::InvalidArgumentError(
        absl::StrCat("shapes do not fit: ", show(a), " x ", show(b), " -> ", show(c)));
  result.a = std::move(a);
  result.b = std::move(b);
  result.c = std::move(c);
  for (size_t i = 2; i + 1 < call.operands.size(); ++i) {
    StridedShape addend{call.operands[i].dims, call.operands[i].strides, call.operands[i].dtype};
    if (addend.dims.size() > rank)
      return absl::InvalidArgumentError(
          absl::StrCat("operand ", i, " has a higher rank than the result"));
    pad(addend, rank);
    for (size_t d = 0; d < rank; ++d)
      if (addend.dims[d] != 1 && addend.dims[d] != result.c.dims[d])
        return absl::InvalidArgumentError(absl::StrCat("operand ", i, ", ", show(addend),
                                                       ", does not broadcast to ", show(result.c)));
    result.addends.push_back(std::move(addend));
  }
  return result;
}

absl::StatusOr<std::vector<PostOp>> read_post_ops(const LibraryCall &call) {
  static constexpr std::pair<std::string_view, PostOp> kNames[] = {
      {"relu", PostOp::kRelu}, {"add", PostOp::kAdd}, {"sub", PostOp::kSub},
      {"mul", PostOp::kMul},   {"max", PostOp::kMax}, {"min", PostOp::kMin}};
  WEFT_ASSIGN_OR_RETURN(std::string text, runtime::config_string(call.config, "post_ops", ""));
  std::vector<PostOp> result;
  for (const std::string &word :
       std::vector<std::string>(absl::StrSplit(text, ',', absl::SkipEmpty()))) {
    const auto *known = std::find_if(std::begin(kNames), std::end(kNames),
                                     [&](const auto &row) { return row.first == word; });
    if (known == std::end(kNames))
      return absl::UnimplementedError(absl::StrCat("no post-op '", word, "'"));
    result.push_back(known->second);
  }
  return result;
}

bool contiguous_to(const StridedShape &shape, size_t dim) {
  return shape.dims[dim] == 1 || shape.strides[dim] == 1;
}

// Rewrites the problem into one that oneDNN has a fast implementation for. Nothing moves in memory.
// True when a and b changed places.
bool normalize(Operands &o) {
  size_t rank = o.c.dims.size();
  auto each = [&](auto apply) {
    apply(o.a);
    apply(o.b);
    apply(o.c);
    for (StridedShape &addend : o.addends)
      apply(addend);
  };
  // Matrix dims keep their size: a repeated one of a or b is no broadcast to oneDNN.
  for (StridedShape *side : {&o.a, &o.b})
    for (size_t i = 0; i + 2 < rank; ++i)
      if (side->strides[i] == 0)
        side->dims[i] = 1;
  for (StridedShape &addend : o.addends)
    unrepeat(addend);
  bool swapped = !contiguous_to(o.c, rank - 1) && contiguous_to(o.c, rank - 2);
  if (swapped) {
    std::swap(o.a, o.b);
    each(swap_last);
  }
  auto all_merge = [&](size_t dim) {
    return merges(o.a, dim, o.c) && merges(o.b, dim, o.c) && merges(o.c, dim, o.c) &&
           std::all_of(o.addends.begin(), o.addends.end(),
                       [&](const StridedShape &addend) { return merges(addend, dim, o.c); });
  };
  for (size_t dim = 0; dim + 3 < o.c.dims.size();) {
    if (!all_merge(dim)) {
      ++dim;
      continue;
    }
    each([&](StridedShape &shape) { merge(shape, dim); });
  }
  // A single batch dim that b repeats is more rows of a.
  if (o.c.dims.size() == 3 && o.b.dims[0] == 1) {
    bool rows = merges(o.a, 0, o.c) && merges(o.c, 0, o.c) &&
                std::all_of(o.addends.begin(), o.addends.end(),
                            [&](const StridedShape &addend) { return merges(addend, 0, o.c); });
    if (rows) {
      for (StridedShape *shape : {&o.a, &o.c})
        merge(*shape, 0);
      erase_dim(o.b, 0);
      for (StridedShape &addend : o.addends)
        merge(addend, 0);
    }
  }
  each(tidy);
  return swapped;
}

class MatmulState : public LibraryCallState {
public:
  int64_t scratch_bytes() const override {
    return matmul_->scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    // oneDNN's order: a, b, c, then the rest.
    pointers_[0] = operands[swapped_ ? 1 : 0];
    pointers_[1] = operands[swapped_ ? 0 : 1];
    pointers_[2] = operands.back();
    std::span<void *const> addends = operands.subspan(2, operands.size() - 3);
    if (!epilogue_) {
      std::copy(addends.begin(), addends.end(), pointers_.begin() + 3);
      return matmul_->run(pointers_, scratch);
    }
    WEFT_RETURN_IF_ERROR(matmul_->run({pointers_.data(), 3}, scratch));
    apply_epilogue(*epilogue_, static_cast<float *>(operands.back()), addends, threads_);
    return absl::OkStatus();
  }

  std::unique_ptr<OnednnMatmul> matmul_;
  MatmulProblem problem_;                 // of the primitive
  std::optional<MatmulProblem> epilogue_; // bias and post-ops that run after the primitive
  int threads_ = 1;
  bool swapped_ = false;
  std::vector<void *> pointers_;
};

// Nothing to multiply: an empty result, or sums of no terms.
class EmptyState : public LibraryCallState {
public:
  explicit EmptyState(int64_t zero_bytes) : zero_bytes_(zero_bytes) {}
  absl::Status run(std::span<void *const> operands, void *) override {
    if (zero_bytes_ > 0)
      std::memset(operands.back(), 0, static_cast<size_t>(zero_bytes_));
    return absl::OkStatus();
  }

private:
  int64_t zero_bytes_;
};

bool is_dense(const TensorRef &tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    if (tensor.dims[i] != 1)
      dims.emplace_back(tensor.strides[i], tensor.dims[i]);
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (auto [stride, dim] : dims) {
    if (stride != expected)
      return false;
    expected *= dim;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<LibraryCallState>> make(const LibraryCall &call, int threads,
                                                       std::string *implementation,
                                                       MatmulState **made = nullptr) {
  WEFT_ASSIGN_OR_RETURN(Operands operands, read_operands(call));
  WEFT_ASSIGN_OR_RETURN(std::vector<PostOp> post_ops, read_post_ops(call));
  bool has_bias = runtime::config_int(call.config, "bias", 0).value() != 0;
  size_t binary = static_cast<size_t>(std::count_if(post_ops.begin(), post_ops.end(),
                                                    [](PostOp op) { return op != PostOp::kRelu; }));
  if (operands.addends.size() != binary + (has_bias ? 1 : 0))
    return absl::InvalidArgumentError(
        absl::StrCat("bias and post_ops take ", binary + (has_bias ? 1 : 0),
                     " operands beside lhs, rhs and out; there are ", operands.addends.size()));
  const TensorRef &out = call.operands.back();
  bool empty = std::find(out.dims.begin(), out.dims.end(), 0) != out.dims.end();
  if (empty || operands.a.dims.back() == 0) {
    int64_t bytes = byte_size(out.dtype);
    for (int64_t dim : out.dims)
      bytes *= dim;
    if (!empty && (has_bias || !post_ops.empty() || !is_dense(out)))
      return absl::UnimplementedError(
          "a sum of no terms with bias, post-ops or gaps in the result");
    if (implementation != nullptr)
      *implementation = "none";
    return std::make_unique<EmptyState>(bytes);
  }
  for (const StridedShape *shape : {&operands.a, &operands.b, &operands.c})
    for (int64_t stride : shape->strides)
      if (stride < 0)
        return absl::UnimplementedError(absl::StrCat("negative strides: ", show(*shape)));

  auto state = std::make_unique<MatmulState>();
  state->swapped_ = normalize(operands);
  MatmulProblem problem{operands.a, operands.b, operands.c, std::nullopt, {}};
  size_t next = 0;
  if (has_bias) {
    const StridedShape &bias = operands.addends[next++];
    // oneDNN's own bias is a row; any other shape is added by a post-op.
    bool row =
        std::all_of(bias.dims.begin(), bias.dims.end() - 1, [](int64_t dim) { return dim == 1; }) &&
        bias.dims.back() == operands.c.dims.back() && bias.strides.back() == 1;
    if (row)
      problem.bias = bias;
    else
      problem.post_ops.emplace_back(PostOp::kAdd, bias);
  }
  for (PostOp op : post_ops) {
    if (op == PostOp::kRelu)
      problem.post_ops.emplace_back(op, std::nullopt);
    else
      problem.post_ops.emplace_back(op, operands.addends[next++]);
  }
  bool plain = !problem.bias && problem.post_ops.empty();
  absl::StatusOr<std::unique_ptr<OnednnMatmul>> matmul = create_matmul(problem, threads);
  if (!matmul.ok())
    return absl::Status(matmul.status().code(),
                        absl::StrCat(show(problem.a), " x ", show(problem.b), " -> ",
                                     show(problem.c), ": ", matmul.status().message()));
  if (!plain && (*matmul)->implementation() == kReference && problem.c.dtype == DType::kFloat32) {
    // Without bias and post-ops oneDNN may have a fast one; they follow in a pass over the result.
    absl::StatusOr<std::unique_ptr<OnednnMatmul>> bare =
        create_matmul({problem.a, problem.b, problem.c, std::nullopt, {}}, threads);
    if (bare.ok() && (*bare)->implementation() != kReference) {
      matmul = std::move(bare);
      state->epilogue_ = problem;
    }
  }
  state->problem_ =
      state->epilogue_ ? MatmulProblem{problem.a, problem.b, problem.c, std::nullopt, {}} : problem;
  state->threads_ = threads;
  state->matmul_ = *std::move(matmul);
  state->pointers_.resize(call.operands.size());
  if (implementation != nullptr)
    *implementation = std::string(state->matmul_->implementation());
  if (made != nullptr)
    *made = state.get();
  return state;
}

// A call whose b is packed. Everything but the primitive is the plain call's.
class PackedMatmulState : public runtime::PackedCallState {
public:
  PackedMatmulState(std::unique_ptr<LibraryCallState> owner, MatmulState &state)
      : owner_(std::move(owner)), state_(state) {}
  int operand() const override {
    return state_.swapped_ ? 0 : 1;
  }
  int64_t packed_bytes() const override {
    return state_.matmul_->packed_bytes();
  }
  std::string form() const override {
    return state_.matmul_->packed_form();
  }
  absl::Status pack(const void *plain, void *packed) override {
    return state_.matmul_->pack(plain, packed);
  }
  int64_t scratch_bytes() const override {
    return state_.scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    return state_.run(operands, scratch);
  }

private:
  std::unique_ptr<LibraryCallState> owner_;
  MatmulState &state_;
};

int64_t plain_bytes(const StridedShape &b) {
  return b.dims[0] * b.dims[1] * byte_size(b.dtype);
}

// Null where packing does not pay (matmul_packing.h) or would change the result: only the
// implementations named brg, and ours, compute the same bits from both forms.
absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
make_packed(const LibraryCall &call, const std::vector<bool> &stable, int threads) {
  MatmulState *state = nullptr;
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<LibraryCallState> owner,
                        make(call, threads, nullptr, &state));
  if (state == nullptr || !stable[state->swapped_ ? 0 : 1])
    return nullptr;
  const StridedShape &b = state->problem_.b;
  std::string_view implementation = state->matmul_->implementation();
  bool by_tiles = implementation == kTiledMatmul;
  auto *pays = by_tiles ? packing_into_tiles_pays : packing_pays;
  if (b.dims.size() != 2 || !pays(state->problem_.c.dims[0], plain_bytes(b)))
    return nullptr;
  if (!by_tiles && implementation.substr(0, 4) != "brg:")
    return nullptr;
  absl::StatusOr<std::unique_ptr<OnednnMatmul>> packed =
      create_matmul(state->problem_, threads, /*packed=*/true);
  if (!packed.ok() || (*packed)->implementation() != implementation ||
      (*packed)->packed_bytes() == 0)
    return nullptr;
  if ((*packed)->packed_bytes() > kMaxPackedGrowth * plain_bytes(b))
    return nullptr;
  state->matmul_ = *std::move(packed);
  return std::make_unique<PackedMatmulState>(std::move(owner), *state);
}

class MatmulEntry : public runtime::ConcurrentEntry {
public:
  std::string_view name() const override {
    return "onednn.matmul";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    WEFT_ASSIGN_OR_RETURN(int64_t packed_rhs, runtime::config_int(call.config, "packed_rhs", 0));
    if (runtime::find_config(call.config, kDenseLhs) != nullptr) {
      LibraryCall rest = call;
      std::erase_if(rest.config, [](const auto &entry) { return entry.first == kDenseLhs; });
      return init_dense(std::move(rest), *this, threads);
    }
    if (has_narrow_operands(call) && !onednn_takes_bf16())
      return init_widened(call, *this, threads);
    if (packed_rhs != 0) {
      WEFT_ASSIGN_OR_RETURN(std::unique_ptr<runtime::PackedCallState> packed,
                            matmul_with_packed_rhs(call, threads));
      if (packed)
        return packed;
    }
    return make(call, threads, nullptr);
  }
  double operations(const LibraryCall &call) const override {
    absl::StatusOr<Operands> operands = read_operands(call);
    if (!operands.ok() || operands->a.dims.empty())
      return 0;
    auto result = static_cast<double>(2 * operands->a.dims.back());
    for (int64_t dim : call.operands.back().dims)
      result *= static_cast<double>(dim);
    return result;
  }
  absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
  init_packed(const LibraryCall &call, const std::vector<bool> &stable,
              int threads) const override {
    if (has_narrow_operands(call) && !onednn_takes_bf16())
      return nullptr;
    if (runtime::find_config(call.config, "packed_rhs") != nullptr ||
        runtime::find_config(call.config, kDenseLhs) != nullptr)
      return nullptr; // "onednn.pack" has made it; what is packed reads operands as they lie
    return make_packed(call, stable, threads);
  }
};

} // namespace

absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
matmul_with_packed_rhs(const LibraryCall &call, int threads) {
  std::vector<bool> stable(call.operands.size());
  if (stable.size() > 1)
    stable[1] = true;
  auto packed = make_packed(call, stable, threads);
  if (!packed.ok() || !*packed)
    return packed;
  int64_t bytes = byte_size(call.operands[1].dtype);
  for (int64_t dim : call.operands[1].dims)
    bytes *= dim;
  if ((*packed)->packed_bytes() > bytes)
    return nullptr;
  return packed;
}

const runtime::LibraryEntry &matmul_entry() {
  static const MatmulEntry entry;
  return entry;
}

absl::StatusOr<std::string> matmul_implementation(const LibraryCall &call, int threads) {
  std::string implementation;
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<LibraryCallState> state,
                        make(call, threads, &implementation));
  return implementation;
}

} // namespace weft::backends::cpu

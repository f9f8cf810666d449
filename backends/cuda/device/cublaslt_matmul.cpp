#include "backends/cuda/device/cublaslt_matmul.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/core/alignment.h"
#include "runtime/core/status.h"

namespace weft::backends::cuda {
namespace {

using runtime::LibraryCall;
using runtime::TensorRef;

std::string show(const TensorRef &tensor) {
  return absl::StrCat(name(tensor.dtype), "[", absl::StrJoin(tensor.dims, ", "), "]");
}

// What cuBLASLt calls a type, and what it computes with it.
struct Numbers {
  DType dtype;
  int type, compute, scale; // scale: the type of alpha and beta
};
constexpr Numbers kNumbers[] = {
    {DType::kFloat32, kCudaR32F, kCublasCompute32F, kCudaR32F},
    {DType::kFloat64, kCudaR64F, kCublasCompute64F, kCudaR64F},
    {DType::kFloat16, kCudaR16F, kCublasCompute32F, kCudaR32F},
    {DType::kBFloat16, kCudaR16BF, kCublasCompute32F, kCudaR32F},
};

const Numbers *numbers_of(DType dtype) {
  auto found = std::find_if(std::begin(kNumbers), std::end(kNumbers),
                            [&](const Numbers &one) { return one.dtype == dtype; });
  return found == std::end(kNumbers) ? nullptr : &*found;
}

struct Problem {
  Numbers factors = kNumbers[0], result = kNumbers[0];
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_lhs = false, transpose_rhs = false, one_rhs = false, bias = false, relu = false;
  // What lhs, rhs, out and the bias begin at a multiple of, in bytes.
  std::array<uint32_t, 4> aligned{};
};

// Of a batch.
constexpr int64_t kMostProducts = std::numeric_limits<int32_t>::max();

absl::StatusOr<Problem> read(const LibraryCall &call) {
  WEFT_ASSIGN_OR_RETURN(int64_t left, runtime::config_int(call.config, "transpose_lhs", 0));
  WEFT_ASSIGN_OR_RETURN(int64_t right, runtime::config_int(call.config, "transpose_rhs", 0));
  WEFT_ASSIGN_OR_RETURN(int64_t has_bias, runtime::config_int(call.config, "bias", 0));
  WEFT_ASSIGN_OR_RETURN(std::string post_ops, runtime::config_string(call.config, "post_ops", ""));
  if (!post_ops.empty() && post_ops != "relu")
    return absl::InvalidArgumentError(
        absl::StrCat("config post_ops is '", post_ops, "'; it must be relu, or not there"));
  bool biased = has_bias != 0;
  if (call.operands.size() != (biased ? 4 : 3) || call.inputs != (biased ? 3 : 2))
    return absl::InvalidArgumentError(
        "takes lhs, rhs and out, and before out the bias where config has bias 1");
  const TensorRef &lhs = call.operands[0], &rhs = call.operands[1], &out = call.operands.back();
  auto refuse = [&](const char *why) {
    return absl::InvalidArgumentError(absl::StrCat(why, ": lhs ", show(lhs), ", rhs ", show(rhs),
                                                   biased ? ", bias " + show(call.operands[2]) : "",
                                                   ", out ", show(out)));
  };
  size_t rank = out.dims.size();
  const Numbers *factors = numbers_of(lhs.dtype), *result = numbers_of(out.dtype);
  if (factors == nullptr || rhs.dtype != lhs.dtype)
    return refuse("takes factors of one floating-point dtype");
  if (result == nullptr || (result != factors && result->type != factors->scale))
    return refuse("gives a result in the dtype of the factors, or in float32 for those of 16 bits");
  for (const TensorRef &operand : call.operands) {
    bool is_bias = biased && &operand == &call.operands[2];
    if (operand.dims.size() < 2 && !is_bias)
      return refuse("takes operands of two or more dims");
    int64_t stride = 1;
    for (size_t i = operand.dims.size(); i-- > 0; stride *= operand.dims[i])
      if (operand.dims[i] != 1 && operand.strides[i] != stride)
        return refuse("takes contiguous operands");
    if (is_bias && (operand.dtype != out.dtype || stride != out.dims.back()))
      return refuse("takes a bias of one number a column, in the result's dtype");
  }
  Problem problem;
  problem.bias = biased;
  problem.relu = !post_ops.empty();
  const TensorRef *operands[] = {&lhs, &rhs, &out, biased ? &call.operands[2] : &out};
  for (size_t i = 0; i < problem.aligned.size(); ++i)
    problem.aligned[i] =
        static_cast<uint32_t>(std::gcd(runtime::kBufferAlignment, operands[i]->offset));
  problem.factors = *factors;
  problem.result = *result;
  problem.transpose_lhs = left != 0;
  problem.transpose_rhs = right != 0;
  problem.one_rhs = rhs.dims.size() == 2;
  if (lhs.dims.size() != rank || (!problem.one_rhs && rhs.dims.size() != rank))
    return refuse("takes operands of one rank, or an rhs of rank 2");
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (lhs.dims[i] != out.dims[i] || (!problem.one_rhs && rhs.dims[i] != out.dims[i]))
      return refuse("does not repeat batch dims");
    problem.batch *= out.dims[i];
  }
  auto last = [](const TensorRef &tensor, int from_end) {
    return tensor.dims[tensor.dims.size() - static_cast<size_t>(from_end)];
  };
  problem.m = last(out, 2);
  problem.n = last(out, 1);
  problem.k = last(lhs, problem.transpose_lhs ? 2 : 1);
  if (last(lhs, problem.transpose_lhs ? 1 : 2) != problem.m ||
      last(rhs, problem.transpose_rhs ? 1 : 2) != problem.k ||
      last(rhs, problem.transpose_rhs ? 2 : 1) != problem.n)
    return refuse("the operands do not fit each other");
  if (problem.m == 0 || problem.n == 0 || problem.k == 0 || problem.batch == 0)
    return refuse("there is nothing to multiply");
  // A batch of rows times one matrix is only more rows.
  if (problem.one_rhs && !problem.transpose_lhs) {
    problem.m *= problem.batch;
    problem.batch = 1;
  }
  if (problem.batch > kMostProducts)
    return refuse("counts the products of a batch in 32 bits");
  return problem;
}

class Matmul : public runtime::LibraryCallState {
public:
  Matmul(std::shared_ptr<CudaDevice> device, const CublasLt &library, CublasHandle handle)
      : device_(std::move(device)), library_(library), handle_(handle) {}
  ~Matmul() override {
    for (CublasLayout layout : {a_, b_, c_})
      if (layout != nullptr)
        (void)library_.layout_destroy(layout);
    if (desc_ != nullptr)
      (void)library_.desc_destroy(desc_);
  }

  // cuBLASLt's matrices are column-major, that is, ours transposed: it computes out^T = rhs^T
  // lhs^T.
  absl::Status init(const Problem &problem) {
    int32_t first = problem.transpose_rhs ? kCublasOpT : kCublasOpN,
            second = problem.transpose_lhs ? kCublasOpT : kCublasOpN;
    numbers_ = problem.factors;
    aligned_ = problem.aligned;
    absl::Status status =
        library_.check(library_.desc_create(&desc_, numbers_.compute, numbers_.scale),
                       "describing a product");
    if (status.ok())
      status = library_.check(library_.desc_set(desc_, kDescTransposeA, &first, sizeof(first)),
                              "describing a product");
    if (status.ok())
      status = library_.check(library_.desc_set(desc_, kDescTransposeB, &second, sizeof(second)),
                              "describing a product");
    int64_t m = problem.m, n = problem.n, k = problem.k;
    if (status.ok())
      status = layout(a_, numbers_.type, problem.transpose_rhs ? k : n,
                      problem.transpose_rhs ? n : k, problem.batch, problem.one_rhs ? 0 : n * k);
    if (status.ok())
      status = layout(b_, numbers_.type, problem.transpose_lhs ? m : k,
                      problem.transpose_lhs ? k : m, problem.batch, m * k);
    if (status.ok())
      status = layout(c_, problem.result.type, n, m, problem.batch, m * n);
    if (!status.ok())
      return status;
    relu_ = problem.relu;
    row_bytes_ = n * byte_size(problem.result.dtype);
    result_bytes_ = row_bytes_ * m * problem.batch;
    bias_ = !problem.bias                  ? Bias::kNone
            : aligned_[3] < kBiasAlignment ? Bias::kAhead
                                           : Bias::kAsWritten;
    if (bias_ == Bias::kAhead)
      detour_ = absl::StrCat(kBiasAhead, "the bias begins at a multiple of ", aligned_[3],
                             " bytes, and the library reads it in vectors");
    status = choose();
    // Whatever it says: PyTorch has seen such products refused as invalid (addmm of one row).
    if (bias_ == Bias::kAsWritten && !status.ok() && !absl::IsResourceExhausted(status)) {
      bias_ = Bias::kAhead;
      detour_ = absl::StrCat(kBiasAhead, status.message());
      status = choose();
    }
    return status;
  }

  int64_t scratch_bytes() const override {
    return static_cast<int64_t>(chosen_.workspace_bytes);
  }
  std::string detour() const override {
    return detour_;
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    const float one = 1, zero = 0;
    const double one_64 = 1, zero_64 = 0;
    bool wide = numbers_.scale == kCudaR64F;
    auto scale = [&](bool of_one) {
      return wide ? static_cast<const void *>(of_one ? &one_64 : &zero_64)
                  : (of_one ? &one : &zero);
    };
    void *out = operands.back();
    if (bias_ == Bias::kAsWritten)
      WEFT_RETURN_IF_ERROR(describe_bias(operands[2]));
    if (bias_ == Bias::kAhead)
      WEFT_RETURN_IF_ERROR(fill(operands[2], out));
    return library_.check(library_.matmul(handle_, desc_, scale(true), operands[1], a_, operands[0],
                                          b_, scale(bias_ == Bias::kAhead), out, c_, out, c_,
                                          &chosen_.algorithm, scratch, chosen_.workspace_bytes,
                                          device_->stream()),
                          "a matrix product");
  }

private:
  enum class Bias {
    kNone,
    kAsWritten, // by the library, as it writes the result
    kAhead      // in the result, to which the product is added
  };
  static constexpr const char *kBiasAhead =
      "bias-ahead: the result is filled with the bias before the product is added to it: ";

  // The bias runs over the library's rows, which are our columns, and is of the result's type
  // unless it is told another; all products of a batch have it.
  absl::Status describe_bias(const void *bias) const {
    return library_.check(library_.desc_set(desc_, kDescBiasPointer, &bias, sizeof(bias)),
                          "describing a bias");
  }

  // Each row of the result with the bias: one, then as many as there are.
  absl::Status fill(const void *bias, void *result) const {
    const Driver &driver = device_->driver();
    auto target = reinterpret_cast<DevicePointer>(result),
         source = reinterpret_cast<DevicePointer>(bias);
    int64_t bytes = row_bytes_;
    for (int64_t done = 0; done < result_bytes_; done += bytes, source = target) {
      bytes = done == 0 ? row_bytes_ : std::min(done, result_bytes_ - done);
      WEFT_RETURN_IF_ERROR(
          driver.check(driver.copy_on_device(target + static_cast<DevicePointer>(done), source,
                                             static_cast<size_t>(bytes), device_->stream()),
                       "filling a result with a bias"));
    }
    return absl::OkStatus();
  }

  absl::Status layout(CublasLayout &layout, int type, int64_t rows, int64_t columns, int64_t batch,
                      int64_t stride) {
    absl::Status status =
        library_.check(library_.layout_create(&layout, type, static_cast<uint64_t>(rows),
                                              static_cast<uint64_t>(columns), rows),
                       "describing a matrix");
    if (!status.ok() || batch == 1)
      return status;
    auto count = static_cast<int32_t>(batch);
    status = library_.check(library_.layout_set(layout, kLayoutBatchCount, &count, sizeof(count)),
                            "describing a batch");
    if (!status.ok())
      return status;
    return library_.check(library_.layout_set(layout, kLayoutBatchStride, &stride, sizeof(stride)),
                          "describing a batch");
  }

  absl::Status choose() {
    uint32_t epilogue =
        (relu_ ? kEpilogueRelu : 0) + (bias_ == Bias::kAsWritten ? kEpilogueBias : 0);
    if (epilogue == 0)
      epilogue = kEpilogueDefault;
    WEFT_RETURN_IF_ERROR(
        library_.check(library_.desc_set(desc_, kDescEpilogue, &epilogue, sizeof(epilogue)),
                       "describing a product"));
    // An address that is aligned as the bias will be, which is all that is looked at.
    if (bias_ == Bias::kAsWritten)
      WEFT_RETURN_IF_ERROR(
          describe_bias(reinterpret_cast<const void *>(static_cast<uintptr_t>(aligned_[3]))));
    CublasPreference preference = nullptr;
    absl::Status status =
        library_.check(library_.preference_create(&preference), "choosing an algorithm");
    if (!status.ok())
      return status;
    auto most = static_cast<uint64_t>(kMostWorkspaceBytes);
    int found = 0;
    status = library_.check(
        library_.preference_set(preference, kPreferenceMaxWorkspace, &most, sizeof(most)),
        "choosing an algorithm");
    // Otherwise it takes all to be aligned to 256 bytes. Its A is our rhs.
    for (int i = 0; status.ok() && i < 4; ++i) {
      constexpr size_t kOperand[] = {1, 0, 2, 2};
      const uint32_t &bytes = aligned_[kOperand[i]];
      status = library_.check(library_.preference_set(preference, kPreferenceAlignmentA + i, &bytes,
                                                      sizeof(bytes)),
                              "choosing an algorithm");
    }
    // Sums of 16-bit factors are rounded once, at their end.
    if (status.ok() && numbers_.type != numbers_.scale)
      status = library_.check(library_.preference_set(preference, kPreferenceReductions,
                                                      &kReductionInComputeType,
                                                      sizeof(kReductionInComputeType)),
                              "choosing an algorithm");
    if (status.ok())
      status = library_.check(
          library_.heuristic(handle_, desc_, a_, b_, c_, c_, preference, 1, &chosen_, &found),
          "choosing an algorithm");
    (void)library_.preference_destroy(preference);
    if (status.ok() && found > 0)
      status = library_.check(chosen_.state, "choosing an algorithm");
    if (absl::IsUnimplemented(status) || (status.ok() && found == 0))
      return absl::UnimplementedError(
          "cuBLASLt has no algorithm for this product; compile with --no-claim");
    return status;
  }

  std::shared_ptr<CudaDevice> device_;
  CublasLt library_;
  CublasHandle handle_;
  Numbers numbers_ = kNumbers[0];
  std::array<uint32_t, 4> aligned_{};
  bool relu_ = false;
  Bias bias_ = Bias::kNone;
  std::string detour_;
  int64_t row_bytes_ = 0, result_bytes_ = 0;
  CublasDesc desc_ = nullptr;
  CublasLayout a_ = nullptr, b_ = nullptr, c_ = nullptr;
  CublasHeuristic chosen_{};
};

class MatmulEntry : public runtime::LibraryEntry {
public:
  MatmulEntry(std::shared_ptr<CudaDevice> device, const CublasLt &library)
      : device_(std::move(device)), library_(library) {}

  std::string_view name() const override {
    return "cublaslt.matmul";
  }

  double operations(const LibraryCall &call) const override {
    absl::StatusOr<Problem> problem = read(call);
    return problem.ok()
               ? 2.0 * static_cast<double>(problem->batch) * static_cast<double>(problem->m) *
                     static_cast<double>(problem->n) * static_cast<double>(problem->k)
               : 0;
  }

  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const LibraryCall &call,
                                                                  int) const override {
    WEFT_ASSIGN_OR_RETURN(Problem problem, read(call));
    // Made once for a GPU and a library, in the GPU's context; it lives as long as the process.
    static std::mutex mutex;
    static auto *handles = new std::map<std::pair<Stream, decltype(library_.create)>, CublasHandle>;
    std::lock_guard lock(mutex);
    CublasHandle &handle = (*handles)[{device_->stream(), library_.create}];
    if (handle == nullptr)
      WEFT_RETURN_IF_ERROR(library_.check(library_.create(&handle), "starting"));
    auto state = std::make_unique<Matmul>(device_, library_, handle);
    WEFT_RETURN_IF_ERROR(state->init(problem));
    return state;
  }

private:
  std::shared_ptr<CudaDevice> device_;
  CublasLt library_;
};

} // namespace

std::unique_ptr<runtime::LibraryEntry> make_matmul_entry(std::shared_ptr<CudaDevice> device,
                                                         const CublasLt &library) {
  return std::make_unique<MatmulEntry>(std::move(device), library);
}

} // namespace weft::backends::cuda

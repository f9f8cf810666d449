#include "backends/cpu/device/factor_entry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cpu/device/factors.h"
#include "backends/cpu/device/row_major.h"
#include "runtime/core/status.h"
#include "runtime/executable/run_failure.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::TensorRef;
using Operands = std::span<void *const>;

enum class Function { kCholesky, kLu, kSolve };

struct Call {
  FactorProblem problem;
  bool is_double = false, regular = false;
};

absl::StatusOr<Call> read_call(const LibraryCall &call, Function function, int threads) {
  size_t count = function == Function::kCholesky ? 2 : 3;
  if (call.operands.size() != count)
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", call.operands.size(), " operands; there must be ", count));
  const TensorRef &x = call.operands[0];
  size_t rank = x.dims.size();
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat64)
    return absl::UnimplementedError(
        absl::StrCat("the matrices are ", name(x.dtype), "; they must be float32 or float64"));
  if (rank < 2 || x.dims[rank - 1] != x.dims[rank - 2])
    return absl::InvalidArgumentError(
        absl::StrCat("the matrices are [", absl::StrJoin(x.dims, ", "), "]; they must be square"));
  for (const TensorRef &operand : call.operands)
    if (!is_row_major(operand))
      return absl::UnimplementedError("the operands must be row-major");
  Call read;
  read.is_double = x.dtype == DType::kFloat64;
  read.problem.size = x.dims.back();
  read.problem.threads = threads;
  for (size_t i = 0; i + 2 < rank; ++i)
    read.problem.matrices *= x.dims[i];
  std::vector<int64_t> expected(x.dims);
  if (function == Function::kSolve && call.operands[1].dims.size() == rank)
    expected.back() = read.problem.columns = call.operands[1].dims.back();
  for (size_t i = 1; i < count; ++i) {
    bool is_order = function == Function::kLu && i == 2;
    if (is_order)
      expected.pop_back();
    if (call.operands[i].dims != expected ||
        call.operands[i].dtype != (is_order ? DType::kInt64 : x.dtype))
      return absl::InvalidArgumentError(absl::StrCat(
          "operand ", i, " is ", name(call.operands[i].dtype), "[",
          absl::StrJoin(call.operands[i].dims, ", "), "]; it must be ",
          name(is_order ? DType::kInt64 : x.dtype), "[", absl::StrJoin(expected, ", "), "]"));
  }
  auto flag = [&](const char *key, bool &value) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(int64_t set, runtime::config_int(call.config, key, 0));
    value = set != 0;
    return absl::OkStatus();
  };
  WEFT_RETURN_IF_ERROR(flag("upper", read.problem.upper));
  WEFT_RETURN_IF_ERROR(flag("unit", read.problem.unit));
  WEFT_RETURN_IF_ERROR(flag("transposed", read.problem.transposed));
  WEFT_RETURN_IF_ERROR(flag("regular", read.regular));
  return read;
}

// Plans write what is kept after the last call that may fail (compiler/plan/IndexChecks.h).
absl::Status unfit(std::string message) {
  return runtime::with_kept_inputs(absl::InvalidArgumentError(std::move(message)));
}

class FactorState : public LibraryCallState {
public:
  FactorState(Call call, Function function) : call_(call), function_(function) {}
  // Factorizations write there what failed.
  int64_t scratch_bytes() const override {
    return function_ == Function::kSolve ? solve_room(call_.problem)
                                         : call_.problem.matrices * sizeof(int64_t);
  }
  absl::Status run(Operands operands, void *scratch) override {
    if (call_.is_double)
      return compute<double>(operands, scratch);
    return compute<float>(operands, scratch);
  }

private:
  template <typename T> absl::Status compute(Operands operands, void *scratch) {
    const FactorProblem &p = call_.problem;
    auto at = [&](size_t i) {
      return static_cast<T *>(operands[i]);
    };
    auto *failed = static_cast<int64_t *>(scratch);
    switch (function_) {
    case Function::kSolve:
      solve_triangular<T>(p, at(0), at(1), at(2), scratch);
      return absl::OkStatus();
    case Function::kCholesky:
      cholesky_factors<T>(p, at(0), at(1), failed);
      for (int64_t i = 0; i < p.matrices; ++i)
        if (failed[i])
          return unfit(absl::StrCat("needs positive definite matrices; of matrix ", i,
                                    " the leading minor of order ", failed[i],
                                    " is not positive"));
      return absl::OkStatus();
    case Function::kLu:
      lu_factors<T>(p, at(0), at(1), static_cast<int64_t *>(operands[2]), failed);
      for (int64_t i = 0; call_.regular && i < p.matrices; ++i)
        if (failed[i])
          return unfit(absl::StrCat("needs regular matrices; matrix ", i,
                                    " is singular: it has no pivot in column ", failed[i] - 1));
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  Call call_;
  Function function_;
};

class FactorEntry : public runtime::LibraryEntry {
public:
  FactorEntry(std::string_view name, Function function) : name_(name), function_(function) {}
  std::string_view name() const override {
    return name_;
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    WEFT_ASSIGN_OR_RETURN(Call read, read_call(call, function_, threads));
    return std::make_unique<FactorState>(read, function_);
  }
  double operations(const LibraryCall &call) const override {
    absl::StatusOr<Call> read = read_call(call, function_, 1);
    if (!read.ok())
      return 0;
    auto n = static_cast<double>(read->problem.size);
    double each = function_ == Function::kSolve ? static_cast<double>(read->problem.columns)
                                                : n / (function_ == Function::kLu ? 1.5 : 3);
    return static_cast<double>(read->problem.matrices) * n * n * each;
  }

private:
  std::string_view name_;
  Function function_;
};

} // namespace

std::span<const runtime::LibraryEntry *const> factor_entries() {
  static const FactorEntry cholesky("weft.factor.cholesky", Function::kCholesky),
      lu("weft.factor.lu", Function::kLu), solve("weft.factor.solve", Function::kSolve);
  static const runtime::LibraryEntry *const entries[] = {&cholesky, &lu, &solve};
  return entries;
}

} // namespace weft::backends::cpu

#include "backends/cpu/device/sort_entry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cpu/device/row_major.h"
#include "backends/cpu/device/sort_rows.h"
#include "runtime/core/status.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::TensorRef;

absl::StatusOr<SortProblem> read_problem(const LibraryCall &call) {
  if (call.operands.size() != 2 || call.inputs != 1)
    return absl::InvalidArgumentError(absl::StrCat("there are ", call.operands.size(),
                                                   " operands; there must be x and the indices"));
  WEFT_ASSIGN_OR_RETURN(int64_t dim, runtime::config_int(call.config, "dim"));
  WEFT_ASSIGN_OR_RETURN(int64_t descending, runtime::config_int(call.config, "descending", 0));
  WEFT_ASSIGN_OR_RETURN(int64_t first, runtime::config_int(call.config, "first", 0));
  const TensorRef &x = call.operands[0], &indices = call.operands[1];
  if (dim < 0 || dim >= static_cast<int64_t>(x.dims.size()))
    return absl::InvalidArgumentError(
        absl::StrCat("config dim is ", dim, "; x has ", x.dims.size(), " dims"));
  if (indices.dtype != DType::kInt64)
    return absl::InvalidArgumentError(
        absl::StrCat("the indices are ", name(indices.dtype), "; they must be int64"));
  auto along = static_cast<size_t>(dim);
  bool fits = indices.dims.size() == x.dims.size();
  for (size_t i = 0; fits && i < x.dims.size(); ++i)
    fits = i == along ? indices.dims[i] <= x.dims[i] : indices.dims[i] == x.dims[i];
  if (!fits)
    return absl::InvalidArgumentError(
        absl::StrCat("x is [", absl::StrJoin(x.dims, ", "), "] and the indices are [",
                     absl::StrJoin(indices.dims, ", "), "]; they may differ along dim ", dim,
                     " only, and have no more there"));
  if (first < 0 || first > x.dims[along] - indices.dims[along])
    return absl::InvalidArgumentError(
        absl::StrCat("config first is ", first, "; of ", x.dims[along], " places, ",
                     indices.dims[along], " begin at 0 to ", x.dims[along] - indices.dims[along]));
  if (!is_row_major(x) || !is_row_major(indices))
    return absl::UnimplementedError("x and the indices must be row-major");
  SortProblem p;
  p.dtype = x.dtype;
  p.size = x.dims[along];
  p.first = first;
  p.count = indices.dims[along];
  p.descending = descending != 0;
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (i != along)
      (i < along ? p.outer : p.inner) *= x.dims[i];
  return p;
}

class SortState : public LibraryCallState {
public:
  SortState(const SortProblem &problem, int threads) : problem_(problem), threads_(threads) {}
  int64_t scratch_bytes() const override {
    return sort_scratch_bytes(problem_, threads_);
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    sort_rows(problem_, operands[0], static_cast<int64_t *>(operands[1]), scratch, threads_);
    return absl::OkStatus();
  }

private:
  SortProblem problem_;
  int threads_;
};

class SortEntry : public runtime::LibraryEntry {
public:
  std::string_view name() const override {
    return "weft.arg_sort";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    WEFT_ASSIGN_OR_RETURN(SortProblem problem, read_problem(call));
    return std::make_unique<SortState>(problem, threads);
  }
};

} // namespace

const runtime::LibraryEntry &sort_entry() {
  static const SortEntry entry;
  return entry;
}

} // namespace weft::backends::cpu

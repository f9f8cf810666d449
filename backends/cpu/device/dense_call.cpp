#include "backends/cpu/device/dense_call.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

constexpr int64_t kGrainBytes = 64 * 1024; // that are worth a second thread

struct Rows {
  const char *from;
  char *to;
  int64_t bytes, step; // of a row; from one to the next in `from`
};
int32_t copy_rows(void *data, int, int64_t begin, int64_t end) {
  const Rows &rows = *static_cast<Rows *>(data);
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(rows.to + i * rows.bytes, rows.from + i * rows.step,
                static_cast<size_t>(rows.bytes));
  return 0;
}

class DenseState : public runtime::LibraryCallState {
public:
  DenseState(std::unique_ptr<runtime::LibraryCallState> inner, int64_t rows, int64_t row_bytes,
             int64_t step, int threads)
      : inner_(std::move(inner)), rows_(rows), row_bytes_(row_bytes), step_(step),
        copy_bytes_(runtime::align(rows * row_bytes)), threads_(threads) {}
  int64_t scratch_bytes() const override {
    return copy_bytes_ + inner_->scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    pointers_.assign(operands.begin(), operands.end());
    pointers_[0] = scratch;
    Rows rows{static_cast<const char *>(operands[0]), static_cast<char *>(scratch), row_bytes_,
              step_};
    runtime::parallel_for(rows_,
                          std::max<int64_t>(kGrainBytes / std::max<int64_t>(row_bytes_, 1), 1),
                          threads_, copy_rows, &rows);
    return inner_->run(pointers_, static_cast<char *>(scratch) + copy_bytes_);
  }

private:
  std::unique_ptr<runtime::LibraryCallState> inner_;
  int64_t rows_, row_bytes_, step_, copy_bytes_;
  int threads_;
  std::vector<void *> pointers_;
};

} // namespace

absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
init_dense(runtime::LibraryCall call, const runtime::LibraryEntry &entry, int threads) {
  if (call.operands.empty() || call.operands[0].dims.size() != 2 ||
      call.operands[0].strides[1] != 1 || call.operands[0].strides[0] < call.operands[0].dims[1])
    return absl::InvalidArgumentError(
        "copies an operand without its gaps if that is a matrix of rows that lie in memory one "
        "after the other");
  runtime::TensorRef &matrix = call.operands[0];
  int64_t element = byte_size(matrix.dtype), step = matrix.strides[0] * element;
  matrix.strides[0] = matrix.dims[1];
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<runtime::LibraryCallState> inner,
                        entry.init(call, threads));
  return std::make_unique<DenseState>(std::move(inner), matrix.dims[0], matrix.dims[1] * element,
                                      step, threads);
}

} // namespace weft::backends::cpu

#include "backends/cpu/device/widened_call.h"

#include <algorithm>

#include "runtime/core/float16.h"
#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::TensorRef;

constexpr int64_t kGrain = 16384; // elements that are worth a second thread

struct Copy {
  size_t operand;
  int64_t elements; // from the operand's first to its last, with gaps
  int64_t offset;   // of the f32 copy, in scratch memory
};

struct Conversion {
  uint16_t *narrow;
  float *wide;
};
int32_t widen(void *data, int, int64_t begin, int64_t end) {
  auto [narrow, wide] = *static_cast<Conversion *>(data);
  for (int64_t i = begin; i < end; ++i)
    wide[i] = bfloat16_to_float(narrow[i]);
  return 0;
}
int32_t round(void *data, int, int64_t begin, int64_t end) {
  auto [narrow, wide] = *static_cast<Conversion *>(data);
  for (int64_t i = begin; i < end; ++i)
    narrow[i] = float_to_bfloat16(wide[i]);
  return 0;
}

class WidenedState : public LibraryCallState {
public:
  WidenedState(std::unique_ptr<LibraryCallState> inner, std::vector<Copy> copies, int64_t bytes,
               int threads)
      : inner_(std::move(inner)), copies_(std::move(copies)), bytes_(bytes), threads_(threads) {}
  int64_t scratch_bytes() const override {
    return bytes_ + inner_->scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    pointers_.assign(operands.begin(), operands.end());
    for (const Copy &copy : copies_) {
      pointers_[copy.operand] = static_cast<char *>(scratch) + copy.offset;
      // The result, too: what lies in its gaps stays as it is.
      convert(widen, copy, operands);
    }
    WEFT_RETURN_IF_ERROR(inner_->run(pointers_, static_cast<char *>(scratch) + bytes_));
    if (!copies_.empty() && copies_.back().operand + 1 == operands.size())
      convert(round, copies_.back(), operands);
    return absl::OkStatus();
  }

private:
  void convert(int32_t (*how)(void *, int, int64_t, int64_t), const Copy &copy,
               std::span<void *const> operands) {
    Conversion conversion{static_cast<uint16_t *>(operands[copy.operand]),
                          static_cast<float *>(pointers_[copy.operand])};
    runtime::parallel_for(copy.elements, kGrain, threads_, how, &conversion);
  }

  std::unique_ptr<LibraryCallState> inner_;
  std::vector<Copy> copies_; // in the order of operands
  int64_t bytes_;            // of all copies
  int threads_;
  std::vector<void *> pointers_;
};

// Elements up to the last one; strides are not negative.
int64_t extent(const TensorRef &tensor) {
  int64_t last = 0;
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] == 0)
      return 0;
    last += (tensor.dims[i] - 1) * std::max<int64_t>(tensor.strides[i], 0);
  }
  return last + 1;
}

} // namespace

bool has_narrow_operands(const LibraryCall &call) {
  return std::any_of(call.operands.begin(), call.operands.end(),
                     [](const TensorRef &operand) { return operand.dtype == DType::kBFloat16; });
}

absl::StatusOr<std::unique_ptr<LibraryCallState>>
init_widened(const LibraryCall &call, const runtime::LibraryEntry &entry, int threads) {
  LibraryCall wide = call;
  std::vector<Copy> copies;
  int64_t bytes = 0;
  for (size_t i = 0; i < wide.operands.size(); ++i) {
    TensorRef &operand = wide.operands[i];
    if (operand.dtype != DType::kBFloat16)
      continue;
    operand.dtype = DType::kFloat32;
    copies.push_back({i, extent(operand), bytes});
    bytes += runtime::align(copies.back().elements * byte_size(DType::kFloat32));
  }
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<LibraryCallState> inner, entry.init(wide, threads));
  return std::make_unique<WidenedState>(std::move(inner), std::move(copies), bytes, threads);
}

} // namespace weft::backends::cpu

#include "backends/cpu/device/matmul_parts.h"

#include <algorithm>

#include "backends/cpu/device/parts_scratch.h"
#include "backends/cpu/device/tiled_matmul.h"
#include "runtime/core/dtype.h"
#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// A product of fewer operations stays on one thread: it takes that some 8 us, a fork and join of
// the team 0.5 us where its threads are awake, ten times that where they sleep, and the time slice
// of whoever has their processors where those are busy.
constexpr int64_t kSerialFlops = 1'000'000;

// Parts: at most so many, each of at least kSerialFlops operations. Of rows or columns, which each
// part reads the whole other matrix for: at least kPartRows, which is a vector or two, and
// kWholeRows where there are enough of them for some threads.
constexpr int64_t kMostParts = 16, kPartRows = 16, kWholeRows = 64, kSomeThreads = 4;

int64_t flops_of(const MatmulProblem &problem) {
  constexpr int64_t most = kMostParts * kSerialFlops; // more makes no difference
  int64_t flops = std::min(2 * std::min(problem.a.dims.back(), most), most);
  for (int64_t dim : problem.c.dims)
    flops = std::min(flops * std::min(dim, most), most);
  return flops;
}

// The elements [first, first + count) along dim `dim` of c, of an operand that has this dim, too,
// or repeats along it.
int64_t restrict_to(StridedShape &shape, size_t dim, int64_t first, int64_t count) {
  if (shape.dims[dim] == 1)
    return 0;
  shape.dims[dim] = count;
  return first * shape.strides[dim] * byte_size(shape.dtype);
}

// Primitives that run at once or one after the other, each on operands of its own.
class PartedMatmul : public OnednnMatmul {
public:
  explicit PartedMatmul(int threads) : threads_(threads) {}

  std::string_view implementation() const override {
    return parts_.front().matmul->implementation();
  }
  SumOrder sum_order() const override {
    return SumOrder::kFixed;
  }
  int64_t scratch_bytes() const override {
    return scratch_.bytes(at_once_ ? threads_ : 1);
  }
  int64_t packed_bytes() const override {
    return 0;
  }
  std::string packed_form() const override {
    return {};
  }
  absl::Status pack(const void *, void *) override {
    return absl::FailedPreconditionError("a product in parts takes plain matrices");
  }

  // The parts of c along `dim`, each on a thread.
  absl::Status cut_result(const MatmulProblem &problem, size_t dim, int64_t parts, int64_t step) {
    at_once_ = true;
    size_t rank = problem.c.dims.size();
    int64_t extent = problem.c.dims[dim], units = (extent + step - 1) / step;
    for (int64_t i = 0, first = 0; i < parts; ++i) {
      int64_t count = std::min((units / parts + (i < units % parts)) * step, extent - first);
      MatmulProblem part = problem;
      std::vector<int64_t> offsets;
      offsets.push_back(dim == rank - 1 ? 0 : restrict_to(part.a, dim, first, count));
      offsets.push_back(dim == rank - 2 ? 0 : restrict_to(part.b, dim, first, count));
      offsets.push_back(restrict_to(part.c, dim, first, count));
      if (part.bias)
        offsets.push_back(restrict_to(*part.bias, dim, first, count));
      for (auto &[op, shape] : part.post_ops)
        if (shape)
          offsets.push_back(restrict_to(*shape, dim, first, count));
      WEFT_RETURN_IF_ERROR(add(part, 1, std::move(offsets)));
      first += count;
    }
    return absl::OkStatus();
  }

  // Pieces of the terms, for the whole team. What follows the sum follows the last one.
  absl::Status cut_terms(const MatmulProblem &problem, int64_t pieces) {
    size_t rank = problem.c.dims.size();
    int64_t terms = problem.a.dims.back();
    for (int64_t i = 0, first = 0; i < pieces; ++i) {
      int64_t count = terms / pieces + (i < terms % pieces);
      MatmulProblem piece = problem;
      piece.accumulate = i > 0;
      piece.a.dims[rank - 1] = piece.b.dims[rank - 2] = count;
      std::vector<int64_t> offsets(3 + addends(problem));
      offsets[0] = first * problem.a.strides[rank - 1] * byte_size(problem.a.dtype);
      offsets[1] = first * problem.b.strides[rank - 2] * byte_size(problem.b.dtype);
      if (i < pieces - 1) {
        piece.bias = std::nullopt;
        piece.post_ops.clear();
        offsets.resize(3);
      }
      WEFT_RETURN_IF_ERROR(add(piece, threads_, std::move(offsets)));
      first += count;
    }
    return absl::OkStatus();
  }

  bool all_fixed() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part &part) {
      return part.matmul->sum_order() == SumOrder::kFixed;
    });
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch), {}};
    call.statuses.resize(parts_.size());
    if (at_once_)
      runtime::parallel_for(static_cast<int64_t>(parts_.size()), 1, threads_, run_parts, &call);
    else
      run_parts(&call, 0, 0, static_cast<int64_t>(parts_.size()));
    return runtime::first_error(call.statuses);
  }

private:
  struct Part {
    std::unique_ptr<OnednnMatmul> matmul;
    std::vector<int64_t> offsets; // of its operands, in bytes
    std::vector<void *> operands;
  };
  struct Call {
    PartedMatmul *matmul;
    std::span<void *const> operands;
    char *scratch;
    std::vector<absl::Status> statuses;
  };

  static size_t addends(const MatmulProblem &problem) {
    return (problem.bias ? 1 : 0) + static_cast<size_t>(std::count_if(
                                        problem.post_ops.begin(), problem.post_ops.end(),
                                        [](const auto &each) { return each.second.has_value(); }));
  }

  absl::Status add(const MatmulProblem &problem, int threads, std::vector<int64_t> offsets) {
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OnednnMatmul> matmul,
                          OnednnMatmul::create(problem, threads));
    Part &part = parts_.emplace_back();
    scratch_.add(matmul->scratch_bytes());
    part.matmul = std::move(matmul);
    part.operands.resize(offsets.size());
    part.offsets = std::move(offsets);
    return absl::OkStatus();
  }

  static int32_t run_parts(void *data, int thread, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    PartedMatmul &matmul = *call.matmul;
    int threads = matmul.at_once_ ? matmul.threads_ : 1;
    for (int64_t i = begin; i < end; ++i) {
      Part &part = matmul.parts_[static_cast<size_t>(i)];
      for (size_t k = 0; k < part.operands.size(); ++k)
        part.operands[k] = static_cast<char *>(call.operands[k]) + part.offsets[k];
      call.statuses[static_cast<size_t>(i)] =
          part.matmul->run(part.operands, matmul.scratch_.of(call.scratch, i, thread, threads));
    }
    return 0;
  }

  int threads_;
  bool at_once_ = false;
  std::vector<Part> parts_;
  PartsScratch scratch_;
};

absl::StatusOr<std::unique_ptr<OnednnMatmul>> cut_result(const MatmulProblem &problem,
                                                         int threads) {
  size_t rank = problem.c.dims.size();
  const std::vector<int64_t> &dims = problem.c.dims;
  size_t dim = dims[rank - 2] >= dims[rank - 1] ? rank - 2 : rank - 1;
  int64_t step = kPartRows, wanted = std::min(dims[dim] / kWholeRows, kMostParts);
  if (wanted < kSomeThreads)
    wanted = std::min(dims[dim] / kPartRows, kSomeThreads);
  auto batch = std::max_element(dims.begin(), dims.end() - 2);
  if (rank > 2 && *batch >= std::min(wanted, kSomeThreads)) {
    dim = static_cast<size_t>(batch - dims.begin());
    step = 1;
    wanted = std::min(*batch, kMostParts);
  }
  int64_t parts = std::max<int64_t>(std::min(wanted, flops_of(problem) / kSerialFlops), 1);
  if (parts == 1)
    return OnednnMatmul::create(problem, 1);
  auto parted = std::make_unique<PartedMatmul>(threads);
  WEFT_RETURN_IF_ERROR(parted->cut_result(problem, dim, parts, step));
  return parted;
}

} // namespace

absl::StatusOr<std::unique_ptr<OnednnMatmul>> create_matmul(const MatmulProblem &problem,
                                                            int threads, bool packed) {
  if (computes_by_tiles(problem))
    return tiled_matmul(problem, threads, packed);
  if (flops_of(problem) < kSerialFlops)
    return OnednnMatmul::create(problem, 1, packed);
  absl::StatusOr<std::unique_ptr<OnednnMatmul>> whole =
      OnednnMatmul::create(problem, threads, packed);
  if (!whole.ok() || (*whole)->sum_order() == SumOrder::kFixed)
    return whole;
  // A 16-bit result would be rounded by each piece.
  if ((*whole)->sum_order() == SumOrder::kByTerms && problem.c.dtype == DType::kFloat32) {
    auto parted = std::make_unique<PartedMatmul>(threads);
    int64_t terms = problem.a.dims.back();
    // Pieces may fall to another implementation.
    if (parted->cut_terms(problem, terms / kSharedTerms + 1).ok() && parted->all_fixed())
      return parted;
  }
  return cut_result(problem, threads);
}

} // namespace weft::backends::cpu

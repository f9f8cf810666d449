#include "backends/cpu/device/weight_gradient_parts.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/device/parts_scratch.h"
#include "runtime/core/alignment.h"
#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Parts: as many as there may be threads; fewer where their partial results,
// of the weight's size each, would take more than this.
constexpr int64_t kMostParts = 16, kMostPartialBytes = 32 << 20;

class PartedState : public runtime::LibraryCallState {
public:
  // Partial results stay in the library's layout, so that what is copied out of it is their sum
  // alone.
  static absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
  create(ConvolutionProblem problem, int64_t parts, int threads) {
    problem.packed_weight = true;
    auto state = std::make_unique<PartedState>();
    WEFT_RETURN_IF_ERROR(state->build(problem, parts, threads));
    bool equal = std::all_of(state->parts_.begin(), state->parts_.end(), [&](const Part &part) {
      return part.convolution->weight_form() == state->parts_.front().convolution->weight_form();
    });
    if (!equal) {
      problem.packed_weight = false;
      state = std::make_unique<PartedState>();
      WEFT_RETURN_IF_ERROR(state->build(problem, parts, threads));
    }
    return state;
  }

  int64_t scratch_bytes() const override {
    return partial_bytes_ + scratch_.bytes(threads_);
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch), {}};
    call.statuses.resize(parts_.size());
    runtime::parallel_for(static_cast<int64_t>(parts_.size()), 1, threads_, compute, &call);
    WEFT_RETURN_IF_ERROR(runtime::first_error(call.statuses));
    runtime::parallel_for(partial_elements_, kSumGrain, threads_, add_up, &call);
    return packed_ ? parts_.front().convolution->unpack(partial(call, 0), operands[2])
                   : absl::OkStatus();
  }

private:
  static constexpr int64_t kSumGrain = 16384; // elements that are worth a second thread

  struct Part {
    int64_t image = 0, gradient = 0; // bytes before the part's first image
    int64_t partial = 0;             // bytes before its partial result, in the scratch memory
    std::unique_ptr<OnednnConvolution> convolution;
  };
  struct Call {
    PartedState *state;
    std::span<void *const> operands;
    char *scratch;
    std::vector<absl::Status> statuses;
  };

  absl::Status build(const ConvolutionProblem &problem, int64_t parts, int threads) {
    auto elements = [](const std::array<int64_t, 4> &dims) {
      return dims[0] * dims[1] * dims[2] * dims[3];
    };
    int64_t batch = problem.image[0];
    threads_ = threads;
    for (int64_t i = 0, first = 0; i < parts; ++i) {
      int64_t count = batch / parts + (i < batch % parts);
      ConvolutionProblem part = problem;
      part.image[0] = part.result[0] = count;
      WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OnednnConvolution> convolution,
                            OnednnConvolution::create(part, 1, threads));
      Part &made = parts_.emplace_back();
      made.image = first * (elements(problem.image) / batch) * byte_size(problem.dtype);
      made.gradient = first * (elements(problem.result) / batch) * byte_size(problem.dtype);
      scratch_.add(convolution->scratch_bytes());
      made.convolution = std::move(convolution);
      made.partial = partial_bytes_;
      if (i == 0) {
        packed_ = made.convolution->weight_bytes() > 0;
        partial_elements_ =
            packed_ ? made.convolution->weight_bytes() / 4 : elements(problem.weight);
      }
      // Where it is plain, the first part's is the result itself.
      if (i > 0 || packed_)
        partial_bytes_ += runtime::align(partial_elements_ * 4);
      first += count;
    }
    return absl::OkStatus();
  }

  static float *partial(Call &call, size_t i) {
    return i == 0 && !call.state->packed_
               ? static_cast<float *>(call.operands[2])
               : reinterpret_cast<float *>(call.scratch + call.state->parts_[i].partial);
  }

  static int32_t compute(void *data, int thread, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    PartedState &state = *call.state;
    char *scratch = call.scratch + state.partial_bytes_; // behind the partial results
    for (int64_t i = begin; i < end; ++i) {
      Part &part = state.parts_[static_cast<size_t>(i)];
      void *operands[] = {static_cast<char *>(call.operands[0]) + part.image,
                          static_cast<char *>(call.operands[1]) + part.gradient,
                          partial(call, static_cast<size_t>(i))};
      call.statuses[static_cast<size_t>(i)] =
          part.convolution->run(operands, state.scratch_.of(scratch, i, thread, state.threads_));
    }
    return 0;
  }

  static int32_t add_up(void *data, int, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    float *sum = partial(call, 0);
    for (size_t i = 1; i < call.state->parts_.size(); ++i) {
      const float *term = partial(call, i);
      for (int64_t k = begin; k < end; ++k)
        sum[k] += term[k];
    }
    return 0;
  }

  std::vector<Part> parts_;
  bool packed_ = false; // whether partial results are in the library's layout
  int64_t partial_elements_ = 0, partial_bytes_ = 0;
  PartsScratch scratch_;
  int threads_ = 1;
};

int64_t parts_of(const ConvolutionProblem &p) {
  int64_t bytes = p.weight[0] * p.weight[1] * p.weight[2] * p.weight[3] * 4;
  return std::min({p.image[0], kMostParts, std::max<int64_t>(1, kMostPartialBytes / bytes)});
}

} // namespace

absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
weight_gradient_in_parts(const ConvolutionProblem &problem, int threads) {
  return PartedState::create(problem, parts_of(problem), threads);
}

} // namespace weft::backends::cpu

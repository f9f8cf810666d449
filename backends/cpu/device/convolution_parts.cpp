#include "backends/cpu/device/convolution_parts.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/device/parts_scratch.h"
#include "runtime/core/dtype.h"
#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// As for products (matmul_parts.cpp): at most so many parts, and what one is worth.
constexpr int64_t kMostParts = 16, kPartChannels = 16, kPartFlops = 1'000'000;

int64_t elements(const std::array<int64_t, 4> &dims) {
  return dims[0] * dims[1] * dims[2] * dims[3];
}

// Some of what is computed: images, channels of the result, or its rows.
struct Block {
  int64_t first, count;
};
Block block_of(int64_t all, int64_t blocks, int64_t number) {
  int64_t rest = all % blocks;
  return {all / blocks * number + std::min(number, rest), all / blocks + (number < rest)};
}

// Has the part compute these rows of its result, which all read some of the image. Returns the
// first row of the image that these rows read.
int64_t take_rows(ConvolutionProblem &part, const Block &rows) {
  int64_t first = rows.first * part.strides[0] - part.padding[0],
          end = first + (rows.count - 1) * part.strides[0] +
                part.dilation[0] * (part.weight[2] - 1) + 1;
  int64_t begin = std::max<int64_t>(first, 0);
  part.padding[0] = begin - first;
  part.image[2] = std::min(end, part.image[2]) - begin;
  part.result[2] = rows.count;
  return begin;
}

class PartsState : public runtime::LibraryCallState {
public:
  absl::Status build(const ConvolutionProblem &problem, int threads) {
    threads_ = threads;
    bool forward = problem.kind == ConvolutionKind::kForward;
    int64_t images = problem.image[0], channels = problem.result[1];
    double flops = 2.0 * static_cast<double>(elements(problem.result)) *
                   static_cast<double>(elements(problem.weight) / channels);
    int64_t most =
        static_cast<int64_t>(std::clamp(flops / double(kPartFlops), 1.0, double(kMostParts)));
    int64_t ranges = std::min(images, most), blocks = 1;
    bool by_rows = problem.channels_last,
         all_read = problem.padding[0] <= problem.dilation[0] * (problem.weight[2] - 1);
    if (forward && problem.groups == 1 && ranges == images && (!by_rows || all_read))
      blocks = std::clamp<int64_t>(by_rows ? problem.result[2] : channels / kPartChannels, 1,
                                   most / ranges);
    int64_t image_bytes = elements(problem.image) / images *
                          byte_size(forward ? problem.dtype : problem.computed),
            result_bytes = elements(problem.result) / images *
                           byte_size(forward ? problem.computed : problem.dtype);
    for (int64_t i = 0; i < ranges; ++i) {
      auto [first, count] = block_of(images, ranges, i);
      for (int64_t j = 0; j < blocks; ++j) {
        ConvolutionProblem part = problem;
        part.image[0] = part.result[0] = count;
        int64_t channel = 0, at_image = first * image_bytes, at_result = first * result_bytes;
        if (blocks > 1 && by_rows) {
          Block rows = block_of(problem.result[2], blocks, j);
          at_image += image_bytes / problem.image[2] * take_rows(part, rows);
          at_result += result_bytes / problem.result[2] * rows.first;
        } else if (blocks > 1) {
          Block some = block_of(channels, blocks, j);
          channel = some.first;
          part.weight[0] = part.result[1] = some.count;
          at_result += result_bytes / channels * channel;
        }
        WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OnednnConvolution> convolution,
                              OnednnConvolution::create(part, 1, 1));
        Part &made = parts_.emplace_back();
        made.offsets = {forward ? at_image : at_result,
                        elements(problem.weight) / channels * channel * byte_size(problem.dtype)};
        if (problem.bias)
          made.offsets.push_back(channel * byte_size(DType::kFloat32));
        made.offsets.push_back(forward ? at_result : at_image);
        made.operands.resize(made.offsets.size());
        scratch_.add(convolution->scratch_bytes());
        made.convolution = std::move(convolution);
      }
    }
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override {
    return scratch_.bytes(threads_);
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch), {}};
    call.statuses.resize(parts_.size());
    runtime::parallel_for(static_cast<int64_t>(parts_.size()), 1, threads_, run_parts, &call);
    return runtime::first_error(call.statuses);
  }

private:
  struct Part {
    std::unique_ptr<OnednnConvolution> convolution;
    std::vector<int64_t> offsets; // of its operands, in bytes
    std::vector<void *> operands;
  };
  struct Call {
    PartsState *state;
    std::span<void *const> operands;
    char *scratch;
    std::vector<absl::Status> statuses;
  };

  static int32_t run_parts(void *data, int thread, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    PartsState &state = *call.state;
    for (int64_t i = begin; i < end; ++i) {
      Part &part = state.parts_[static_cast<size_t>(i)];
      for (size_t k = 0; k < part.operands.size(); ++k)
        part.operands[k] = static_cast<char *>(call.operands[k]) + part.offsets[k];
      call.statuses[static_cast<size_t>(i)] = part.convolution->run(
          part.operands, state.scratch_.of(call.scratch, i, thread, state.threads_));
    }
    return 0;
  }

  std::vector<Part> parts_;
  PartsScratch scratch_;
  int threads_ = 1;
};

} // namespace

absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
convolution_in_parts(const ConvolutionProblem &problem, int threads) {
  auto state = std::make_unique<PartsState>();
  WEFT_RETURN_IF_ERROR(state->build(problem, threads));
  return state;
}

} // namespace weft::backends::cpu

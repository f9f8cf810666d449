#include "backends/cpu/device/library_convolution.h"

#include <bit>
#include <cstdlib>
#include <vector>

#include "backends/cpu/device/convolution_parts.h"
#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/core/alignment.h"
#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCallState;

// A pass over what another call gives.
class ThenRelu : public LibraryCallState {
public:
  ThenRelu(std::unique_ptr<LibraryCallState> convolution, const ConvolutionProblem &problem,
           int threads)
      : convolution_(std::move(convolution)), relu_(problem.relu),
        is_narrow_(problem.computed == DType::kBFloat16), threads_(threads) {
    for (int64_t dim : problem.result)
      elements_ *= dim;
  }
  int64_t scratch_bytes() const override {
    return convolution_->scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    WEFT_RETURN_IF_ERROR(convolution_->run(operands, scratch));
    Pass pass{operands.back(), relu_};
    runtime::parallel_for(elements_, kReluGrain, threads_,
                          is_narrow_ ? rectify<uint16_t> : rectify<float>, &pass);
    return absl::OkStatus();
  }

private:
  struct Pass {
    void *values;
    Relu relu;
  };
  template <typename T> static int32_t rectify(void *data, int, int64_t begin, int64_t end) {
    auto [values, relu] = *static_cast<Pass *>(data);
    for (int64_t i = begin; i < end; ++i)
      static_cast<T *>(values)[i] = rectified_bits(static_cast<T *>(values)[i], relu);
    return 0;
  }
  static float rectified_bits(float value, const Relu &relu) {
    return rectified(value, relu);
  }
  // bfloat16: the upper half of a float. Zero and `most` are such halves.
  static uint16_t rectified_bits(uint16_t value, const Relu &relu) {
    float wide = std::bit_cast<float>(uint32_t{value} << 16);
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(rectified(wide, relu)) >> 16);
  }

  static constexpr int64_t kReluGrain = 16384; // elements that are worth a second thread

  std::unique_ptr<LibraryCallState> convolution_;
  int64_t elements_ = 1;
  Relu relu_;
  bool is_narrow_;
  int threads_;
};

// Of a problem with a ReLU, without the library's; with a plain weight.
absl::StatusOr<std::unique_ptr<LibraryCallState>> without_librarys(const ConvolutionProblem &problem,
                                                                   int threads) {
  ConvolutionProblem plain = problem;
  plain.relu = {};
  plain.packed_weight = false;
  WEFT_ASSIGN_OR_RETURN(auto convolution, library_convolution(plain, threads));
  return std::make_unique<ThenRelu>(std::move(convolution), problem, threads);
}

// As the library has it, the ReLU included; of a forward one the weight may be packed.
class LibraryState : public runtime::PackedCallState {
public:
  LibraryState(const ConvolutionProblem &problem, std::unique_ptr<OnednnConvolution> convolution,
               int threads)
      : problem_(problem), threads_(threads), convolution_(std::move(convolution)) {}
  int operand() const override {
    return 1;
  }
  int64_t packed_bytes() const override {
    return convolution_->weight_bytes();
  }
  std::string form() const override {
    return convolution_->weight_form();
  }
  absl::Status pack(const void *plain, void *packed) override {
    return convolution_->pack(plain, packed);
  }
  int64_t scratch_bytes() const override {
    return convolution_->scratch_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    if (repeats_ < kMostRepeats) {
      WEFT_RETURN_IF_ERROR(convolution_->run(operands, scratch));
      if (!problem_.relu || !convolution_->may_have_met_nan())
        return absl::OkStatus();
      ++repeats_;
    }
    return run_anew(operands);
  }

private:
  // After so many runs that met a NaN the next ones are thought to meet some, too.
  static constexpr int kMostRepeats = 8;

  absl::Status run_anew(std::span<void *const> operands) {
    if (!anew_) {
      WEFT_ASSIGN_OR_RETURN(anew_, without_librarys(problem_, threads_));
    }
    int64_t weight_bytes = 0;
    if (packed_bytes() > 0) {
      weight_bytes = byte_size(problem_.dtype);
      for (int64_t dim : problem_.weight)
        weight_bytes *= dim;
    }
    int64_t offset = runtime::align(weight_bytes),
            bytes = runtime::align(offset + anew_->scratch_bytes());
    std::unique_ptr<char, decltype(&std::free)> room(
        static_cast<char *>(std::aligned_alloc(runtime::kBufferAlignment,
                                               static_cast<size_t>(std::max<int64_t>(
                                                   bytes, runtime::kBufferAlignment)))),
        std::free);
    if (!room)
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes, " bytes in which a convolution that met a NaN is "
                       "computed anew"));
    std::vector<void *> plain(operands.begin(), operands.end());
    if (packed_bytes() > 0) {
      WEFT_RETURN_IF_ERROR(convolution_->unpack(operands[1], room.get()));
      plain[1] = room.get();
    }
    return anew_->run(plain, room.get() + offset);
  }

  ConvolutionProblem problem_;
  int threads_;
  std::unique_ptr<OnednnConvolution> convolution_;
  std::unique_ptr<LibraryCallState> anew_; // made when a run meets a NaN
  int repeats_ = 0;
};

// False where the library's ReLU would lose NaNs and not tell.
bool keeps_nan(const ConvolutionProblem &problem, const OnednnConvolution &convolution) {
  return !problem.relu || convolution.tells_nan();
}

} // namespace

absl::StatusOr<std::unique_ptr<LibraryCallState>>
library_convolution(const ConvolutionProblem &problem, int threads) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OnednnConvolution> convolution,
                        OnednnConvolution::create(problem, threads, threads));
  if (!keeps_nan(problem, *convolution))
    return without_librarys(problem, threads);
  if (convolution->depends_on_threads())
    return convolution_in_parts(problem, threads);
  return std::make_unique<LibraryState>(problem, std::move(convolution), threads);
}

absl::StatusOr<std::unique_ptr<runtime::PackedCallState>>
packed_library_convolution(const ConvolutionProblem &problem, int threads) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OnednnConvolution> convolution,
                        OnednnConvolution::create(problem, threads, threads));
  if (!keeps_nan(problem, *convolution) || convolution->weight_bytes() == 0 ||
      convolution->depends_on_threads())
    return nullptr;
  return std::make_unique<LibraryState>(problem, std::move(convolution), threads);
}

} // namespace weft::backends::cpu

// oneDNN's convolution primitives, free of what differs between versions 2 and 3 of its API: an
// implementation file per version.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "backends/cpu/device/convolution_problem.h"

namespace weft::backends::cpu {

class OnednnConvolution {
public:
  virtual ~OnednnConvolution() = default;
  // Creates the primitives for a team of `threads`; pack() and unpack() are for one of
  // `copy_threads`.
  static absl::StatusOr<std::unique_ptr<OnednnConvolution>>
  create(const ConvolutionProblem &problem, int threads, int copy_threads);
  virtual std::string_view implementation() const = 0;
  // Whether the bits of a result depend on the number of threads; kWeightGradient's always do.
  virtual bool depends_on_threads() const = 0;
  // Operands that are reordered in each call.
  virtual int reorders() const = 0;
  // With packed_weight: the bytes of the weight, 0 where the library wants it plain; its form, as
  // PackedCallState::form(); the ways there and back.
  virtual int64_t weight_bytes() const = 0;
  virtual std::string weight_form() const = 0;
  virtual absl::Status pack(const void *plain, void *packed) const = 0;
  virtual absl::Status unpack(const void *packed, void *plain) const = 0;
  // All memory that a call needs: oneDNN's scratchpad and the reordered operands.
  virtual int64_t scratch_bytes() const = 0;
  // kForward: image, weight, bias where there is one, result. kInputGradient: result's gradient,
  // weight, image's gradient. kWeightGradient: image, result's gradient, weight's gradient. Calls
  // of different objects may run at once.
  virtual absl::Status run(std::span<void *const> operands, void *scratch) = 0;
  // Of a problem with a ReLU, which is the library's, and turns NaN into 0: whether it is known how
  // the last run ended, and whether that may have met one.
  virtual bool tells_nan() const = 0;
  virtual bool may_have_met_nan() const = 0;
};

// Whether the library takes bf16 images on this machine.
bool onednn_convolves_bf16();

} // namespace weft::backends::cpu

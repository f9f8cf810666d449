// oneDNN's convolution primitives, free of what differs between versions 2 and 3 of its API: an
// implementation file per version.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/core/dtype.h"

namespace weft::backends::cpu {

enum class ConvolutionKind { kForward, kInputGradient, kWeightGradient };

// Whether a convolution may be computed by Winograd's algorithm, and what that may expect: a weight
// that stays the same for many calls, or one that is given new values between them.
enum class Winograd { kNever, kWeightStays, kWeightChanges };

// No dim is 0; row-major, or images with channels last. result[n, o] = post_ops(bias[o] + sum
// of image and weight), as weft.conv2d has it; the gradients as weft.conv2d_input_gradient and
// weft.conv2d_weight_gradient.
struct ConvolutionProblem {
  ConvolutionKind kind = ConvolutionKind::kForward;
  std::array<int64_t, 4> image;  // [N, C, H, W]
  std::array<int64_t, 4> weight; // [O, C / groups, KH, KW]
  std::array<int64_t, 4> result; // [N, O, OH, OW]
  std::array<int64_t, 2> strides = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  // Of both factors, and of what is computed: float32, or of bfloat16 factors either; of a weight's
  // gradient, which is added up in parts, and of the bias float32.
  DType dtype = DType::kFloat32, computed = DType::kFloat32;
  bool channels_last = false;      // image and result are [N, H, W, C] in memory
  bool bias = false, relu = false; // kForward only
  // kForward and kWeightGradient: the weight, or its gradient, is in the layout that the library
  // wants (weight_bytes() of it), and not reordered in the call.
  bool packed_weight = false;
  Winograd winograd = Winograd::kNever;
};

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
};

// Whether the library takes bf16 images on this machine.
bool onednn_convolves_bf16();

} // namespace weft::backends::cpu

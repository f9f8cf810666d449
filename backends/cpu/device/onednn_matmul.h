// oneDNN's matmul primitive, free of what differs between versions 2 and 3 of its API: an
// implementation file per version.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/core/dtype.h"

namespace weft::backends::cpu {

// Strides in elements, each for a dim larger than 1 positive; a dim of 1 against a larger one of
// the result broadcasts.
struct StridedShape {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  DType dtype = DType::kFloat32; // or kBFloat16
};

enum class PostOp { kRelu, kAdd, kSub, kMul, kMax, kMin };

// c = post_ops(a b + bias), all of one rank of at least 2; no dim is 0. a and b are f32, or both
// bf16; sums and post-ops are f32, which a bf16 c rounds once.
struct MatmulProblem {
  StridedShape a;                   // [..., M, K]
  StridedShape b;                   // [..., K, N]
  StridedShape c;                   // [..., M, N]
  std::optional<StridedShape> bias; // [1, ..., 1, N]
  // The shape is the second operand's; none for kRelu.
  std::vector<std::pair<PostOp, std::optional<StridedShape>>> post_ops;
  bool accumulate = false; // a b + bias is added to what c holds, before the post-ops
};

// What the order in which the terms of an element are added up depends on beside the shapes:
// nothing; with kSharedTerms terms and more, the size of the team; the size of the team.
enum class SumOrder { kFixed, kByTerms, kByTeam };
inline constexpr int64_t kSharedTerms = 2048;

class OnednnMatmul {
public:
  virtual ~OnednnMatmul() = default;
  // Creates the primitive for a team of that many threads, on which its bits may depend
  // (create_matmul() in matmul_parts.h: on which they do not). Unimplemented where oneDNN has none,
  // Internal where it fails. packed: b comes in the form that oneDNN likes best; the problem's b
  // says how it lies before pack().
  static absl::StatusOr<std::unique_ptr<OnednnMatmul>> create(const MatmulProblem &problem,
                                                              int threads, bool packed = false);
  // What oneDNN calls the implementation: "brg:avx512_core", "gemm:jit"; "ref:any" is hundreds of
  // times slower.
  virtual std::string_view implementation() const = 0;
  virtual SumOrder sum_order() const = 0;
  virtual int64_t scratch_bytes() const = 0;
  // Of a primitive that was created packed: the bytes of b's form; 0 where the form is a plain one,
  // which is no packing.
  virtual int64_t packed_bytes() const = 0;
  // The form, and how b lies before; equal texts for equal work of pack().
  virtual std::string packed_form() const = 0;
  // On the thread that owns the team.
  virtual absl::Status pack(const void *b, void *packed) = 0;
  // a, b, c, bias where there is one, the second operands of the post-ops. On the thread that owns
  // the team.
  virtual absl::Status run(std::span<void *const> operands, void *scratch) = 0;
};

// "oneDNN 2.6.3"; part of what decides whether cached code may be used.
std::string onednn_version();
// Whether this machine multiplies bf16 numbers faster than f32 ones, by instructions of its own.
bool onednn_has_fast_bf16();
// Whether the library takes bf16 numbers on this machine, by whatever instructions.
bool onednn_takes_bf16();
// Whether the matmul that this machine gets has packed forms (those of AVX-512 do; the one for AVX2
// reads plain matrices only).
bool onednn_packs();

} // namespace weft::backends::cpu

// What claims of products and of convolutions take in around them. Products of 16-bit numbers are
// float32 ones between conversions here (weft-widen).
#pragma once

#include "compiler/claim/Provider.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

using ir::typeOf;

// Whether an operand or a result of the op has a size that is known at run time only.
bool hasVaryingSizes(mlir::Operation *op);
// The multiplications of the smallest product that the op stands for, -1 where that is not known.
int64_t smallestProduct(ir::MatmulOp matmul);

// The op that alone reads what the claim gives so far; null where several do.
mlir::Operation *onlyUser(const Claim &claim);
// An addition to it, which alone reads it, and what is added; null where none is.
std::pair<ir::AddOp, mlir::Value> addedTo(const Claim &claim);

// The claim's ops with those, each once, in the order of their block.
void takeIn(Claim &claim, llvm::ArrayRef<mlir::Operation *> ops);
// The settings of a convolution's call, which says which of the three it is.
template <typename Op> void describeConvolution(Claim &claim, Op conv, llvm::StringRef kind) {
  claim.set("kind", mlir::StringAttr::get(conv.getContext(), kind));
  claim.set("strides", conv.getStridesAttr());
  claim.set("padding", conv.getPaddingAttr());
  claim.set("dilation", conv.getDilationAttr());
  claim.set("groups", conv.getGroupsAttr());
  claim.ops.push_back(conv);
  claim.inputs.append(conv->operand_begin(), conv->operand_end());
}
// Notes that an activation of that kind, which alone reads what the claim gives, is left to a
// kernel.
template <typename Op>
void leaveActivation(Claim &claim, llvm::StringRef reason, llvm::StringRef explanation) {
  mlir::Operation *user = onlyUser(claim);
  if (mlir::isa_and_nonnull<Op>(user))
    claim.left.push_back({user, ClaimRefusal{reason, explanation}});
}
// + a vector of one number for each index of the dim, of at most `rank` dims, as the last input.
bool takeBias(Claim &claim, int64_t dim, int64_t rank);

// The conversion to float32 of numbers of that 16-bit type, or of either, that the value is; null
// for all else.
ir::CastOp wideningOf(mlir::Value value, mlir::Type narrow = {});
// The rounding of what the claim gives so far to that type, which alone reads it; null for none.
ir::CastOp roundingOf(const Claim &claim, mlir::Type narrow);
// Takes it in: the call writes its result rounded.
bool takeRounding(Claim &claim, mlir::Type narrow);

} // namespace weft::compiler

// What claims of products and of convolutions take in behind them.
#pragma once

#include "compiler/claim/Provider.h"
#include "dialects/weft/ir/Broadcasts.h"

namespace weft::backends::cpu {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

// The op that alone reads what the claim gives so far; null where several do.
inline mlir::Operation *onlyUser(const compiler::Claim &claim) {
  mlir::Value value = claim.ops.back()->getResult(0);
  return value.hasOneUse() ? *value.user_begin() : nullptr;
}

// An addition to it, which alone reads it, and what is added; null where none is.
inline std::pair<ir::AddOp, mlir::Value> addedTo(const compiler::Claim &claim) {
  auto add = mlir::dyn_cast_or_null<ir::AddOp>(onlyUser(claim));
  if (!add)
    return {};
  return {add, add.getLhs() == claim.ops.back()->getResult(0) ? add.getRhs() : add.getLhs()};
}

// + a vector of one number for each index of the dim, of at most `rank` dims.
inline bool takeBias(compiler::Claim &claim, int64_t dim, int64_t rank) {
  auto [add, other] = addedTo(claim);
  auto broadcast = add ? other.getDefiningOp<ir::BroadcastOp>() : ir::BroadcastOp();
  if (!broadcast || broadcast.getInput().getType().getRank() > rank ||
      !ir::vectorAlong(broadcast, dim))
    return false;
  // The broadcast must be there before the add; where it stands among the other ops does not
  // matter, as it reads none of them.
  claim.ops.insert(claim.ops.begin(), broadcast);
  claim.ops.push_back(add);
  claim.inputs.push_back(broadcast.getInput());
  return true;
}

// Whether the op converts elements of one type to another.
inline bool converts(mlir::Operation *op, bool (mlir::Type::*from)() const,
                     bool (mlir::Type::*to)() const) {
  auto cast = mlir::dyn_cast_or_null<ir::CastOp>(op);
  return cast && (typeOf(cast.getInput()).getElementType().*from)() &&
         (typeOf(cast).getElementType().*to)();
}

// The conversion to bf16 of what is computed, which the call writes rounded.
inline bool takeRounding(compiler::Claim &claim) {
  mlir::Operation *user = onlyUser(claim);
  bool rounds = converts(user, &mlir::Type::isF32, &mlir::Type::isBF16);
  if (rounds)
    claim.ops.push_back(user);
  return rounds;
}

} // namespace weft::backends::cpu

// The rules of weft-simplify, by group. Each rewrites the op and returns success, or changes nothing and returns failure. Rules look at
// an op, its operands and at most a fixed number of their neighbours, so that one application costs a constant.
#pragma once

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/PatternMatch.h"

namespace weft::compiler {

// Constants of at most so many elements are folded when they are no splats: tables (iota, masks), not weights. Larger ones would
// cost more compile time and IR than the kernel that computes them.
inline constexpr int64_t kMaxFoldedElements = 1024;

llvm::LogicalResult foldConstants(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyElementwise(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyMovement(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyContraction(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyReduction(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyRandom(mlir::Operation *op, mlir::RewriterBase &rewriter);

// The one element of a splat constant, as a double (integers up to 2^53 exactly) and as an int64; null attribute: not a splat.
struct Splat {
  mlir::TypedAttr value;
  explicit operator bool() const { return static_cast<bool>(value); }
  // Whether it is this number; for floats bit for bit, so that 0 is not -0.
  bool is(double number) const;
  std::optional<double> number() const;
};
Splat splatOf(mlir::Value value);
mlir::Value splatConstant(mlir::RewriterBase &rewriter, mlir::Location loc, mlir::Type type, mlir::TypedAttr element);
inline mlir::RankedTensorType tensorType(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }

} // namespace weft::compiler

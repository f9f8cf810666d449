// The rules of weft-simplify, by group. Each rewrites the op and returns success, or changes
// nothing and returns failure. Rules look at an op, its operands and at most a fixed number of
// their neighbours, so that one application costs a constant.
#pragma once

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::compiler {

// Where the inputs of concats begin along their dim. It is kept while the rules run, so that a
// slice finds its input by bisection: a network that stacks T steps and reads them again has T
// slices of a concat of T.
class ConcatBegins {
public:
  // For each input its first position, and behind them the size of the whole.
  llvm::ArrayRef<int64_t> of(ir::ConcatOp concat);
  // To be told of ops that change or go.
  void forget(mlir::Operation *op) {
    begins_.erase(op);
  }
  // Inputs that were looked at.
  int64_t work() const {
    return work_;
  }

private:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t, 0>> begins_;
  int64_t work_ = 0;
};

// What a run of all rules over a block did.
struct SimplifyWork {
  int64_t rewrites = 0;
  int64_t operands = 0; // of ops that were looked at: what the rules cost
};
// Applies the rules until none applies. Linear in ops and uses.
SimplifyWork simplify(mlir::Block &block);

// The op's own folder (dialects/weft/rules/Folding.cpp): identities, chains of movements,
// constants. The other rules need not repeat these.
llvm::LogicalResult fold(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyElementwise(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyMovement(mlir::Operation *op, mlir::RewriterBase &rewriter,
                                     ConcatBegins &begins);
llvm::LogicalResult simplifyInsertion(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyContraction(mlir::Operation *op, mlir::RewriterBase &rewriter);
llvm::LogicalResult simplifyReduction(mlir::Operation *op, mlir::RewriterBase &rewriter);

// The one element of a splat constant, or of repeats of one, as a double (integers up to 2^53
// exactly) and as an int64; null attribute: not a splat.
struct Splat {
  mlir::TypedAttr value;
  explicit operator bool() const {
    return static_cast<bool>(value);
  }
  // Whether it is this number; for floats bit for bit, so that 0 is not -0.
  bool is(double number) const;
  std::optional<double> number() const;
};
Splat splatOf(mlir::Value value);
using ir::typeOf;

} // namespace weft::compiler

#include "backends/cuda/compile/MatmulProvider.h"

#include "backends/cuda/compile/Limits.h"
#include "compiler/claim/ClaimSteps.h"
#include "mlir/IR/Builders.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;
using compiler::typeOf;

// A factor as the call reads it: of 16-bit numbers behind their conversion to float32 (weft-widen),
// and behind a transpose of its two last dims.
struct Factor {
  Value value;
  bool isTransposed = false;
  SmallVector<Operation *, 2> ops; // that the call takes in, the last one first
};

bool swapsLastDims(ir::TransposeOp transpose) {
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  auto rank = static_cast<int64_t>(permutation.size());
  for (int64_t i = 0; i < rank; ++i)
    if (permutation[i] != (i < rank - 2 ? i : 2 * rank - 3 - i))
      return false;
  return rank >= 2;
}

// Null where no 16-bit numbers stand behind it.
std::optional<Factor> narrowFactor(Value value, bool isTransposed) {
  Factor factor{value, isTransposed, {}};
  bool isNarrow = false;
  while (Operation *op = factor.value.getDefiningOp()) {
    auto transpose = dyn_cast<ir::TransposeOp>(op);
    if (!isNarrow && compiler::wideningOf(factor.value))
      isNarrow = true;
    else if (transpose && factor.isTransposed == isTransposed && swapsLastDims(transpose))
      factor.isTransposed = !isTransposed;
    else
      break;
    factor.ops.push_back(op);
    factor.value = op->getOperand(0);
  }
  return isNarrow ? std::optional(factor) : std::nullopt;
}

class MatmulProvider : public compiler::Provider {
public:
  StringRef name() const override {
    return "cublaslt.matmul";
  }
  bool takesVaryingSizes() const override {
    return true;
  }

  ClaimAnswer match(Operation *op, compiler::MathMode math) const override {
    auto matmul = dyn_cast<ir::MatmulOp>(op);
    if (!matmul)
      return NotMine{};
    ArrayRef<int64_t> lhs = ir::shapeOf(matmul.getLhs()), rhs = ir::shapeOf(matmul.getRhs()),
                      out = ir::shapeOf(op->getResult(0));
    // Products of 16-bit numbers are float32 ones of conversions here (weft-widen).
    if (!isa<FloatType>(typeOf(matmul.getLhs()).getElementType()))
      return ClaimRefusal{"dtype", "cuBLASLt multiplies numbers of floating-point dtypes"};
    if (lhs.size() < 2 || rhs.size() < 2)
      return ClaimRefusal{"vector", "cuBLASLt multiplies matrices; a vector is our kernel's"};
    int64_t depth = matmul.getTransposeLhs() ? lhs.end()[-2] : lhs.back(), elements = 1;
    for (int64_t size : out)
      elements *= size;
    if (elements == 0 || depth == 0)
      return ClaimRefusal{"empty", "there is nothing to multiply"};
    if (elements < (kMinMultiplications + depth - 1) / depth)
      return ClaimRefusal{"too-small",
                          "a call of the library takes longer than a product of this size"};
    auto batch = [](ArrayRef<int64_t> shape) {
      return shape.drop_back(2);
    };
    if (batch(lhs) != batch(out) || (rhs.size() != 2 && batch(rhs) != batch(out)))
      return ClaimRefusal{"repeated-batch",
                          "the call repeats no operand over batch dims, but for an rhs of rank 2"};
    int64_t products = 1;
    for (int64_t size : batch(out))
      products *= size;
    if (products > kMostProducts && compiler::hasVaryingSizes(op))
      return compiler::SometimesMine{"the library counts the products of a batch in 32 bits, and "
                                     "the largest batch of the range has too many"};
    if (products > kMostProducts)
      return ClaimRefusal{"too-many", "cuBLASLt counts the products of a batch in 32 bits"};
    // The library at every size or at none: which of the two it is decides the bits of the result.
    if (compiler::hasVaryingSizes(op) && compiler::smallestProduct(matmul) < kMinMultiplications)
      return compiler::SometimesMine{"the library takes products of larger sizes only, and the "
                                     "smallest of the range is none"};
    Claim claim;
    Builder builder(op->getContext());
    auto flag = [&](StringRef name) {
      claim.set(name, builder.getI64IntegerAttr(1));
    };
    Factor left{matmul.getLhs(), matmul.getTransposeLhs(), {}},
        right{matmul.getRhs(), matmul.getTransposeRhs(), {}};
    claim.ops.push_back(op);
    // Of both factors or of none: the call takes them in one type, and gives its result in that or
    // in float32.
    Type narrow;
    std::optional<Factor> narrowLeft = narrowFactor(left.value, left.isTransposed),
                          narrowRight = narrowFactor(right.value, right.isTransposed);
    if (narrowLeft && narrowRight &&
        typeOf(narrowLeft->value).getElementType() == typeOf(narrowRight->value).getElementType()) {
      left = *narrowLeft;
      right = *narrowRight;
      takeIn(claim, left.ops);
      takeIn(claim, right.ops);
      narrow = typeOf(left.value).getElementType();
    }
    if (left.isTransposed)
      flag("transpose_lhs");
    if (right.isTransposed)
      flag("transpose_rhs");
    claim.inputs.append({left.value, right.value});
    if (takeBias(claim, typeOf(op->getResult(0)).getRank() - 1, /*rank=*/out.size()))
      flag("bias");
    bool isRelu = takeRelu(claim, math);
    if (narrow)
      takeNarrowResult(claim, narrow);
    if (isRelu || takeRelu(claim, math)) // of rounded numbers it is the same
      claim.set("post_ops", builder.getStringAttr("relu"));
    compiler::leaveActivation<ir::ReluOp>(
        claim, "relu-drops-nan", "cuBLASLt's ReLU turns NaN into 0; it stays a kernel of ours");
    compiler::leaveActivation<ir::GeluOp>(claim, "gelu-inexact",
                                          "cuBLASLt's GELU is a tanh approximation without an "
                                          "error bound; it stays a kernel of ours");
    claim.outputs.push_back(claim.ops.back()->getResult(0));
    return claim;
  }

private:
  // The rounding of the result, and the widening of the bias with it: the library adds one of its
  // result's type.
  static void takeNarrowResult(Claim &claim, Type narrow) {
    ir::CastOp rounding = roundingOf(claim, narrow);
    if (!rounding)
      return;
    if (claim.inputs.size() > 2) {
      ir::CastOp widening = compiler::wideningOf(claim.inputs[2], narrow);
      if (!widening) {
        claim.left.push_back(
            {rounding, ClaimRefusal{"wide-bias", "cuBLASLt adds a bias of its result's dtype; what "
                                                 "is added in float32 is rounded by a kernel"}});
        return;
      }
      claim.inputs[2] = widening.getInput();
      takeIn(claim, {widening});
    }
    takeIn(claim, {rounding});
  }

  // Drops NaN, so that it takes fast math.
  static bool takeRelu(Claim &claim, compiler::MathMode math) {
    auto relu = dyn_cast_or_null<ir::ReluOp>(onlyUser(claim));
    if (!relu || math != compiler::MathMode::Fast)
      return false;
    claim.ops.push_back(relu);
    return true;
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeMatmulProvider() {
  return std::make_unique<MatmulProvider>();
}

} // namespace weft::backends::cuda

#include "backends/cpu/compile/MatmulProvider.h"

#include "backends/cpu/compile/SizeRange.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::backends::cpu {

namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;

// Multiplications below which our own kernel is as fast: a call of oneDNN takes about half a microsecond whatever it computes (16^3: 0.49
// us), and a program without library calls runs on its caller's thread.
constexpr int64_t kMinMultiplications = 16 * 16 * 16;

mlir::RankedTensorType typeOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }

// Whether the dim that is contiguous before a transpose is one of the last two after it. Else each element would lie in a cache line of
// its own, and oneDNN takes an implementation that is hundreds of times slower (the table in backends/cpu/device/matmul_entry.h).
bool keepsContiguousDim(llvm::ArrayRef<int64_t> permutation, llvm::ArrayRef<int64_t> shape) {
  int64_t rank = permutation.size(), contiguous = rank - 1;
  while (contiguous > 0 && shape[contiguous] == 1) --contiguous;
  for (int64_t i = rank - 2; i < rank; ++i)
    if (permutation[i] == contiguous) return true;
  return false;
}

// The multiplications of the smallest product that the op stands for, -1 where that is not known.
int64_t smallestProduct(ir::MatmulOp matmul) {
  int64_t product = 1;
  llvm::SmallVector<ir::Dim> dims(ir::dimsOf(typeOf(matmul)));
  ir::Dims lhs = ir::dimsOf(typeOf(matmul.getLhs()));
  dims.push_back(lhs[lhs.size() - (matmul.getTransposeLhs() ? 2 : 1)]);
  for (const ir::Dim &dim : dims) {
    int64_t size = smallestSize(matmul, dim);
    if (size < 0 || __builtin_mul_overflow(product, size, &product)) return -1;
  }
  return product;
}

class MatmulProvider : public compiler::Provider {
public:
  llvm::StringRef name() const override { return "onednn.matmul"; }
  bool takesVaryingSizes() const override { return true; }

  ClaimAnswer match(mlir::Operation *op, bool fastMath) const override {
    auto matmul = mlir::dyn_cast<ir::MatmulOp>(op);
    if (!matmul) return NotMine{};
    auto lhsType = typeOf(matmul.getLhs()), resultType = typeOf(matmul);
    if (!lhsType.getElementType().isF32()) return ClaimRefusal{"dtype", "oneDNN's matmul is claimed for float32 only"};
    int64_t depth = matmul.getTransposeLhs() ? lhsType.getShape().end()[-2] : lhsType.getShape().back();
    if (resultType.getNumElements() == 0 || depth == 0) return ClaimRefusal{"empty", "there is nothing to multiply"};
    if (resultType.getNumElements() < (kMinMultiplications + depth - 1) / depth)
      return ClaimRefusal{"too-small", "a call of the library takes longer than a product of this size"};
    // The library at every size or at none: which of the two it is decides the bits of the result.
    if (ir::hasNamedDims(resultType) || ir::hasNamedDims(lhsType))
      if (smallestProduct(matmul) < kMinMultiplications) return compiler::SometimesMine{kSometimesTooSmall};

    Claim claim;
    mlir::Builder builder(op->getContext());
    auto config = [&](llvm::StringRef name, mlir::Attribute value) { claim.config.emplace_back(builder.getStringAttr(name), value); };
    auto operand = [&](mlir::Value value, llvm::StringRef permutation) {
      auto transpose = value.getDefiningOp<ir::TransposeOp>();
      if (!transpose) return claim.inputs.push_back(value);
      if (!keepsContiguousDim(transpose.getPermutation(), typeOf(transpose.getInput()).getShape())) {
        claim.left.push_back(
            {transpose, ClaimRefusal{"strided-operand", "oneDNN reads an operand slowly if neither of its last two dims is contiguous"}});
        return claim.inputs.push_back(value);
      }
      claim.ops.push_back(transpose);
      claim.inputs.push_back(transpose.getInput());
      config(permutation, transpose.getPermutationAttr());
    };
    operand(matmul.getLhs(), "lhs_permutation");
    operand(matmul.getRhs(), "rhs_permutation");
    if (claim.ops.size() == 2 && claim.ops[0] == claim.ops[1]) claim.ops.pop_back();
    if (claim.ops.size() == 2 && claim.ops[1]->isBeforeInBlock(claim.ops[0])) std::swap(claim.ops[0], claim.ops[1]);
    if (matmul.getTransposeLhs()) config("transpose_lhs", builder.getI64IntegerAttr(1));
    if (matmul.getTransposeRhs()) config("transpose_rhs", builder.getI64IntegerAttr(1));
    claim.ops.push_back(matmul);
    takeBias(claim, config, builder);
    if (fastMath) takeRelu(claim, config, builder);
    takeTranspose(claim, config);
    noteActivation(claim);
    claim.outputs.push_back(claim.ops.back()->getResult(0));
    return claim;
  }

private:
  static mlir::Operation *onlyUser(const Claim &claim) {
    mlir::Value value = claim.ops.back()->getResult(0);
    return value.hasOneUse() ? *value.user_begin() : nullptr;
  }

  template <typename Config> static void takeBias(Claim &claim, const Config &config, mlir::Builder &builder) {
    auto add = mlir::dyn_cast_or_null<ir::AddOp>(onlyUser(claim));
    if (!add) return;
    mlir::Value product = claim.ops.back()->getResult(0), other = add.getLhs() == product ? add.getRhs() : add.getLhs();
    auto broadcast = other.getDefiningOp<ir::BroadcastOp>();
    if (!broadcast) return;
    auto type = typeOf(broadcast.getInput());
    if (type.getRank() != 1 || type.getShape()[0] != typeOf(product).getShape().back()) return;
    // The broadcast must be there before the add; where it stands among the other ops does not matter, as it reads none of them.
    claim.ops.insert(claim.ops.begin(), broadcast);
    claim.ops.push_back(add);
    claim.inputs.push_back(broadcast.getInput());
    config("bias", builder.getI64IntegerAttr(1));
  }

  // Drops NaN, so that it takes fast_math.
  template <typename Config> static void takeRelu(Claim &claim, const Config &config, mlir::Builder &builder) {
    auto relu = mlir::dyn_cast_or_null<ir::ReluOp>(onlyUser(claim));
    if (!relu) return;
    claim.ops.push_back(relu);
    config("post_ops", builder.getStringAttr("relu"));
  }

  template <typename Config> static void takeTranspose(Claim &claim, const Config &config) {
    auto transpose = mlir::dyn_cast_or_null<ir::TransposeOp>(onlyUser(claim));
    if (!transpose) return;
    // The last dim of the result in memory must be one of the product's last two: the same question, asked of the inverse permutation.
    llvm::ArrayRef<int64_t> permutation = transpose.getPermutation();
    int64_t rank = permutation.size();
    if (permutation[rank - 1] < rank - 2) {
      claim.left.push_back(
          {transpose, ClaimRefusal{"strided-result", "oneDNN writes a result slowly if neither of its last two dims is contiguous"}});
      return;
    }
    claim.ops.push_back(transpose);
    config("out_permutation", transpose.getPermutationAttr());
  }

  static void noteActivation(Claim &claim) {
    mlir::Operation *user = onlyUser(claim);
    if (mlir::isa_and_nonnull<ir::ReluOp>(user))
      claim.left.push_back({user, ClaimRefusal{"relu-drops-nan", "oneDNN's ReLU turns NaN into 0; it stays a kernel of ours"}});
    if (mlir::isa_and_nonnull<ir::GeluOp>(user))
      claim.left.push_back(
          {user, ClaimRefusal{"gelu-inexact", "oneDNN's GELU misses its error bound for negative arguments; it stays a kernel of ours"}});
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeMatmulProvider() { return std::make_unique<MatmulProvider>(); }

} // namespace weft::backends::cpu

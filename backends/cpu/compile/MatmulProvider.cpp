#include "backends/cpu/compile/MatmulProvider.h"

#include "backends/cpu/compile/Limits.h"
#include "backends/cpu/compile/SizeRange.h"
#include "backends/cpu/device/library_sizes.h"
#include "backends/cpu/device/matmul_packing.h"
#include "compiler/claim/ClaimSteps.h"
#include "compiler/fusion/NarrowMatrix.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/SmallestSize.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::backends::cpu {

using namespace mlir;

namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;
using compiler::typeOf;

// Whether the dim that is contiguous before a transpose is one of the last two after it. Else each
// element would lie in a cache line of its own, and oneDNN takes an implementation that is hundreds
// of times slower (the table in backends/cpu/device/matmul_entry.h).
bool keepsContiguousDim(ArrayRef<int64_t> permutation, ArrayRef<int64_t> shape) {
  int64_t rank = permutation.size(), contiguous = rank - 1;
  while (contiguous > 0 && shape[contiguous] == 1)
    --contiguous;
  for (int64_t i = rank - 2; i < rank; ++i)
    if (permutation[i] == contiguous)
      return true;
  return false;
}

// Whether the value has memory whoever reads it: an argument, what a library writes, or a part of
// such in which bytes are in a row. Others may be computed by the kernel that reads them.
bool liesInMemory(Value value) {
  for (int i = 0; i < kMaxAliases; ++i) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<ir::ProviderCallOp>(op))
      return true;
    if (auto slice = dyn_cast<ir::SliceOp>(op)) {
      ArrayRef<int64_t> from = ir::shapeOf(slice.getInput()), to = ir::shapeOf(slice);
      if (from.drop_front() != to.drop_front() || slice.getSteps().front() != 1)
        return false;
    } else if (!isa<ir::ReshapeOp>(op)) {
      return false;
    }
    value = op->getOperand(0);
  }
  return false;
}

// The conversion of bf16 numbers that the value is; null for all else.
ir::CastOp widening(Value value) {
  return compiler::wideningOf(value, BFloat16Type::get(value.getContext()));
}

// Whether an operand is made of bf16 numbers by conversions and transposes that the call would take
// in: one of each, in either order.
bool isWidened(Value value) {
  if (auto transpose = value.getDefiningOp<ir::TransposeOp>())
    value = transpose.getInput();
  return widening(value) != nullptr;
}

// Of the sizes that the type has, its largest ones, or of the smallest.
bool libraryCounts(ir::MatmulOp matmul, bool smallest) {
  auto counts = [&](ArrayRef<ir::Dim> dims) {
    SmallVector<int64_t> sizes;
    for (const ir::Dim &dim : dims)
      sizes.push_back(smallest ? ir::smallestSize(matmul, dim) : dim.size);
    return library_counts({sizes.data(), sizes.size()});
  };
  ir::Dims result = ir::dimsOf(matmul), lhs = ir::dimsOf(matmul.getLhs());
  ArrayRef<ir::Dim> dims = result;
  // Matrices of a batch may be rows of one matrix to the entry.
  return counts(dims.drop_back()) && counts(dims.take_back()) &&
         counts(lhs[lhs.size() - (matmul.getTransposeLhs() ? 2 : 1)]);
}

class MatmulProvider : public compiler::Provider {
public:
  MatmulProvider(bool packs, bool bf16) : packs_(packs), bf16_(bf16) {}
  StringRef name() const override {
    return "onednn.matmul";
  }
  bool takesVaryingSizes() const override {
    return true;
  }

  ClaimAnswer match(Operation *op, compiler::MathMode math) const override {
    auto matmul = dyn_cast<ir::MatmulOp>(op);
    if (!matmul)
      return NotMine{};
    auto lhsType = typeOf(matmul.getLhs()), resultType = typeOf(matmul);
    // Products of 16-bit numbers are f32 ones of conversions here (weft-widen).
    if (!lhsType.getElementType().isF32())
      return ClaimRefusal{"dtype", "oneDNN's matmul is claimed for float32 only"};
    bool isOfNarrow = bf16_ && isWidened(matmul.getLhs()) && isWidened(matmul.getRhs());
    int64_t depth =
        matmul.getTransposeLhs() ? lhsType.getShape().end()[-2] : lhsType.getShape().back();
    if (resultType.getNumElements() == 0 || depth == 0)
      return ClaimRefusal{"empty", "there is nothing to multiply"};
    if (resultType.getNumElements() < (kMinMatmulMultiplications + depth - 1) / depth)
      return ClaimRefusal{"too-small",
                          "a call of the library takes longer than a product of this size"};
    bool isNarrow = compiler::narrowMatrixOf(matmul).has_value();
    if (isNarrow != compiler::narrowMatrixOf(matmul, /*smallest=*/true).has_value())
      return compiler::SometimesMine{kSometimesFewRows};
    if (isNarrow)
      return ClaimRefusal{"narrow-matrix", "of few rows, a kernel of ours reads the matrix in the "
                                           "bits that it is stored in"};
    if (!libraryCounts(matmul, /*smallest=*/false)) {
      bool varies = ir::hasNamedDims(resultType) || ir::hasNamedDims(lhsType);
      if (varies && libraryCounts(matmul, /*smallest=*/true))
        return compiler::SometimesMine{kSometimesTooLarge};
      return ClaimRefusal{"too-large", "oneDNN counts in 32 bits"};
    }
    // The library at every size or at none: which of the two it is decides the bits of the result.
    if (ir::hasNamedDims(resultType) || ir::hasNamedDims(lhsType))
      if (compiler::smallestProduct(matmul) < kMinMatmulMultiplications)
        return compiler::SometimesMine{kSometimesTooSmall};

    Claim claim;
    Builder builder(op->getContext());
    auto operand = [&](Value value, StringRef permutation) {
      auto takeWidening = [&] {
        if (ir::CastOp cast = isOfNarrow ? widening(value) : nullptr) {
          claim.ops.push_back(cast);
          value = cast.getInput();
        }
      };
      takeWidening();
      auto transpose = value.getDefiningOp<ir::TransposeOp>();
      if (!transpose)
        return claim.inputs.push_back(value);
      if (!keepsContiguousDim(transpose.getPermutation(), ir::shapeOf(transpose.getInput()))) {
        claim.left.push_back(
            {transpose,
             ClaimRefusal{
                 "strided-operand",
                 "oneDNN reads an operand slowly if neither of its last two dims is contiguous"}});
        return claim.inputs.push_back(value);
      }
      claim.ops.push_back(transpose);
      value = transpose.getInput();
      claim.set(permutation, transpose.getPermutationAttr());
      takeWidening();
      claim.inputs.push_back(value);
    };
    // Conversions behind a transpose that stays cannot be taken in: then both operands keep theirs.
    auto reachesNarrow = [](Value value) {
      auto transpose = value.getDefiningOp<ir::TransposeOp>();
      return widening(value) ||
             (transpose &&
              keepsContiguousDim(transpose.getPermutation(), ir::shapeOf(transpose.getInput())));
    };
    isOfNarrow = isOfNarrow && reachesNarrow(matmul.getLhs()) && reachesNarrow(matmul.getRhs());
    operand(matmul.getLhs(), "lhs_permutation");
    operand(matmul.getRhs(), "rhs_permutation");
    llvm::sort(claim.ops, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
    claim.ops.erase(llvm::unique(claim.ops), claim.ops.end());
    if (matmul.getTransposeLhs())
      claim.set("transpose_lhs", builder.getI64IntegerAttr(1));
    if (matmul.getTransposeRhs())
      claim.set("transpose_rhs", builder.getI64IntegerAttr(1));
    claim.ops.push_back(matmul);
    if (takeBias(claim, resultType.getRank() - 1, /*rank=*/1))
      claim.set("bias", builder.getI64IntegerAttr(1));
    takeTerm(claim, builder);
    if (math == compiler::MathMode::Fast)
      takeRelu(claim, builder);
    bool rounds = isOfNarrow && takeRounding(claim, builder.getBF16Type());
    takeTranspose(claim);
    if (isOfNarrow && !rounds)
      takeRounding(claim, builder.getBF16Type());
    compiler::leaveActivation<ir::ReluOp>(
        claim, "relu-drops-nan", "oneDNN's ReLU turns NaN into 0; it stays a kernel of ours");
    compiler::leaveActivation<ir::GeluOp>(
        claim, "gelu-inexact",
        "oneDNN's GELU misses its error bound for negative arguments; it stays a kernel of ours");
    claim.outputs.push_back(claim.ops.back()->getResult(0));
    return claim;
  }

  // The right side of products of few rows. Everything of the product stands in the config, since
  // its entry decides by that whether there is a form, and which
  // (backends/cpu/device/pack_entry.h).
  compiler::PackingAnswer packing(Operation *op) const override {
    auto call = cast<ir::ProviderCallOp>(op);
    DictionaryAttr config = call.getConfig();
    for (StringRef key : {StringRef("lhs_permutation"), StringRef("rhs_permutation"),
                          StringRef("out_permutation"), StringRef(kPackedRhs)})
      if (config.contains(key))
        return NotMine{};
    // Of IR that was written by hand the entry says what is wrong.
    if (call->getNumOperands() < 2 || call->getNumResults() != 1)
      return NotMine{};
    auto lhs = typeOf(call->getOperand(0)), rhs = typeOf(call->getOperand(1)),
         out = typeOf(call->getResult(0));
    if (!packs_ || !lhs.getElementType().isF32() || lhs.getRank() != 2 || rhs.getRank() != 2 ||
        ir::hasNamedDims(lhs) || ir::hasNamedDims(rhs))
      return NotMine{};
    int64_t bytes = rhs.getNumElements() * 4;
    if (!packing_pays(out.getDimSize(0), bytes))
      return NotMine{};
    bool transposed = config.contains("transpose_rhs");
    if (!packing_keeps_size(rhs.getDimSize(transposed), rhs.getDimSize(!transposed)))
      return ClaimRefusal{"padded-form", "the library's form of this matrix takes more memory than "
                                         "the matrix; each product makes its own"};
    Builder builder(op->getContext());
    SmallVector<NamedAttribute> ours(config.getValue());
    ours.push_back(builder.getNamedAttr("lhs", builder.getDenseI64ArrayAttr(lhs.getShape())));
    ours.push_back(builder.getNamedAttr("out", builder.getDenseI64ArrayAttr(out.getShape())));
    return compiler::OperandPacking{1, builder.getStringAttr("onednn.pack"),
                                    builder.getDictionaryAttr(ours),
                                    builder.getNamedAttr(kPackedRhs, builder.getI64IntegerAttr(1)),
                                    transposed ? kMinPackedTransposedProducts : kMinPackedProducts};
  }

  compiler::RowsAnswer rowPieces(ArrayRef<RankedTensorType> types, DictionaryAttr config,
                                 int64_t rows) const override {
    for (NamedAttribute entry : config)
      if (entry.getName() != "transpose_lhs" && entry.getName() != "transpose_rhs")
        return ClaimRefusal{"more-than-a-product",
                            "only a product alone, of matrices as they lie, is cut by rows"};
    if (types.size() != 3 || llvm::any_of(types, [](auto type) { return type.getRank() != 2; }))
      return ClaimRefusal{"more-than-a-product",
                          "only a product alone, of matrices as they lie, is cut by rows"};
    auto lhs = types[0], rhs = types[1];
    bool transposed = config.contains("transpose_lhs");
    int64_t element = lhs.getElementTypeBitWidth() / 8, columns = lhs.getDimSize(1),
            terms = transposed ? lhs.getDimSize(0) : columns;
    if (terms > kManyTerms && types[2].getDimSize(1) < kFewColumns)
      return ClaimRefusal{"few-columns", "of few columns and many terms, oneDNN adds up some rows "
                                         "of a product otherwise than all of them"};
    compiler::RowPieces pieces;
    pieces.multiple = kRowsOfPieces;
    NamedAttrList settings(config);
    if (transposed) {
      Builder builder(config.getContext());
      settings.append("dense_lhs", builder.getI64IntegerAttr(1));
    }
    pieces.config = settings.getDictionary(config.getContext());
    if (transposed) // its rows are columns in memory
      pieces.inputs.push_back({RankedTensorType::get({terms, rows}, lhs.getElementType()),
                               {columns, 1},
                               ((terms - 1) * columns + rows) * element,
                               element});
    else
      pieces.inputs.push_back({RankedTensorType::get({rows, terms}, lhs.getElementType()),
                               {},
                               rows * terms * element,
                               terms * element});
    pieces.inputs.push_back(
        {rhs, {}, rhs.getNumElements() * int64_t(rhs.getElementTypeBitWidth() / 8), 0});
    return pieces;
  }

private:
  static constexpr StringLiteral kPackedRhs = "packed_rhs";

  // Another term of the result's shape, such as the input's share of a recurrent network's gates.
  static void takeTerm(Claim &claim, Builder &builder) {
    auto [add, other] = addedTo(claim);
    if (!add || typeOf(other).getNumElements() > kMaxTermElements || !liesInMemory(other))
      return;
    claim.ops.push_back(add);
    claim.inputs.push_back(other);
    claim.set("post_ops", builder.getStringAttr("add"));
  }

  // Drops NaN, so that it takes fast_math.
  static void takeRelu(Claim &claim, Builder &builder) {
    auto relu = dyn_cast_or_null<ir::ReluOp>(onlyUser(claim));
    if (!relu)
      return;
    claim.ops.push_back(relu);
    for (NamedAttribute &entry : claim.config)
      if (entry.getName() == "post_ops")
        return entry.setValue(builder.getStringAttr("add,relu"));
    claim.set("post_ops", builder.getStringAttr("relu"));
  }

  static void takeTranspose(Claim &claim) {
    auto transpose = dyn_cast_or_null<ir::TransposeOp>(onlyUser(claim));
    if (!transpose)
      return;
    // The last dim of the result in memory must be one of the product's last two: the same
    // question, asked of the inverse permutation.
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    int64_t rank = permutation.size();
    if (permutation[rank - 1] < rank - 2) {
      claim.left.push_back(
          {transpose,
           ClaimRefusal{
               "strided-result",
               "oneDNN writes a result slowly if neither of its last two dims is contiguous"}});
      return;
    }
    claim.ops.push_back(transpose);
    claim.set("out_permutation", transpose.getPermutationAttr());
  }

  bool packs_, bf16_;
};

} // namespace

std::unique_ptr<compiler::Provider> makeMatmulProvider(bool packs, bool bf16) {
  return std::make_unique<MatmulProvider>(packs, bf16);
}

} // namespace weft::backends::cpu

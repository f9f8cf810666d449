#include "frontend/recorder/programs/stability.h"

#include <unordered_map>

#include "compiler/backend/Backend.h"
#include "compiler/prepare/PrepareLimits.h"
#include "frontend/recorder/programs/backends.h"
#include "frontend/recorder/record/limits.h"
#include "runtime/core/caches.h"
#include "runtime/memory/buffer.h"
#include "llvm/ADT/Hashing.h"

namespace weft::recorder {
namespace {

using compiler::kPrepareLimits;

// What is known of a value while a slice is looked at (Value::stability).
constexpr uint8_t kConstant = 1; // depends on stable leaves and constants only
constexpr uint8_t kDerived = 2;  // on at least one stable leaf
constexpr uint8_t kProfits = 4;  // and should be stable

// Enough for a weight that is reshaped, transposed and cast on its way.
constexpr int kMaxChain = 8;

// What analyses found, under the recorder's lock.
struct Known {
  std::unordered_map<uint64_t, llvm::BitVector> answers; // by the question
  int64_t bytes = 0;
};
Known &known() {
  static auto *known = new Known; // never destroyed, as the recorder
  return *known;
}

const runtime::RegisteredCache registered("stable leaves", "all go beyond a bound", [] {
  return runtime::CacheUse{static_cast<int64_t>(known().answers.size()), known().bytes,
                           static_cast<int64_t>(kLimits.stable_slices), kLimits.stable_bytes};
});

bool is_free(const Node *node) {
  return is<ir::ReshapeOp, ir::BroadcastOp, ir::SliceOp, ir::ConstantOp, ir::IotaOp>(node);
}
bool is_cheap(const Node *node) {
  return node->signature->rules->kind() == ir::Kind::Elementwise || is<ir::TransposeOp>(node);
}

// A product reads a transposed matrix as it lies.
bool is_read_through(const Node *producer, const Node *user) {
  return is<ir::TransposeOp>(producer) && is<ir::MatmulOp>(user);
}

// The matrix that a library could pack, if the op is a product with few enough rows; the weight, if
// it is a convolution that gives few enough pixels.
Value *packable(Node *node, const compiler::StableUse &use) {
  bool product = is<ir::MatmulOp>(node);
  if (!product && !is<ir::Conv2dOp>(node))
    return nullptr;
  Value *weight = node->operands[1];
  if (weight->type->dtype != DType::kFloat32 || weight->type->bytes < use.packedBytes)
    return nullptr;
  const TypeInfo &result = *node->signature->results[0];
  if (product && weight->type->ndim() != 2)
    return nullptr;
  int64_t others = product ? result.dims.back() : result.dims[1]; // columns, or channels
  // One row, or one column: a kernel that reads the matrix as it is (compiler/graph, products with
  // a vector).
  if (product && (result.elements == others || others == 1))
    return nullptr;
  return others > 0 && result.elements / others <= (product ? use.packedRows : use.packedPixels)
             ? weight
             : nullptr;
}

// Follows a matrix through ops that only move or convert it, to the leaf that it is.
Value *leaf_of(Value *value) {
  for (int i = 0; i < kMaxChain && value->node; ++i) {
    if (!is<ir::TransposeOp, ir::ReshapeOp, ir::CastOp>(value->node))
      return nullptr;
    value = value->node->operands[0];
  }
  return value->node ? nullptr : value;
}

// The convolution whose weight takes in the norm (weft-fold-batch-norm), and its bias where it has
// one; null where there is none.
struct FoldedConvolution {
  const Node *convolution = nullptr;
  Value *bias = nullptr;
};
FoldedConvolution convolution_before(const Node *norm) {
  auto is_convolution = [](const Value *value) {
    return value->node && is<ir::Conv2dOp>(value->node) && value->type->dtype == DType::kFloat32;
  };
  const Value *x = norm->operands[0];
  if (is_convolution(x))
    return {x->node};
  if (x->node && is<ir::AddOp>(x->node))
    for (size_t i = 0; i < 2; ++i)
      if (Value *bias = x->node->operands[1 - i];
          is_convolution(x->node->operands[i]) && bias->node && is<ir::BroadcastOp>(bias->node))
        return {x->node->operands[i]->node, bias->node->operands[0]};
  return {};
}

// Whether work on a stable leaf can be worth keeping: one of them is large, or a norm's.
bool may_pay(const Slice &slice, const llvm::BitVector &candidates) {
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i] && slice.leaves[i]->type->bytes >= kPrepareLimits.minLeafBytes)
      return true;
  return llvm::any_of(slice.nodes,
                      [](const Node *node) { return is<ir::BatchNormInferenceOp>(node); });
}

class Analysis {
public:
  Analysis(const Slice &slice, const compiler::StableUse &use) : slice_(slice), use_(use) {}

  // Of the candidates, those that pay. varies: whether some other leaf has changed.
  llvm::BitVector run(llvm::BitVector candidates, bool varies) {
    find_folded(candidates);
    for (size_t i = 0; i < candidates.size(); ++i)
      candidates[i] = folded_[i] || (candidates[i] &&
                                     slice_.leaves[i]->type->bytes >= kPrepareLimits.minLeafBytes);
    if (candidates.none())
      return candidates;
    propagate(candidates);
    // Where nothing varies, nothing tells a weight from data that happens to be used twice: only
    // matrices count, and what norms and convolutions read.
    if (!varies || all_constant()) {
      llvm::BitVector matrices = folded_;
      for (Node *node : slice_.nodes)
        if (Value *rhs = packable(node, use_))
          if (Value *leaf = leaf_of(rhs))
            matrices[leaf->number & ~kLeafBit] = candidates[leaf->number & ~kLeafBit];
      candidates = matrices;
      propagate(candidates);
      if (all_constant())
        return llvm::BitVector(candidates.size());
    }
    for (size_t i = slice_.nodes.size(); i-- > 0;) {
      Node *node = slice_.nodes[i];
      for (Value *result : node->results)
        if (result && (result->stability & kProfits)) {
          for (Value *operand : node->operands)
            profit(operand);
          break;
        }
    }
    llvm::BitVector paying(candidates.size());
    for (size_t i = 0; i < paying.size(); ++i)
      paying[i] = slice_.leaves[i]->stability & kProfits;
    return paying;
  }

private:
  // The weights of convolutions that norms become part of, and the norms' numbers.
  void find_folded(const llvm::BitVector &candidates) {
    folded_ = llvm::BitVector(candidates.size());
    if (!use_.values)
      return;
    for (const Node *node : slice_.nodes) {
      if (!is<ir::BatchNormInferenceOp>(node))
        continue;
      FoldedConvolution before = convolution_before(node);
      if (!before.convolution)
        continue;
      llvm::SmallVector<Value *, 6> read = {before.convolution->operands[1]};
      if (before.bias)
        read.push_back(before.bias);
      read.append(node->operands.begin() + 1, node->operands.end());
      for (Value *&value : read)
        value = leaf_of(value);
      if (llvm::all_of(read,
                       [&](Value *leaf) { return leaf && candidates[leaf->number & ~kLeafBit]; }))
        for (Value *leaf : read)
          folded_[leaf->number & ~kLeafBit] = true;
    }
  }

  static void profit(Value *value) {
    if (value->stability & kDerived)
      value->stability |= kProfits;
  }

  void propagate(const llvm::BitVector &candidates) {
    for (size_t i = 0; i < slice_.leaves.size(); ++i)
      slice_.leaves[i]->stability =
          candidates[i] ? kConstant | kDerived | (folded_[i] ? kProfits : 0) : 0;
    for (Node *node : slice_.nodes) {
      bool constant = true, derived = false;
      for (Value *operand : node->operands) {
        constant = constant && (operand->stability & kConstant);
        derived = derived || (operand->stability & kDerived);
      }
      bool heavy = !is_free(node) && !is_cheap(node);
      uint8_t mark =
          constant ? kConstant | (derived ? kDerived : 0) | (derived && heavy ? kProfits : 0) : 0;
      for (Value *result : node->results)
        if (result)
          result->stability = mark;
      if (constant)
        continue;
      if (Value *rhs = packable(node, use_))
        profit(rhs);
      // Work on weights that a kernel would not do in passing.
      if (use_.values && heavy)
        for (Value *operand : node->operands)
          if (operand->node && !is_free(operand->node) && !is_read_through(operand->node, node))
            profit(operand);
    }
  }

  bool all_constant() const {
    return llvm::all_of(slice_.outputs,
                        [](Value *output) { return output->stability & kConstant; });
  }

  const Slice &slice_;
  const compiler::StableUse &use_;
  llvm::BitVector folded_; // by leaf
};

int64_t bytes_of(const llvm::BitVector &set) {
  return static_cast<int64_t>(sizeof(set) + set.getMemorySize());
}

// What the backend makes of stable leaves; nothing when it was not asked to.
compiler::StableUse use_of(const Config &config, uint8_t device) {
  if (!config.prepare || config.eager)
    return {};
  auto backend = compiler::findBackend(backend_of(config, device));
  return backend.ok() ? (*backend)->stableUse() : compiler::StableUse();
}

bool can_be_stable(const Slice &slice, size_t i) {
  const Value *leaf = slice.leaves[i];
  if (leaf->is_scalar || slice.key.leaves[i].donatable)
    return false;
  // Memory of the user's may change unseen.
  return leaf->cell && leaf->cell->buffer && leaf->cell->buffer->keeps_contents();
}

} // namespace

// Of these leaves those that pay become stable, as the analysis found when it was last asked the
// same. The answer to another question with that hash is as right: it is a set of candidates.
static void mark(Slice &slice, const llvm::BitVector &candidates, bool varies) {
  if (candidates.none() || !may_pay(slice, candidates))
    return;
  compiler::StableUse use = use_of(recorder().config, slice.device);
  if (!use.any())
    return;
  Known &all = known();
  if (all.answers.size() >= kLimits.stable_slices || all.bytes > kLimits.stable_bytes)
    all = Known();
  auto [answer, is_new] = all.answers.try_emplace(llvm::hash_combine(
      slice.key.hash(), llvm::DenseMapInfo<llvm::BitVector>::getHashValue(candidates), varies,
      use.values, use.packedRows, use.packedPixels, use.packedBytes));
  llvm::BitVector &stable = answer->second;
  if (is_new || stable.size() != candidates.size() || stable.test(candidates)) {
    all.bytes -= is_new ? 0 : bytes_of(stable);
    stable = Analysis(slice, use).run(candidates, varies);
    all.bytes += bytes_of(stable);
  }
  slice.stable = stable;
}

void mark_stable(Slice &slice) {
  llvm::BitVector candidates(slice.leaves.size());
  bool varies = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Value *leaf = slice.leaves[i];
    if (leaf->is_scalar)
      continue; // a literal, most often
    bool same = !slice.key.leaves[i].donatable &&
                leaf->cell->used_contents == leaf->cell->buffer->contents();
    varies = varies || !same;
    candidates[i] = same && can_be_stable(slice, i);
  }
  mark(slice, candidates, varies);
}

void mark_stable_replayed(Slice &slice, const llvm::BitVector &same) {
  llvm::BitVector candidates(slice.leaves.size());
  for (size_t i = 0; i < candidates.size(); ++i)
    candidates[i] = same[i] && can_be_stable(slice, i);
  slice.stable_at_once = true;
  mark(slice, candidates, /*varies=*/true);
}

} // namespace weft::recorder

// Values that nobody is going to ask for. In
//
//   float y = (x * 2 + 1).tanh().sum().item<float>();
//
// C++ keeps the tensors x * 2, x * 2 + 1, ... until the semicolon, though no one can name them. A
// cut computes into memory what tensors hold; these it leaves recorded as they are, so that they
// stay inside of the kernel, and they go with their tensors.
//
// A tensor does not know whether it has a name. So what was recorded at the line that asks for a
// value is taken for a temporary. Where that is wrong, as in `Tensor d = a - b; if (d.max()...)` on
// one line, it is computed a second time when it is used, and from then on that line's values are
// kept (SourceLine::keeps_values).
#include "frontend/recorder/slices/slice.h"

#include "dialects/weft/ir/Custom.h"
#include "runtime/memory/buffer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace weft::recorder {
namespace {

bool is_at(const SourceLine &line, const Location &place) {
  return line.where.line == place.line() && line.where.file == place.file_name();
}

// Whether the leaf may change under an op that stays recorded: the user has a pointer to it.
bool may_change(const Value *leaf) {
  const Cell *cell = leaf->cell;
  return cell && (cell->borrowed || cell->has_writer || !cell->buffer->keeps_contents());
}

// The ops that compute these values, but for what the slice's outputs give; none where the values
// would better be kept.
llvm::SmallVector<Node *, 4> ops_of(llvm::ArrayRef<Value *> temporaries, const Slice &slice) {
  llvm::SmallVector<Node *, 4> ops;
  if (temporaries.size() > kLimits.temporary_ops)
    return ops;
  auto add = [&](Node *node) {
    if (!llvm::is_contained(ops, node))
      ops.push_back(node);
  };
  for (Value *value : temporaries)
    add(value->node);
  uint64_t epoch = recorder().epoch;
  for (size_t i = 0; i < ops.size(); ++i) {
    // A kernel of a user's need not do the same again.
    if (ops.size() > kLimits.temporary_ops || ops[i]->results.size() != 1 ||
        ops[i]->signature->name.getStringRef() == ir::CustomOp::getOperationName())
      return {};
    for (Value *operand : ops[i]->operands) {
      if (!operand->node || operand->node->epoch != epoch) {
        if (may_change(operand))
          return {};
      } else if (!llvm::is_contained(slice.outputs, operand)) {
        add(operand->node);
      }
    }
  }
  return ops;
}

// The slice's leaves that these ops read.
llvm::SmallSetVector<size_t, 4> leaves_of(llvm::ArrayRef<Node *> ops) {
  llvm::SmallSetVector<size_t, 4> leaves;
  for (Node *node : ops)
    for (Value *operand : node->operands)
      if (operand->number & kLeafBit)
        leaves.insert(operand->number & ~kLeafBit);
  return leaves;
}

// Of these leaves what the program could write in place, and would copy if ops read them later: a
// few rows that were taken out are less than the buffer that they are of.
int64_t bytes_to_give(const Slice &slice, const llvm::SmallSetVector<size_t, 4> &leaves) {
  int64_t bytes = 0;
  for (size_t i : leaves)
    if (slice.key.leaves[i].donatable)
      bytes += slice.leaves[i]->type->bytes;
  return bytes;
}

int64_t bytes_of(llvm::ArrayRef<Value *> values) {
  int64_t bytes = 0;
  for (const Value *value : values)
    bytes += value->type->bytes;
  return bytes;
}

} // namespace

void leave_temporaries(Slice &slice, std::span<Value *const> roots,
                       const EvaluateRequest &request) {
  // An op that stayed is computed again: somebody used what was taken for a temporary.
  if (slice.has_stayed)
    for (Node *node : slice.nodes)
      if (std::exchange(node->stays, false))
        node->line->without_module().keeps_values = true;
  bool reads = request.reason == CutReason::kValue || request.reason == CutReason::kEval;
  if (!reads || slice.outputs.size() <= roots.size() || slice.is_exchange || slice.is_mixed)
    return;
  Location place = CallerScope::resolve(request.location);
  llvm::SmallPtrSet<const Value *, 4> asked(roots.begin(), roots.end());
  llvm::SmallVector<Value *, 4> kept, temporaries;
  for (Value *output : slice.outputs) {
    SourceLine &line = output->node->line->without_module();
    bool is_temporary = is_at(line, place) && !line.keeps_values && !output->is_saved &&
                        !output->writers && output->uses == output->slice_uses &&
                        !asked.contains(output);
    (is_temporary ? temporaries : kept).push_back(output);
  }
  if (temporaries.empty())
    return;
  slice.outputs.swap(kept);
  slice.left = ops_of(temporaries, slice);
  llvm::SmallSetVector<size_t, 4> read = leaves_of(slice.left);
  if (slice.left.empty() || bytes_to_give(slice, read) > bytes_of(temporaries)) {
    slice.left.clear();
    slice.outputs.swap(kept);
    return;
  }
  slice.temporaries = std::move(temporaries);
  slice.key.outputs.clear();
  for (Value *output : slice.outputs)
    slice.key.outputs.push_back(output->number);
  // The ops may read the leaves after the run.
  for (size_t i : read)
    slice.key.leaves[i].donatable = slice.key.leaves[i].kept = false;
}

} // namespace weft::recorder

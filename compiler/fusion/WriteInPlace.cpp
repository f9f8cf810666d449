#include "compiler/fusion/WriteInPlace.h"

#include "compiler/fusion/FusionLimits.h"
#include "compiler/fusion/TensorBytes.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/rules/Rules.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace weft::compiler {

using namespace mlir;
using ir::typeOf;

namespace {

bool hasOneSize(Value value) {
  return typeOf(value).hasStaticShape() && !ir::hasNamedDims(value.getType());
}

// The part of a tensor that a slice reads or an insert_slice writes.
struct Part {
  ArrayRef<int64_t> of, sizes, starts, steps;
  // The dims from the first to the last one of which it is a part; -1 where it is all. Of a whole
  // dim the start is 0, also where it is known at run time only.
  int64_t first = -1, last = -1;

  Part(RankedTensorType of, RankedTensorType part, ArrayRef<int64_t> starts,
       ArrayRef<int64_t> steps)
      : of(of.getShape()), sizes(part.getShape()), starts(starts), steps(steps) {
    for (int64_t d = 0; d < of.getRank(); ++d) {
      if (starts[d] == 0 && steps[d] == 1 && sizes[d] == this->of[d])
        continue;
      if (first < 0)
        first = d;
      last = d;
    }
  }
  explicit Part(ir::InsertSliceOp op)
      : Part(op.getBase().getType(), op.getUpdate().getType(), op.getStarts(), op.getSteps()) {}
  explicit Part(ir::SliceOp op)
      : Part(typeOf(op.getInput()), typeOf(op), op.getStarts(), op.getSteps()) {}

  // A shape of the tensor or the part, with these dims as one.
  SmallVector<int64_t> joined(ArrayRef<int64_t> shape) const {
    SmallVector<int64_t> result(shape.take_front(first));
    result.push_back(elements(shape));
    llvm::append_range(result, shape.drop_front(last + 1));
    return result;
  }
  // How many elements a shape has along them.
  int64_t elements(ArrayRef<int64_t> shape) const {
    int64_t n = 1;
    for (int64_t d = first; d >= 0 && d <= last; ++d)
      n *= shape[d];
    return n;
  }
  // Of each element of the part along them its place there: a constant of the program, and what
  // the starts add that are known at run time only (int64 [], by dim, null for others).
  ir::Val places(OpBuilder &builder, Location loc, ArrayRef<Value> varying = {}) const {
    SmallVector<int64_t> known{0};
    ir::Val start;
    for (int64_t d = first; d <= last; ++d) {
      bool varies = size_t(d) < varying.size() && varying[d];
      SmallVector<int64_t> next;
      for (int64_t place : known)
        for (int64_t i = 0; i < sizes[d]; ++i)
          next.push_back(place * of[d] + (varies ? 0 : starts[d]) + i * steps[d]);
      known = std::move(next);
      if (start)
        start = start * double(of[d]);
      if (varies)
        start = start ? start + start.at(varying[d]) : ir::Val(builder, loc, varying[d]);
    }
    auto count = int64_t(known.size());
    auto type = RankedTensorType::get({count}, builder.getI64Type());
    ir::Val constant(builder, loc,
                     ir::ConstantOp::create(
                         builder, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(known))));
    return start ? constant + ir::broadcast(start, {count}) : constant;
  }
};

// One thread moves the part, and the places in it are a constant of the program.
bool isSmall(const Part &part, RankedTensorType type, RankedTensorType of) {
  double bytes = tensorBytes(type);
  return part.first >= 0 && bytes > 0 && bytes <= limits::kMaxWrittenBytes &&
         double(part.elements(part.sizes)) * 8 <= limits::kMaxWrittenBytes &&
         tensorBytes(of) >= bytes * limits::kWrittenPart;
}
bool isSmallWrite(ir::InsertSliceOp op) {
  return hasOneSize(op.getBase()) && hasOneSize(op.getUpdate()) &&
         isSmall(Part(op), op.getUpdate().getType(), op.getBase().getType());
}

// A value and the writes into it, one after the other.
struct Chain {
  Value root = nullptr;
  double written = 0;
  SmallVector<ir::InsertSliceOp, 1> inserts = {};
};

// The readers of one version of a value: its own users and those of its reshapes.
llvm::SmallSetVector<Operation *, 4> readersOf(Value version) {
  llvm::SmallSetVector<Operation *, 4> readers;
  SmallVector<Value> pending{version};
  while (!pending.empty())
    for (Operation *user : pending.pop_back_val().getUsers())
      if (isa<ir::ReshapeOp>(user))
        pending.push_back(user->getResult(0));
      else
        readers.insert(user);
  return readers;
}

// Whether what the op gives goes into the write, and nowhere else, and is computed with before: a
// part that is written as it is would be read where it lies.
bool leadsTo(Operation *op, Operation *write) {
  SmallPtrSet<Operation *, 8> known{op}, views{op};
  SmallVector<Operation *> pending{op};
  while (!pending.empty()) {
    Operation *next = pending.pop_back_val();
    bool isView = views.contains(next);
    for (Operation *user : next->getUsers()) {
      if (user == write && isView)
        return false;
      if (isView && isa<ir::ReshapeOp, ir::SliceOp>(user))
        views.insert(user);
      if (user == write || !known.insert(user).second)
        continue;
      if (int64_t(known.size()) > limits::kMaxReaders || user->hasTrait<OpTrait::IsTerminator>())
        return false;
      pending.push_back(user);
    }
  }
  return true;
}

// The op with what its indices are computed from, as far as that costs nothing, but for constants:
// as operands they do not tell one kernel from another.
FusionGroup alone(Operation *scatter) {
  FusionGroup group;
  SmallVector<Operation *> indices;
  if (Operation *definition = scatter->getOperand(1).getDefiningOp())
    indices.push_back(definition);
  SmallPtrSet<Operation *, 8> known(indices.begin(), indices.end());
  for (size_t i = 0; i < indices.size(); ++i) {
    auto weftOp = dyn_cast<ir::WeftOp>(indices[i]);
    bool isCheap = weftOp && weftOp.kind() == ir::Kind::Elementwise &&
                   weftOp.cost() < limits::kExpensiveCost && !ir::indexBounds(indices[i]);
    bool isFree = isCheap || isa<ir::BroadcastOp, ir::ReshapeOp, ir::IotaOp>(indices[i]);
    if (!isFree || int64_t(indices.size()) > limits::kMaxFreeOps) {
      indices.erase(indices.begin() + int64_t(i--));
      continue;
    }
    for (Value operand : indices[i]->getOperands())
      if (Operation *definition = operand.getDefiningOp();
          definition && known.insert(definition).second)
        indices.push_back(definition);
  }
  llvm::sort(indices, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  group.ops = std::move(indices);
  group.clone.assign(group.ops.size(), true);
  group.ops.push_back(scatter);
  group.clone.push_back(false);
  return group;
}

} // namespace

bool isScatter(Operation *op) {
  auto weft = dyn_cast<ir::WeftOp>(op);
  return weft && ir::isOwn(op) && weft.kind() == ir::Kind::Scatter;
}

Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ir::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

bool isArgumentWith(Value value, StringRef attribute) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto main =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  return main && main.getArgAttr(argument.getArgNumber(), attribute);
}

bool isLargeDonated(Value value) {
  return isArgumentWith(value, ir::kDonatableAttr) && hasOneSize(value) &&
         tensorBytes(value) >= limits::kMinOverwritten;
}

PartWrites::PartWrites(Block &block) {
  std::vector<Chain> chains;
  DenseMap<Value, size_t> chainOf; // of a root, and of each value that was written
  for (Operation &op : block) {
    auto insert = dyn_cast<ir::InsertSliceOp>(op);
    if (!isScatter(&op) && !(insert && isSmallWrite(insert)))
      continue;
    Value base = withoutReshapes(op.getOperand(0));
    auto [it, isNew] = chainOf.try_emplace(base, chains.size());
    size_t number = it->second;
    if (isNew)
      chains.push_back({base});
    if (insert) {
      chains[number].written +=
          std::max(tensorBytes(insert.getUpdate()), limits::kLaunchBytes);
      chains[number].inserts.push_back(insert);
    }
    chainOf.try_emplace(op.getResult(0), number);
  }
  for (const Chain &chain : chains)
    if (int64_t(chain.inserts.size()) >= limits::kManyWrites ||
        (isLargeDonated(chain.root) && chain.written <= tensorBytes(chain.root)))
      for (ir::InsertSliceOp insert : chain.inserts)
        chosen_.insert(insert);
}

Value putPart(OpBuilder &builder, ir::InsertSliceOp op, ArrayRef<Value> starts) {
  Part part(op);
  ir::Val base(builder, op.getLoc(), op.getBase());
  ir::Val flat = ir::reshape(base, part.joined(part.of)),
          update = ir::reshape(base.at(op.getUpdate()), part.joined(part.sizes)),
          places = part.places(builder, op.getLoc(), starts);
  auto put = ir::IndexPutOp::create(builder, op.getLoc(), flat.type(), flat.value(),
                                    places.value(), update.value(), part.first, "");
  put->setAttr(ir::kInRangeAttr, builder.getUnitAttr());
  return ir::reshape(base.at(put.getResult()), part.of).value();
}

void writeInPlace(Block &block) {
  PartWrites writes(block);
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto insert = dyn_cast<ir::InsertSliceOp>(op);
    if (!insert || !writes.contains(insert))
      continue;
    OpBuilder builder(insert);
    insert.getResult().replaceAllUsesWith(putPart(builder, insert));
    insert.erase();
  }
}

// What the slice reads, by an op whose result is memory of its own: a slice may be a view.
static Operation *copyPart(ir::SliceOp op) {
  Part part(op);
  OpBuilder builder(op);
  ir::Val input(builder, op.getLoc(), op.getInput());
  ir::Val flat = ir::reshape(input, part.joined(part.of)),
          places = part.places(builder, op.getLoc());
  auto select = ir::IndexSelectOp::create(builder, op.getLoc(), flat.value(), places.value(),
                                          part.first);
  select->setAttr(ir::kInRangeAttr, builder.getUnitAttr());
  op.replaceAllUsesWith(ir::reshape(input.at(select.getResult()), part.sizes).value());
  op.erase();
  return select;
}

// Small parts of what a write overwrites that are not for the write alone: kernels behind it may be
// among their readers, so that they are copied before it.
static void copyReadParts(Value base, Operation *write, DenseSet<Operation *> &copied,
                          FusionGroups &groups) {
  for (Operation *reader : readersOf(base)) {
    if (reader == write || !reader->isBeforeInBlock(write))
      continue;
    auto slice = dyn_cast<ir::SliceOp>(reader);
    auto weft = dyn_cast<ir::WeftOp>(reader);
    bool gathers = weft && ir::isOwn(reader) && weft.kind() == ir::Kind::Gather;
    if ((!slice && !gathers) || !hasOneSize(reader->getResult(0)) || copied.contains(reader) ||
        leadsTo(reader, write))
      continue;
    RankedTensorType type = typeOf(reader->getResult(0));
    if (slice && isSmall(Part(slice), type, typeOf(base)))
      groups.push_back(alone(copyPart(slice)));
    else if (gathers && tensorBytes(base) >= tensorBytes(type) * limits::kWrittenPart &&
             copied.insert(reader).second)
      groups.push_back(alone(reader));
  }
}

void separateWrites(Block &block, FusionGroups &groups) {
  SmallVector<Operation *> writes;
  // Of each version of a value: the others copy it, as the last one reads it. So its readers are
  // looked at once.
  DenseMap<Value, Operation *> last;
  for (Operation &op : block)
    if (isScatter(&op)) {
      writes.push_back(&op);
      last[withoutReshapes(op.getOperand(0))] = &op;
    }
  DenseMap<Value, Value> roots; // of each version of a value
  DenseSet<Operation *> copied;
  for (Operation *write : writes) {
    Value base = withoutReshapes(write->getOperand(0));
    auto further = roots.find(base);
    bool isFurther = further != roots.end();
    Value root = isFurther ? further->second : base;
    roots[write->getResult(0)] = root;
    bool isOneOfMany = isFurther && write->hasAttr(ir::kInRangeAttr);
    if (!isOneOfMany && !isLargeDonated(root))
      continue;
    bool isLast = last.lookup(base) == write;
    bool isReadElsewhere = !isLast || readersOf(base).size() > 1;
    if (isLast && isReadElsewhere)
      copyReadParts(base, write, copied, groups);
    if (isOneOfMany || isReadElsewhere)
      groups.push_back(alone(write));
  }
}

} // namespace weft::compiler

#include "compiler/shard/Shard.h"

#include <limits>
#include <map>
#include <numeric>

#include "compiler/graph/DecomposeOp.h"
#include "dialects/weft/rules/Rules.h"
#include "dialects/weft/statements/Statement.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"

namespace weft::compiler {

using namespace mlir;
using ir::typeOf;

using ir::Cut;
using ir::Fold;
using ir::IndexStatement;
using ir::Purpose;
using ir::Val;

namespace {

RankedTensorType resized(RankedTensorType type, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return RankedTensorType::get(shape, type.getElementType());
}
double bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return static_cast<double>(tensor.getNumElements()) *
         static_cast<double>(byte_size(ir::dtypeOf(tensor.getElementType())));
}

// The dim of a value that is cut along the axis, or kWhole.
int64_t dimOn(ArrayRef<int32_t> axes, int32_t axis) {
  auto found = llvm::find(axes, axis);
  return found == axes.end() ? kWhole : found - axes.begin();
}

// An op that reads one operand where another one says: along which dim of operand 0 the indices of
// operand 1 go.
std::optional<int64_t> lookedUpDim(Operation *op) {
  if (auto select = dyn_cast<ir::IndexSelectOp>(op))
    return select.getDim();
  if (auto gather = dyn_cast<ir::GatherOp>(op))
    return gather.getDim();
  return std::nullopt;
}

// An op that adds a source to operand 0 where indices say, in any order: the dims of operands along
// which it is done in parts, each of them with zeros to add to but the first.
SmallVector<SmallVector<int64_t, 3>, 2> addedDims(Operation *op) {
  SmallVector<SmallVector<int64_t, 3>, 2> found;
  if (auto add = dyn_cast<ir::IndexAddOp>(op)) {
    for (int64_t dim = 0; dim < typeOf(add.getIndices()).getRank(); ++dim)
      found.push_back({kWhole, dim, static_cast<int64_t>(add.getDim()) + dim});
  } else if (auto scatter = dyn_cast<ir::ScatterAddOp>(op)) {
    auto dim = static_cast<int64_t>(scatter.getDim());
    if (typeOf(scatter.getIndices()).getDimSize(dim) ==
        typeOf(scatter.getSource()).getDimSize(dim))
      found.push_back({kWhole, dim, dim});
  }
  return found;
}

ir::Reduction reductionOf(Fold fold) {
  switch (fold) {
  case Fold::Mean:
    return ir::Reduction::mean;
  case Fold::Product:
    return ir::Reduction::prod;
  case Fold::Max:
    return ir::Reduction::max;
  case Fold::Min:
    return ir::Reduction::min;
  case Fold::Sum:
  case Fold::None:
  case Fold::Other: // cutAlong() gives no such cut
    break;
  }
  return ir::Reduction::sum;
}

} // namespace

// What becomes of one op.
struct Sharder::Plan {
  SmallVector<Axes, 4> operands, results; // how they are cut
  // The op on such operands: the given one, or of the scratch block. Its results are partial where
  // a reduced dim was cut.
  Operation *part = nullptr;
  SmallVector<std::pair<int32_t, Fold>, 2> folds; // axes along which results are to be folded
  int32_t lookUp = kWhole;                        // the axis along which operand 0 is looked up
  bool isFirst = true; // of those who add to operand 0: the others add to zeros
  double moved = 0;                               // bytes that ranks exchange
  double gathered = 0;                            // of these, of operands that were cut
};

Sharder::Plan Sharder::plan(Operation *op, OpBuilder &scratch) {
  Plan plan;
  plan.part = op;
  for (Value operand : op->getOperands())
    plan.operands.emplace_back(typeOf(operand).getRank(), kWhole);
  for (Value result : op->getResults())
    plan.results.emplace_back(typeOf(result).getRank(), kWhole);

  for (int32_t axis = 0; axis < static_cast<int32_t>(mesh_.size()); ++axis) {
    int64_t ranks = mesh_[axis].ranks;
    SmallVector<int64_t, 4> given;
    for (Value operand : op->getOperands())
      given.push_back(dimOn(at(operand).axes, axis));
    if (llvm::all_of(given, [](int64_t dim) { return dim == kWhole; }))
      continue;

    auto gathered = [&](ArrayRef<int64_t> wanted) {
      double bytes = 0;
      for (auto [i, dim] : llvm::enumerate(given))
        if (dim != kWhole && dim != wanted[i])
          bytes += bytesOf(plan.part->getOperand(i).getType());
      return bytes;
    };
    auto reduced = [&] {
      double bytes = 0;
      for (Type type : plan.part->getResultTypes())
        bytes += 2 * bytesOf(type); // an all_reduce is as much as a scatter and a gather
      return bytes;
    };
    // Dims that are cut along an axis before this one stay so.
    auto isFree = [&](ArrayRef<int64_t> dims, ArrayRef<Axes> taken) {
      return llvm::all_of(llvm::zip_equal(dims, taken), [](auto each) {
        auto [dim, axes] = each;
        return dim == kWhole || axes[dim] == kWhole;
      });
    };
    std::optional<Cut> best;
    bool looksUp = false, adds = false;
    auto keeps = [&](ArrayRef<int64_t> wanted) {
      return llvm::any_of(llvm::zip_equal(given, wanted), [](auto each) {
        return std::get<0>(each) != kWhole && std::get<0>(each) == std::get<1>(each);
      });
    };
    SmallVector<int64_t, 4> none(given.size(), kWhole);
    double least = gathered(none), ofOperands = least;
    std::optional<IndexStatement> statement = ir::statementOf(plan.part);
    for (int32_t dim = 0; statement && dim < static_cast<int32_t>(statement->dims.size()); ++dim) {
      const ir::IndexDim &along = statement->dims[dim];
      if (!along.size.isStatic() || !divides(mesh_[axis], along.size.size))
        continue;
      std::optional<Cut> cut = ir::cutAlong(*statement, dim, plan.part);
      if (!cut || !isFree(cut->operands, plan.operands) || !isFree(cut->results, plan.results))
        continue;
      double bytes = gathered(cut->operands) + (cut->fold == Fold::None ? 0 : reduced());
      if (keeps(cut->operands) && bytes < least) {
        least = bytes;
        ofOperands = gathered(cut->operands);
        best = std::move(cut);
      }
    }
    for (SmallVector<int64_t, 3> &wanted : addedDims(plan.part)) {
      int64_t size = typeOf(plan.part->getOperand(1)).getDimSize(wanted[1]);
      if (double bytes = gathered(wanted) + reduced();
          keeps(wanted) && bytes < least && divides(mesh_[axis], size) &&
          isFree(wanted, plan.operands)) {
        adds = true;
        least = bytes;
        ofOperands = gathered(wanted);
        best = Cut{.operands = {wanted.begin(), wanted.end()},
                   .results = {kWhole},
                   .name = "",
                   .fold = Fold::Sum};
      }
    }
    if (std::optional<int64_t> dim = lookedUpDim(op);
        dim && given[0] == *dim && plan.operands[0][*dim] == kWhole) {
      SmallVector<int64_t, 4> wanted(none);
      wanted[0] = *dim;
      if (double bytes = gathered(wanted) + reduced(); bytes < least) {
        looksUp = true;
        ofOperands = gathered(wanted);
        best.reset();
      }
    }
    plan.moved += least;
    plan.gathered += ofOperands;
    if (looksUp) {
      plan.operands[0][given[0]] = axis;
      plan.lookUp = axis;
      plan.folds.emplace_back(axis, Fold::Sum);
      continue;
    }
    if (!best)
      continue;
    SmallVector<Value, 4> standIns;
    for (auto [i, dim] : llvm::enumerate(best->operands)) {
      RankedTensorType type = typeOf(plan.part->getOperand(i));
      if (dim != kWhole) {
        plan.operands[i][dim] = axis;
        type = resized(type, dim, type.getDimSize(dim) / ranks);
      }
      standIns.push_back(ir::LeafOp::create(scratch, op->getLoc(), type));
    }
    for (auto [i, dim] : llvm::enumerate(best->results))
      if (dim != kWhole)
        plan.results[i][dim] = axis;
    if (best->fold != Fold::None)
      plan.folds.emplace_back(axis, best->fold);
    plan.isFirst = plan.isFirst && (!adds || mesh_[axis].rank == 0);
    plan.part = ir::buildPart(scratch, plan.part, *best, ranks, standIns);
  }
  return plan;
}

void Sharder::place(Operation *op, const Plan &plan) {
  SmallVector<Value, 4> operands;
  // A value that is read twice is exchanged once.
  std::map<std::pair<const void *, Axes>, Value> exchanged;
  for (auto [operand, axes] : llvm::zip_equal(op->getOperands(), plan.operands)) {
    Value &part = exchanged[{operand.getAsOpaquePointer(), axes}];
    if (!part)
      part = reshard(op->getLoc(), at(operand), axes);
    operands.push_back(part);
  }
  if (!plan.isFirst)
    operands[0] = Val(builder_, op->getLoc(), operands[0]).constant(0);
  SmallVector<Value, 2> results;
  if (plan.lookUp != kWhole) {
    results.push_back(lookUp(plan.part, operands, mesh_[plan.lookUp]));
  } else {
    Operation *part = builder_.clone(*plan.part);
    part->setOperands(operands);
    results.assign(part->result_begin(), part->result_end());
  }
  for (auto [axis, fold] : plan.folds)
    for (Value &result : results)
      result = reduce(op->getLoc(), result, reductionOf(fold), axis);
  for (auto [whole, part, axes] : llvm::zip_equal(op->getResults(), results, plan.results))
    give(whole, {part, axes});
}

// Tries what the decomposition has in its turn: composites of composites of composites are all that
// there are.
double Sharder::movedIfDecomposed(ir::WeftOp op) const {
  Block block, made;
  OpBuilder scratch(builder_.getContext()), builder(builder_.getContext());
  scratch.setInsertionPointToEnd(&block);
  builder.setInsertionPointToEnd(&made);
  Sharder trial(builder, mesh_);
  IRMapping standIns;
  for (Value operand : op->getOperands()) {
    const ShardedValue &given = at(operand);
    Value whole = ir::LeafOp::create(scratch, op->getLoc(), operand.getType());
    trial.give(whole,
               {ir::LeafOp::create(builder, op->getLoc(), given.part.getType()), given.axes});
    standIns.map(operand, whole);
  }
  Operation *copy = scratch.clone(*op, standIns);
  // Holds the results, which a decomposition must give.
  UnrealizedConversionCastOp::create(scratch, op->getLoc(), TypeRange(), copy->getResults());
  // What it cannot decompose stays as it is, by the same rule.
  ScopedDiagnosticHandler quiet(builder_.getContext(), [](Diagnostic &) { return success(); });
  if (failed(decomposeOp(cast<ir::WeftOp>(copy))) || failed(trial.run(block)))
    return std::numeric_limits<double>::infinity();
  return trial.moved_;
}

llvm::LogicalResult Sharder::run(Block &block) {
  for (auto it = block.begin(); it != block.end();) {
    auto op = dyn_cast<ir::WeftOp>(*it);
    if (!op || isa<ir::LeafOp>(*it)) {
      ++it;
      continue;
    }
    Block stage;
    OpBuilder scratch(builder_.getContext());
    scratch.setInsertionPointToEnd(&stage);
    Plan chosen = plan(op, scratch);
    if (chosen.gathered > 0 && op.missingRule(ir::RuleKind::Decomposition).empty() &&
        movedIfDecomposed(op) < chosen.moved) {
      bool first = it == block.begin();
      auto previous = first ? it : std::prev(it), next = std::next(it);
      RankedTensorType like = typeOf(op->getOperand(0));
      Axes axes = at(op->getOperand(0)).axes;
      if (llvm::failed(decomposeOp(op)))
        return llvm::failure();
      // What the decomposition made stands from here on.
      it = first ? block.begin() : std::next(previous);
      for (Operation &made : llvm::make_range(it, next))
        if (auto weft = dyn_cast<ir::WeftOp>(made);
            weft && weft.kind() == ir::Kind::Random &&
            typeOf(made.getResult(0)).getShape() == like.getShape())
          drawn_[&made] = axes;
      continue;
    }
    place(op, chosen);
    if (auto axes = drawn_.find(op); axes != drawn_.end()) {
      const ShardedValue drawn = at(op->getResult(0));
      give(op->getResult(0), {reshard(op->getLoc(), drawn, axes->second), axes->second});
      drawn_.erase(axes);
    }
    moved_ += chosen.moved;
    ++it;
  }
  return llvm::success();
}

Value Sharder::reshard(Location loc, const ShardedValue &value, ArrayRef<int32_t> to) {
  Value part = value.part;
  Axes now = value.axes;
  for (auto [dim, axis] : llvm::enumerate(value.axes)) {
    if (axis == kWhole || axis == to[dim])
      continue;
    int64_t there = dimOn(to, axis);
    // Where it goes is free already, and has equal parts.
    if (there != kWhole && now[there] == kWhole) {
      part = move(loc, part, static_cast<int64_t>(dim), there, mesh_[axis]);
      now[there] = axis;
    } else {
      part = gather(loc, part, static_cast<int64_t>(dim), mesh_[axis]);
    }
    now[dim] = kWhole;
  }
  for (auto [dim, axis] : llvm::enumerate(to))
    if (axis != kWhole && axis != now[dim])
      part = slice(loc, part, static_cast<int64_t>(dim), mesh_[axis]);
  return part;
}

// Dims 0 and `dim` change places: collectives are along dim 0.
Value Sharder::swapped(Location loc, Value value, int64_t dim) {
  if (dim == 0)
    return value;
  SmallVector<int64_t> permutation(typeOf(value).getRank());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[0], permutation[dim]);
  return transpose(Val(builder_, loc, value), permutation);
}

Value Sharder::gather(Location loc, Value part, int64_t dim, const MeshAxis &axis) {
  if (axis.ranks == 1)
    return part;
  Value front = swapped(loc, part, dim);
  RankedTensorType type = typeOf(front);
  type = resized(type, 0, type.getDimSize(0) * axis.ranks);
  return swapped(loc, ir::AllGatherOp::create(builder_, loc, type, front, axis.group, axis.ranks),
                 dim);
}

Value Sharder::reduce(Location loc, Value partial, ir::Reduction reduction, int32_t axis) {
  const auto &[name, group, rank, ranks] = mesh_[axis];
  if (ranks == 1)
    return partial;
  return ir::AllReduceOp::create(builder_, loc, partial.getType(), reduction, partial, group, ranks,
                                 StringAttr());
}

Value Sharder::scatter(Location loc, Value partial, ir::Reduction reduction, int64_t dim,
                       int32_t axis) {
  const auto &[name, group, rank, ranks] = mesh_[axis];
  if (ranks == 1)
    return partial;
  Value front = swapped(loc, partial, dim);
  RankedTensorType type = typeOf(front);
  type = resized(type, 0, type.getDimSize(0) / ranks);
  return swapped(loc,
                 ir::ReduceScatterOp::create(builder_, loc, type, reduction, front, group, ranks,
                                             StringAttr()),
                 dim);
}

Value Sharder::slice(Location loc, Value whole, int64_t dim, const MeshAxis &axis) {
  if (axis.ranks == 1)
    return whole;
  RankedTensorType type = typeOf(whole);
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()), steps(type.getRank(), 1);
  int64_t size = type.getDimSize(dim) / axis.ranks;
  starts[dim] = axis.rank * size;
  limits[dim] = starts[dim] + size;
  return ir::SliceOp::create(builder_, loc, resized(type, dim, size), whole, starts, limits, steps);
}

// [.., a/R, .., b] becomes [.., a, .., b/R]: each rank sends the others their parts of b.
Value Sharder::move(Location loc, Value part, int64_t from, int64_t to, const MeshAxis &axis) {
  if (axis.ranks == 1)
    return part;
  Val x(builder_, loc, part);
  int64_t rank = x.rank(), ranks = axis.ranks;
  SmallVector<int64_t> shape(x.shape()), permutation;
  // [R, .., a/R, .., b/R], where R says whose part of b it is, and after the exchange whose of a.
  SmallVector<int64_t> split(shape);
  split[to] = ranks;
  split.insert(split.begin() + to + 1, shape[to] / ranks);
  permutation.push_back(to);
  for (int64_t i = 0; i <= rank; ++i)
    if (i != to)
      permutation.push_back(i);
  Val sent = transpose(reshape(x, split), permutation);
  Val taken =
      x.at(ir::AllToAllOp::create(builder_, loc, sent.type(), sent, axis.group, ranks).getResult());
  // R goes in front of a/R, which is dim `from` behind it.
  permutation.clear();
  for (int64_t i = 1; i <= rank; ++i) {
    if (i == from + 1)
      permutation.push_back(0);
    permutation.push_back(i);
  }
  shape[from] *= ranks;
  shape[to] /= ranks;
  return reshape(transpose(taken, permutation), shape);
}

// Zeros where another rank has what is looked up: the sum over the ranks is what one finds.
Value Sharder::lookUp(Operation *op, ValueRange operands, const MeshAxis &axis) {
  Location loc = op->getLoc();
  int64_t dim = *lookedUpDim(op);
  Val data(builder_, loc, operands[0]);
  int64_t part = data.shape()[dim], first = axis.rank * part;
  Val indices = data.at(ir::CheckIndexOp::create(builder_, loc, operands[1].getType(), operands[1],
                                                 part * axis.ranks, IntegerAttr(),
                                                 op->getName().getStringRef())
                            .getResult());
  Val own = indices - static_cast<double>(first);
  Val zero = own.constant(0), last = own.constant(static_cast<double>(part - 1));
  Val inside = data.at(ir::MinimumOp::create(builder_, loc, maximum(own, zero), last).getResult());
  Val found = compare("eq", inside, own);

  Operation *there = builder_.clone(*op);
  there->setOperands({operands[0], inside});
  Val result = data.at(there->getResult(0));
  // The dims of the indices stand where `dim` stood; in a gather all do.
  SmallVector<int64_t> shape(found.shape());
  if (isa<ir::IndexSelectOp>(op))
    shape.append(result.rank() - dim - shape.size(), 1);
  Val mask = broadcast(reshape(found, shape), result.shape());
  return select(mask, result, result.constant(0));
}

} // namespace weft::compiler

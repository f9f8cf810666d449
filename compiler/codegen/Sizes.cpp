#include "compiler/codegen/Sizes.h"

#include <optional>

#include "compiler/codegen/LengthSizes.h"
#include "compiler/codegen/Schedule.h"
#include "compiler/fusion/FusionDomain.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/LongDims.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;
using Shape = FusionDomain::Shape;

int64_t namedDimOf(Type type) {
  ir::Dims dims = ir::dimsOf(cast<RankedTensorType>(type));
  if (ir::variesBehind(dims))
    return -2;
  auto *named = llvm::find_if(dims, [](const ir::Dim &dim) { return !dim.isStatic(); });
  return named == dims.end() ? -1 : named - dims.begin();
}

// Whether the op reads its operands, and writes its result, at positions that do not depend on the
// named size. Ops that take a symbolic dim apart (a part of it, one dim after another) are refused
// by their shape rules already.
static StringRef whyNot(Operation *op) {
  auto named = [](Value value) {
    return namedDimOf(value.getType());
  };
  auto weft = cast<ir::WeftOp>(op);
  ir::Kind kind = weft.kind();
  if (kind == ir::Kind::Elementwise || kind == ir::Kind::Creation || kind == ir::Kind::Movement ||
      kind == ir::Kind::Reduction || isa<ir::RandomUniformOp>(op))
    return {};
  if (kind == ir::Kind::Gather) {
    auto statement = ir::statementOf(op);
    if (!statement)
      return "does not say where it reads its operands";
    int64_t dim = named(op->getOperand(0));
    bool isChosen = dim >= 0 && llvm::any_of(statement->operands[0][dim].terms, [&](auto term) {
                      return statement->dims[term.dim].purpose == ir::Purpose::Chosen;
                    });
    return isChosen && !op->hasAttr(ir::kInRangeAttr)
               ? "takes elements of a dimension whose size varies"
               : StringRef();
  }
  // Its rows, or its batches, not what it sums over; no other op is in its kernel.
  if (auto matmul = dyn_cast<ir::MatmulOp>(op))
    return named(matmul.getResult()) == 0 &&
                   (matmul.getType().getRank() > 2 || named(matmul.getLhs()) == 0)
               ? StringRef()
               : "sums over a size that varies";
  // Its matrices, or their lengths (lengthSizes); beside it only movements that say where heads lie
  // are in its kernel. That they are enough at each size is asked where it is left to a kernel
  // (ProviderSet::setKernels), which knows the range.
  if (ir::isAttention(op)) {
    ArrayRef<int64_t> query = ir::shapeOf(op->getOperand(0));
    if (query.size() < 3 || named(op->getOperand(0)) != 0 ||
        llvm::any_of(op->getOperands(), [&](Value value) { return named(value) > 0; }))
      return "has matrices whose sizes vary";
    return {};
  }
  // Rows of their own, each of which is walked along.
  if (kind == ir::Kind::Scan && ir::isOwn(op))
    return named(op->getResult(0)) < cast<IntegerAttr>(op->getAttr("dim")).getInt()
               ? StringRef()
               : "goes along a dimension whose size varies";
  // What is added to has the size in front of the dim that is indexed, or not at all: then it is
  // the source's length.
  if (kind == ir::Kind::Scatter) {
    int64_t base = named(op->getOperand(0)), indices = named(op->getOperand(1)),
            source = named(op->getOperand(2));
    int64_t dim = cast<IntegerAttr>(op->getAttr("dim")).getInt();
    bool byElements = isa<ir::ScatterOp, ir::ScatterAddOp, ir::ScatterReduceOp>(op);
    // Whole slices go by all dims of the indices: ones before the named one change nothing.
    if (base < 0 && dim == 0 && source == indices && (indices == 0 || (indices > 0 && !byElements)))
      return {};
    return byElements && base == 0 && dim > 0 && indices == 0 && source == 0
               ? StringRef()
               : "writes elements of what has a dimension whose size varies";
  }
  return "has no kernel for sizes that vary";
}

// Whether a row of the result can be computed without the others, and alike at each size: what is
// taken by indices from a dim that varies is checked against the size that there is.
static bool givesRowsAlone(Operation *op) {
  if (auto select = dyn_cast<ir::IndexSelectOp>(op)) {
    auto from = ir::typeOf(select.getInput());
    return select->hasAttr(ir::kInRangeAttr) ||
           ir::dimsOf(from)[static_cast<size_t>(select.getDim())].isStatic();
  }
  auto weft = dyn_cast<ir::WeftOp>(op);
  return weft && (weft.kind() == ir::Kind::Elementwise || weft.kind() == ir::Kind::Movement ||
                  weft.kind() == ir::Kind::Creation);
}

// The values with a name of which rows are chosen that are known to be there, and nothing else is
// read: a kernel reads these rows where they lie at any size, and computes them alone.
static DenseSet<Value> chosenFrom(Block &body) {
  DenseSet<Value> chosen;
  auto isChosen = [&](Value value) {
    return namedDimOf(value.getType()) >= 0 && llvm::all_of(value.getUses(), [&](OpOperand &use) {
             Operation *user = use.getOwner();
             if (user->getNumResults() == 1 && chosen.contains(user->getResult(0)))
               return true;
             auto select = dyn_cast<ir::IndexSelectOp>(user);
             return select && use.getOperandNumber() == 0 && select->hasAttr(ir::kInRangeAttr) &&
                    static_cast<int64_t>(select.getDim()) == namedDimOf(value.getType());
           });
  };
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (givesRowsAlone(&op) && isChosen(op.getResult(0)))
      chosen.insert(op.getResult(0));
  }
  for (Value argument : body.getArguments())
    if (isChosen(argument))
      chosen.insert(argument);
  return chosen;
}

// Attention in the fusion whose number of queries has a name.
static Operation *attentionOfLengths(ArrayRef<Operation *> ops) {
  auto found = llvm::find_if(
      ops, [](Operation *op) { return ir::isAttention(op) && ir::variesInLength(op); });
  return found == ops.end() ? nullptr : *found;
}

FailureOr<KernelSizes> kernelSizes(ir::FusionOp fusion) {
  KernelSizes sizes;
  Block &body = fusion.getBody().front();
  SmallVector<Operation *> ops;
  SmallVector<Value> outputs(body.getTerminator()->getOperands());
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  if (Operation *attention = attentionOfLengths(ops))
    return attentionSizes(attention, body);
  Operation *last = ops.empty() ? fusion.getOperation() : ops.back();
  SmallVector<Value> values(body.getArguments());
  for (Operation *op : ops)
    llvm::append_range(values, op->getResults());
  if (llvm::any_of(values, [](Value value) { return namedDimOf(value.getType()) == -2; }))
    return rowSizes(body);
  for (Value value : values)
    if (namedDimOf(value.getType()) >= 0)
      sizes.named.insert(value);
  // The op that an error about a value names: one line of the user's, not all that was fused.
  auto opOf = [&](Value value) {
    if (Operation *op = value.getDefiningOp())
      return op;
    return value.use_empty() ? fusion.getOperation() : *value.user_begin();
  };
  sizes.chosen = chosenFrom(body);
  auto isChosenFrom = [&](Value value) { return sizes.chosen.contains(value); };
  if (llvm::all_of(sizes.named, isChosenFrom))
    return sizes;
  for (Operation *op : ops) {
    if (llvm::none_of(op->getOperands(),
                      [&](Value value) { return sizes.named.contains(value); }) &&
        llvm::none_of(op->getResults(), [&](Value value) { return sizes.named.contains(value); }))
      continue;
    if (!isa<ir::WeftOp>(op))
      return refuseSizes(op, "is no op of weft");
    if (StringRef reason = whyNot(op); !reason.empty())
      return refuseSizes(op, reason);
  }

  FusionRefusal why;
  auto domain = FusionDomain::analyze(ops, outputs, why);
  if (!domain)
    return refuseSizes(last, Twine("is in a kernel that cannot be: ") + refusalText(why.reason));
  bool hasOwnSchedule = domain->shape() == Shape::Alone;
  if (domain->shape() == Shape::Empty)
    return refuseSizes(last, "is in a kernel of a kind that has no form for sizes that vary");
  auto noDomain = [&](Value value) {
    return refuseSizes(opOf(value),
                       "has a size that varies and is not the slowest of its kernel's loops");
  };
  int32_t atom = domain->outer().empty() ? (domain->inner().empty() ? -1 : domain->inner().front())
                                         : domain->outer().front();
  // A single row has the size that varies inside; else it is the slowest of the rows' dims.
  bool singleRow = domain->shape() == Shape::Rows && domain->outer().empty();
  bool isNest = domain->shape() == Shape::Nest;
  if ((atom < 0 && !hasOwnSchedule) || (isNest && domain->outer().empty()))
    return noDomain(outputs.front());
  if (((domain->shape() == Shape::Rows && !singleRow) || isNest) &&
      llvm::is_contained(domain->inner(), atom))
    return noDomain(outputs.front());
  ir::SizeProduct product;
  for (Value value : values) {
    if (isChosenFrom(value))
      continue;
    bool isNamed = sizes.named.contains(value);
    if (isNamed) {
      // One size for the whole kernel, whatever it is multiplied by.
      auto type = ir::typeOf(value);
      ir::Dim dim = ir::dimsOf(type)[namedDimOf(type)];
      ir::SizeProduct mine = ir::productOf(dim.symbol.getValue());
      if (!sizes)
        product = mine, sizes.counted = dim;
      if (mine.symbols != product.symbols)
        return refuseSizes(opOf(value), "is in a kernel in which two sizes vary");
    }
    if (const FusionDomain::Layout *layout = domain->layout(value)) {
      bool has = llvm::is_contained(*layout, atom);
      if (has != isNamed || (isNamed && layout->front() != atom))
        return noDomain(value);
    }
  }
  return sizes;
}

void forgetNames(ir::FusionOp fusion) {
  auto forget = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (type && type.getEncoding())
      value.setType(RankedTensorType::get(type.getShape(), type.getElementType()));
  };
  fusion->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      forget(operand);
    for (Value result : op->getResults())
      forget(result);
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        forget(argument);
    if (auto constant = dyn_cast<ir::ConstantOp>(op))
      if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()))
        constant.setValueAttr(
            dense.isSplat() ? ElementsAttr(dense.resizeSplat(cast<ShapedType>(constant.getType())))
                            : ElementsAttr(dense.reshape(cast<ShapedType>(constant.getType()))));
    if (auto slice = dyn_cast<ir::SliceOp>(op)) {
      // The whole of a symbolic dim has no limit.
      SmallVector<int64_t> limits(slice.getLimits());
      for (auto [limit, size] : llvm::zip(limits, ir::shapeOf(slice.getInput())))
        if (ShapedType::isDynamic(limit))
          limit = size;
      slice.setLimits(limits);
    }
  });
}

} // namespace weft::compiler

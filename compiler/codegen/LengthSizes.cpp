#include "compiler/codegen/LengthSizes.h"

#include <optional>

#include "compiler/fusion/FusionDomain.h"
#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/LongDims.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;
using Shape = FusionDomain::Shape;

// How many dims are `leading`, a size that varies, in front of the others: 0 or 1.
static int64_t leadingDims(const ir::Dims &dims, const ir::Dim &leading) {
  return !leading.isStatic() && !dims.empty() && dims.front() == leading;
}

// The one dim of the value that has a name, apart from `leading` in front; none: there is no such,
// or another one.
static std::optional<ir::Dim> onlyNamed(Value value, const ir::Dim &leading = 1) {
  std::optional<ir::Dim> found;
  ir::Dims dims = ir::dimsOf(value);
  for (const ir::Dim &dim : ArrayRef(dims).drop_front(leadingDims(dims, leading))) {
    if (dim.isStatic())
      continue;
    if (found)
      return std::nullopt;
    found = dim;
  }
  return found;
}

// Readers of explain know their lines and no IR.
FailureOr<KernelSizes> refuseSizes(Operation *op, const Twine &why) {
  std::string line = locationText(op);
  emitError(UnknownLoc::get(op->getContext()))
      << op->getName() << " " << why << (line.empty() ? line : " (" + line + ")");
  return failure();
}

// Which dims of the kernel's operands are shorter in memory than their types say. own: the
// length of rows, or of queries. The launch counts by `leading`, where that has a name, else by it.
static void setLengthDims(KernelSizes &sizes, Block &body, const ir::Dim &own,
                          const ir::Dim &leading = 1) {
  sizes.counted = leading.isStatic() ? own : leading;
  SmallVector<Value> operands(body.getArguments());
  llvm::append_range(operands, body.getTerminator()->getOperands());
  for (Value operand : operands) {
    ir::Dims dims = ir::dimsOf(operand);
    auto named = std::find_if(dims.begin() + leadingDims(dims, leading), dims.end(),
                              [](const ir::Dim &dim) { return !dim.isStatic(); });
    LengthDim &length = sizes.lengthDims.emplace_back();
    if (named == dims.end())
      continue;
    length = {named - dims.begin(), *named == own ? LengthDim::kOwn : LengthDim::kOfKeys};
  }
}

// Of a kernel of attention whose length varies: it counts queries, or matrices where their number
// varies as well, and is told the lengths (kLengthsAttr). No movement in it may join a length with
// another dim, so that positions at the largest size are those at each.
FailureOr<KernelSizes> attentionSizes(Operation *attention, Block &body) {
  ir::Dim leading = ir::leadingDim(attention), queries = ir::queryCount(attention),
          keys = ir::keyCount(attention);
  if (StringRef reason = ir::whyNoLengths(attention); !reason.empty())
    return refuseSizes(attention, reason);
  KernelSizes sizes;
  auto add = [&](Value value) {
    ir::Dims dims = ir::dimsOf(value);
    std::optional<ir::Dim> named = onlyNamed(value, leading);
    bool isNamed = ir::hasNamedDims(value.getType()),
         leads = leadingDims(dims, leading) > 0 &&
                 llvm::count_if(dims, [](const ir::Dim &dim) { return !dim.isStatic(); }) == 1;
    if (isNamed && !leads && named != queries && named != keys)
      return false;
    if (isNamed)
      sizes.named.insert(value);
    return true;
  };
  for (Operation &op : body.without_terminator())
    if (!llvm::all_of(op.getOperands(), add) || !llvm::all_of(op.getResults(), add))
      return refuseSizes(&op,
                         ir::isAttention(&op)
                             ? "has a mask with a row for each query and a column for each key, "
                               "both of which vary"
                             : "joins attention's length, which varies, with another dimension");
  setLengthDims(sizes, body, queries, leading);
  return sizes;
}

// Whether the op takes and gives rows as they are, or what is one for each row.
static bool goesByRows(Operation *op) {
  auto weft = dyn_cast<ir::WeftOp>(op);
  if (!weft)
    return false;
  if (isa<ir::ReshapeOp>(op))
    return ir::longDims(ir::dimsOf(op->getOperand(0))) ==
           ir::longDims(ir::dimsOf(op->getResult(0)));
  if (weft.kind() != ir::Kind::Reduction)
    return weft.kind() == ir::Kind::Elementwise || isa<ir::BroadcastOp, ir::ConstantOp>(op);
  // Of all that a row has, or of nothing that varies.
  return op->getNumResults() == 1 && !ir::hasNamedDims(op->getResult(0).getType());
}

FailureOr<KernelSizes> rowSizes(Block &body) {
  KernelSizes sizes;
  std::optional<ir::Dim> length;
  // Of one length for the whole kernel, with nothing behind it.
  auto add = [&](Value value) {
    std::optional<ir::Dim> named = onlyNamed(value);
    if (!named)
      return !ir::hasNamedDims(value.getType());
    sizes.named.insert(value);
    ir::Dims dims = ir::dimsOf(value);
    while (dims.back().isOne())
      dims.pop_back();
    return dims.back() == *named && length.value_or(*named) == *named && (length = named, true);
  };
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator()) {
    ops.push_back(&op);
    bool fits = llvm::all_of(op.getOperands(), add) && llvm::all_of(op.getResults(), add);
    if (!fits || !goesByRows(&op))
      return refuseSizes(&op, "has a size that varies in another dimension than the first");
  }
  SmallVector<Value> outputs(body.getTerminator()->getOperands());
  FusionRefusal why;
  auto domain = FusionDomain::analyze(ops, outputs, why);
  auto isRow = [&](Operation *op) {
    return cast<ir::WeftOp>(op).kind() != ir::Kind::Reduction ||
           domain->role(op->getResult(0)) ==
               (ir::hasNamedDims(op->getOperand(0).getType()) ? Role::Row : Role::Scalar);
  };
  // Whether the value has the length where a row has its elements, and only there.
  auto isOfRows = [&](Value value) {
    const FusionDomain::Layout *layout = domain->layout(value);
    if (!layout)
      return true;
    return sizes.named.contains(value)
               ? !layout->empty() && layout->back() == domain->inner().front()
               : !llvm::is_contained(*layout, domain->inner().front());
  };
  auto fits = [&] {
    return domain && length &&
           (domain->shape() == Shape::Rows || domain->shape() == Shape::Elementwise) &&
           !domain->outer().empty() && domain->inner().size() == 1 && domain->lanes() < 0 &&
           domain->kept().empty() && domain->runSize() == length->size &&
           llvm::all_of(ops, isRow) && llvm::all_of(body.getArguments(), isOfRows) &&
           llvm::all_of(ops, [&](Operation *op) { return isOfRows(op->getResult(0)); });
  };
  if (!fits())
    return refuseSizes(ops.empty() ? body.getParentOp() : ops.back(),
                       "is in a kernel whose rows are not those that vary in length");
  setLengthDims(sizes, body, *length);
  return sizes;
}

} // namespace weft::compiler

#include "compiler/plan/SharedKernels.h"

#include <optional>

#include "compiler/plan/Limits.h"
#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/core/alignment.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/MapVector.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// What a slice reads: `runs` runs of `unit` elements, each `period` units behind the one before.
// The step x.select(1, t) of an x [4, 32, 10] begins at 10 t: 4 runs of 10, 32 units apart.
struct Part {
  int64_t start = 0; // in elements
  int64_t runs = 1, unit = 1, period = 1;

  int64_t reach() const { // in units, from the first element to the last
    return (runs - 1) * period + 1;
  }
};

// Nothing where the elements do not lie so.
std::optional<Part> partOf(ir::SliceOp slice) {
  auto from = ir::typeOf(slice.getInput());
  auto to = ir::typeOf(slice);
  if (!from.hasStaticShape() || !to.hasStaticShape() || ir::hasNamedDims(from) ||
      ir::hasNamedDims(to) || to.getNumElements() == 0 || !plan::byteSize(from) ||
      llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
    return std::nullopt;
  Part part;
  int64_t stride = 1, distance = 0;
  bool inRun = true; // all dims so far are whole
  for (int64_t dim = from.getRank() - 1; dim >= 0; --dim) {
    int64_t size = to.getDimSize(dim);
    part.start += slice.getStarts()[dim] * stride;
    if (inRun) {
      part.unit *= size;
      inRun = size == from.getDimSize(dim);
    } else if (size > 1) {
      if (part.runs == 1)
        distance = stride;
      else if (stride != part.runs * distance)
        return std::nullopt;
      part.runs *= size;
    }
    stride *= from.getDimSize(dim);
  }
  if (part.runs > 1) {
    if (distance % part.unit != 0)
      return std::nullopt;
    part.period = distance / part.unit;
  }
  return part;
}

// Equal for fusions of equal ops on values of equal types, wherever they read. Others that share it
// by chance cost a kernel each that knows less of its operand, and no more.
size_t likenessOf(ir::FusionOp fusion) {
  llvm::hash_code hash(0);
  for (Operation &op : fusion.getBody().front()) {
    hash = llvm::hash_combine(hash, op.getName());
    for (Type type : op.getResultTypes())
      hash = llvm::hash_combine(hash, type);
  }
  return hash;
}

class Sharing {
public:
  Sharing(func::FuncOp main, int64_t operandAlignment)
      : main_(main), operandAlignment_(operandAlignment) {}

  void run() {
    SmallVector<ir::FusionOp> fusions(main_.getOps<ir::FusionOp>());
    SmallVector<size_t> likenesses(llvm::map_range(fusions, likenessOf));
    DenseMap<size_t, int> alike;
    for (size_t likeness : likenesses)
      ++alike[likeness];
    for (auto [fusion, likeness] : llvm::zip_equal(fusions, likenesses)) {
      if (replaceByParts(fusion))
        continue;
      takeOutParts(fusion, alike[likeness] >= kLeastAlikeFusions && !hasAttention(fusion));
      takeOutOffsets(fusion);
    }
  }

private:
  // The part of an operand that the slice reads, where kernels may begin to read there.
  static std::optional<Part> partAt(Operation *op, int64_t alignment) {
    auto slice = dyn_cast<ir::SliceOp>(op);
    if (!slice || !isa<BlockArgument>(slice.getInput()))
      return std::nullopt;
    std::optional<Part> part = partOf(slice);
    auto from = ir::typeOf(slice.getInput());
    if (part && part->start * (*plan::byteSize(from) / from.getNumElements()) % alignment != 0)
      return std::nullopt;
    return part;
  }

  // The elements from the part's first to its last, in that shape.
  static Value takeOut(const Part &part, RankedTensorType shape, Value whole, Location loc,
                       OpBuilder &builder) {
    auto type = ir::typeOf(whole);
    auto flat = RankedTensorType::get({type.getNumElements()}, type.getElementType());
    Value all = ir::ReshapeOp::create(builder, loc, flat, whole);
    Value row = ir::SliceOp::create(builder, loc, all, ArrayRef<int64_t>{part.start},
                                    ArrayRef<int64_t>{part.start + shape.getNumElements()},
                                    ArrayRef<int64_t>{1});
    return ir::ReshapeOp::create(builder, loc, shape, row);
  }

  // Whatever reads the results reads the operands instead. Libraries may be among the readers: for
  // them parts begin where buffers do.
  static bool replaceByParts(ir::FusionOp fusion) {
    Block &body = fusion.getBody().front();
    Operation *yield = body.getTerminator();
    auto isPart = [](Operation &op) {
      std::optional<Part> part = partAt(&op, runtime::kBufferAlignment);
      return part && part->runs == 1;
    };
    if (!llvm::all_of(body.without_terminator(), isPart) ||
        llvm::any_of(yield->getOperands(), llvm::IsaPred<BlockArgument>))
      return false;
    OpBuilder before(fusion);
    for (auto [result, value] : llvm::zip(fusion->getResults(), yield->getOperands())) {
      auto slice = value.getDefiningOp<ir::SliceOp>();
      auto argument = cast<BlockArgument>(slice.getInput());
      result.replaceAllUsesWith(takeOut(*partOf(slice), ir::typeOf(slice),
                                        fusion->getOperand(argument.getArgNumber()), slice.getLoc(),
                                        before));
    }
    fusion.erase();
    return true;
  }

  // Attention finds its heads by the dims of the whole operand.
  static bool hasAttention(ir::FusionOp fusion) {
    return llvm::any_of(fusion.getBody().front(),
                        [](Operation &op) { return ir::isAttention(&op); });
  }

  // An operand of which the fusion reads one part is replaced by the part. Where that makes one
  // kernel of many, the part may have several runs, and there may be some parts of an operand,
  // which become operands each, or rows of one, from which others are left out.
  void takeOutParts(ir::FusionOp fusion, bool isMany) {
    Block &body = fusion.getBody().front();
    // By operand the parts that are read, in the order of reading, which equal fusions share. Of one
    // operand a part is known by its shape and its first element, as steps are 1.
    struct Read {
      Part part;
      SmallVector<ir::SliceOp, 1> slices;
    };
    using Reads = llvm::MapVector<std::pair<Type, int64_t>, Read>;
    llvm::MapVector<BlockArgument, Reads> parts;
    llvm::SmallDenseSet<BlockArgument> wholes;
    for (Operation &op : body) {
      std::optional<Part> part = partAt(&op, operandAlignment_);
      bool isTaken = part && (part->runs == 1 || isMany);
      for (Value operand : op.getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand)) {
          if (isTaken) {
            Read &read = parts[argument][{op.getResult(0).getType(), part->start}];
            read.part = *part;
            read.slices.push_back(cast<ir::SliceOp>(op));
          } else {
            wholes.insert(argument);
          }
        }
    }
    for (auto &[argument, reads] : parts) {
      if (wholes.contains(argument) || (!isMany && reads.size() > 1))
        continue;
      Value whole = fusion->getOperand(argument.getArgNumber());
      if (reads.size() > kMostPartsOfOperand) {
        SmallVector<ir::SliceOp> slices;
        for (auto &[key, read] : reads)
          slices.append(read.slices);
        if (Value rows = takeOutRows(slices, argument, whole, fusion))
          fusion->setOperand(argument.getArgNumber(), rows);
        continue;
      }
      for (auto &[key, read] : reads) {
        bool isFirst = &read == &reads.front().second;
        BlockArgument reader =
            isFirst ? argument : body.addArgument(whole.getType(), argument.getLoc());
        Value operand = replace(read.slices, read.part, reader, whole, fusion);
        if (isFirst)
          fusion->setOperand(argument.getArgNumber(), operand);
        else
          fusion.getInputsMutable().append(operand);
      }
    }
  }

  // The slices of one part read the argument instead, which takes the part's shape. The operand for
  // it.
  static Value replace(ArrayRef<ir::SliceOp> slices, const Part &part, BlockArgument argument,
                       Value whole, ir::FusionOp fusion) {
    ir::SliceOp first = slices.front();
    auto type = ir::typeOf(first);
    auto shape = part.runs == 1
                     ? type
                     : RankedTensorType::get({part.reach(), part.unit}, type.getElementType());
    OpBuilder before(fusion), inside(argument.getOwner(), argument.getOwner()->begin());
    argument.setType(shape);
    Value read = argument;
    if (part.runs > 1) {
      read = ir::SliceOp::create(inside, first.getLoc(), argument, ArrayRef<int64_t>{0, 0},
                                 ArrayRef<int64_t>{part.reach(), part.unit},
                                 ArrayRef<int64_t>{part.period, 1});
      read = ir::ReshapeOp::create(inside, first.getLoc(), type, read);
    }
    for (ir::SliceOp slice : slices) {
      slice.getResult().replaceAllUsesWith(read);
      slice.erase();
    }
    return takeOut(part, shape, whole, first.getLoc(), before);
  }

  // Slices of whole rows read the rows from the first of them to the last, at their distances from
  // it. The operand for that; null where some slice is of parts of rows, or nothing is left out.
  static Value takeOutRows(ArrayRef<ir::SliceOp> slices, BlockArgument argument, Value whole,
                           ir::FusionOp fusion) {
    auto type = ir::typeOf(whole);
    int64_t first = type.getDimSize(0), end = 0;
    for (ir::SliceOp slice : slices) {
      if (slice.getType().getShape().drop_front() != type.getShape().drop_front())
        return nullptr;
      first = std::min(first, slice.getStarts()[0]);
      end = std::max(end, slice.getLimits()[0]);
    }
    if (end - first == type.getDimSize(0))
      return nullptr;
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = end - first;
    argument.setType(type.clone(shape));
    for (ir::SliceOp slice : slices) {
      SmallVector<int64_t> starts(slice.getStarts()), limits(slice.getLimits());
      starts[0] -= first;
      limits[0] -= first;
      slice.setStarts(starts);
      slice.setLimits(limits);
    }
    Part rows;
    rows.start = first * (type.getNumElements() / type.getDimSize(0));
    OpBuilder before(fusion);
    return takeOut(rows, type.clone(shape), whole, argument.getLoc(), before);
  }

  // Several draws of one state keep their distances.
  static void takeOutOffsets(ir::FusionOp fusion) {
    Block &body = fusion.getBody().front();
    llvm::MapVector<BlockArgument, SmallVector<ir::RandomUniformOp, 4>> draws;
    for (Operation &op : body)
      if (auto draw = dyn_cast<ir::RandomUniformOp>(op))
        if (auto state = dyn_cast<BlockArgument>(draw.getState()))
          draws[state].push_back(draw);
    for (auto &[state, of] : draws) {
      uint64_t first = of.front().getOffset();
      OpBuilder before(fusion), inside(&body, body.begin());
      auto type = ir::typeOf(state);
      auto offset = ir::ConstantOp::create(
          before, fusion.getLoc(),
          DenseElementsAttr::get(type, ArrayRef<int64_t>{0, int64_t(first)}));
      fusion.getInputsMutable().append(offset.getResult());
      Value there = ir::AddOp::create(inside, fusion.getLoc(), state,
                                      body.addArgument(type, fusion.getLoc()));
      for (ir::RandomUniformOp draw : of) {
        draw.getStateMutable().assign(there);
        draw.setOffset(draw.getOffset() - first); // wraps, both being unsigned
      }
    }
  }

  func::FuncOp main_;
  int64_t operandAlignment_;
};

} // namespace

void shareKernels(func::FuncOp main, int64_t operandAlignment) {
  Sharing(main, operandAlignment).run();
}

} // namespace weft::compiler

#include <algorithm>
#include <array>
#include <tuple>

#include "compiler/fusion/EarlyChecks.h"
#include "compiler/fusion/FillConstants.h"
#include "compiler/fusion/FusionBuilder.h"
#include "compiler/fusion/FusionDomain.h"
#include "compiler/fusion/FusionGraph.h"
#include "compiler/fusion/FusionLimits.h"
#include "compiler/fusion/FusionRules.h"
#include "compiler/fusion/Passes.h"
#include "compiler/fusion/SplitSums.h"
#include "compiler/fusion/SplitWide.h"
#include "compiler/fusion/TensorBytes.h"
#include "compiler/fusion/TurnResults.h"
#include "compiler/fusion/WriteInPlace.h"
#include "compiler/graph/Slice.h"
#include "compiler/pipeline/CallUser.h"
#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/LongDims.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_FUSEPASS
#include "compiler/fusion/Passes.h.inc"

namespace {

int64_t elementsOf(Value value) {
  return ir::typeOf(value).getNumElements();
}

bool isExpensive(Operation *op) {
  return cast<ir::WeftOp>(op).cost() >= limits::kExpensiveCost;
}

// Greedy contraction of the graph, the largest savings first.
class Fuser {
public:
  explicit Fuser(Block &block) : block_(block), graph_(block), refusals_("fuse") {}

  void run() {
    findCandidates();
    // What attention gives is in its kernel's hand alone (TurnResults.h).
    for (const Candidate &candidate : candidates_)
      if (ir::isAttention(graph_.node(candidate.from)) &&
          isa<ir::TransposeOp>(graph_.node(candidate.to)))
        tryMerge(candidate.from, candidate.to);
    // Merge in the order of how much a fusion blocks others: contiguous rows, strided rows, then
    // partial sums and windows. Strided rows come second: a channel's sums must not take the ops
    // that a sample's rows need (the gradients of group_norm). Partial sums come last: nothing in
    // their kernel can read them, and the result of batch_norm reads its channels' sums. Windows of
    // a row come last, too: their kernel computes again what they read, and must not keep the whole
    // row from being written.
    for (Late late : {Late::None, Late::SeveralRuns, Late::PartsAndSlices}) {
      if (late > Late::None && !saw_[static_cast<int>(late)])
        continue;
      allowed_ = late;
      for (int round = 0; round < limits::kMaxRounds; ++round) {
        refusals_ = RefusalCollector("fuse");
        refused_.clear();
        bool changed = false;
        for (const Candidate &candidate : candidates_)
          changed |= tryMerge(candidate.from, candidate.to);
        if (!changed)
          break;
      }
    }
  }

  // Some values cross from one kernel to others though these could compute them from what is in
  // memory anyway: a mask and a scale applied to the result of a matmul, a row less its mean. Such
  // values are computed again by each reader. Elementwise ops give the same bits wherever they run.
  void rematerialize() {
    for (int v = 0; v < graph_.numNodes(); ++v) {
      if (graph_.isBarrier(v) || graph_.isAlwaysOutput(v) || !isCheap(graph_.node(v)))
        continue;
      if (tensorBytes(graph_.node(v)->getResult(0)) < limits::kMinRematerializedBytes ||
          !graph_.isReadByOtherGroup(v))
        continue;
      numRematerialized_ += tryRematerialize(v);
    }
  }
  int64_t numRematerialized() const {
    return numRematerialized_;
  }

  FusionGroups groups() const {
    FusionGroups groups;
    for (int i = 0; i < graph_.numNodes(); ++i) {
      if (graph_.isBarrier(i) || graph_.groupOf(i) != i || graph_.members(i).empty())
        continue;
      SmallVector<Value> outputs;
      FusionGroup &group = groups.emplace_back();
      graph_.collect(graph_.members(i), group.ops, outputs);
      for (Operation *op : group.ops)
        group.clone.push_back(graph_.isFree(op));
    }
    return groups;
  }
  const RefusalCollector &refusals() const {
    return refusals_;
  }

private:
  // What a kernel may contain. Kernels with strided rows are made after those with contiguous rows
  // only, kernels with partial sums or windows after both; run() says why.
  enum class Late { None, SeveralRuns, PartsAndSlices };
  // Two nodes whose kernels may become one: a producer and a consumer, or two readers of one value.
  struct Candidate {
    double saved; // bytes that are not written or read again
    int from, to;
    bool sibling;
    size_t number; // in the order in which they were found
  };
  void addCandidate(double saved, int from, int to, bool sibling) {
    candidates_.push_back({saved, from, to, sibling, candidates_.size()});
  }

  void findCandidates() {
    for (int i = 0; i < graph_.numNodes(); ++i) {
      if (graph_.isBarrier(i))
        continue;
      for (int p : graph_.producers(i)) {
        if (graph_.isBarrier(p) || graph_.consumers(p).size() > limits::kMaxReaders)
          continue;
        Value value = graph_.node(p)->getResult(0);
        // A scalar that several kernels read is computed once, in the kernel of the other scalars.
        // In the kernel of one of its readers, it would make the other readers wait for that
        // kernel.
        bool scalar = elementsOf(value) == 1 && elementsOf(graph_.node(i)->getResult(0)) > 1 &&
                      graph_.consumers(p).size() > 1;
        if (!scalar)
          addCandidate(tensorBytes(value), p, i, false);
      }
    }
    auto addSiblings = [&](Value value, ArrayRef<int> readers) {
      if (tensorBytes(value) < limits::kMinSharedBytes || readers.size() > limits::kMaxReaders)
        return;
      // Of many equal reductions that read the value some share a kernel, and the next ones do.
      llvm::SmallDenseMap<Likeness, int> alike, met;
      for (int reader : readers)
        if (isReduced(reader))
          ++alike[likenessOf(reader)];
      int last = -1;
      for (int reader : readers) {
        if (graph_.isBarrier(reader) || reader == last)
          continue;
        int before = met[likenessOf(reader)]++;
        bool begins = isReduced(reader) &&
                      alike.lookup(likenessOf(reader)) >= limits::kLeastRepeats &&
                      before % limits::kRepeatsTogether == 0;
        if (last >= 0 && !begins)
          addCandidate(tensorBytes(value), last, reader, true);
        last = reader;
      }
    };
    for (int i = 0; i < graph_.numNodes(); ++i)
      for (Value result : graph_.node(i)->getResults())
        addSiblings(result, graph_.consumers(i));
    for (BlockArgument argument : block_.getArguments()) {
      if (tensorBytes(argument) < limits::kMinSharedBytes)
        continue;
      SmallVector<int> readers;
      graph_.readersOf(argument, readers);
      addSiblings(argument, readers);
    }
    // Scalars: one kernel for as many as can be, since a launch costs more than they do.
    int last = -1;
    for (int i = 0; i < graph_.numNodes(); ++i) {
      if (graph_.isBarrier(i) || !isScalarOp(graph_.node(i)))
        continue;
      if (last >= 0)
        addCandidate(0, last, i, true);
      last = i;
    }
    // At the same size a producer and its reader come before two readers: they save a write as
    // well. Further ties are kept in the order in which they were found. (No stable_sort: its
    // temporary buffer is deprecated.)
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate &a, const Candidate &b) {
      return std::make_tuple(-a.saved, a.sibling, a.number) <
             std::make_tuple(-b.saved, b.sibling, b.number);
    });
  }

  using Likeness = std::pair<const void *, const void *>;
  Likeness likenessOf(int node) const {
    Operation *op = graph_.node(node);
    return {op->getName().getAsOpaquePointer(), op->getResultTypes()[0].getAsOpaquePointer()};
  }
  // Whether the node is a reduction, or one reads it.
  bool isReduced(int node) const {
    return isReduction(graph_.node(node)) ||
           llvm::any_of(graph_.consumers(node),
                        [&](int reader) { return isReduction(graph_.node(reader)); });
  }

  static bool isScalarOp(Operation *op) {
    return isa<ir::ElementwiseOp>(op) && elementsOf(op->getResult(0)) == 1;
  }

  // Whether some values are rows of a length that varies, [4, n], and others have a size that
  // varies as kernels for many sizes have it, [n, 4]: no kernel is told both
  // (compiler/codegen/Sizes.h).
  static bool mixesLengths(ArrayRef<Operation *> ops) {
    SmallVector<ir::Dims> named; // without dims of size 1
    auto note = [&](Value value) {
      auto type = ir::typeOf(value);
      if (ir::hasNamedDims(type))
        named.push_back(ir::longDims(ir::dimsOf(type)));
    };
    for (Operation *op : ops) {
      if (ir::isAttention(op))
        return false;
      llvm::for_each(op->getOperands(), note);
      llvm::for_each(op->getResults(), note);
    }
    auto rows = llvm::find_if(
        named, [](const ir::Dims &dims) { return dims.size() > 1 && !dims.back().isStatic(); });
    return rows != named.end() &&
           llvm::any_of(named, [&](const ir::Dims &dims) { return dims.back() != rows->back(); });
  }

  bool tryMerge(int from, int to) {
    int a = graph_.groupOf(from), b = graph_.groupOf(to);
    if (a == b || !refused_.insert({std::min(a, b), std::max(a, b)}).second)
      return false;
    auto refuse = [&](Refusal reason, Operation *op) {
      refusals_.add(refusalName(reason), op, refusalText(reason));
      return false;
    };
    Operation *at = graph_.node(to);
    if (static_cast<int64_t>(graph_.members(a).size() + graph_.members(b).size()) > kMaxWindowedOps)
      return refuse(Refusal::TooLarge, at);
    SmallVector<int> members(graph_.members(a));
    members.append(graph_.members(b).begin(), graph_.members(b).end());
    SmallVector<Operation *> ops;
    SmallVector<Value> outputs;
    graph_.collect(members, ops, outputs);
    bool plain = isPlain(ops);
    if (static_cast<int64_t>(ops.size()) > (plain ? kMaxFusionOps : kMaxWindowedOps))
      return refuse(Refusal::TooLarge, at);
    if (countInputs(ops) + static_cast<int64_t>(outputs.size()) > limits::kMaxBuffers)
      return refuse(Refusal::TooManyBuffers, at);
    if (mixesLengths(ops))
      return refuse(Refusal::TwoLengths, at);
    if (!plain) {
      FusionRefusal why;
      std::optional<FusionDomain> domain = FusionDomain::analyze(ops, outputs, why);
      if (!domain)
        return refuse(why.reason, why.op ? why.op : at);
      if (Late late = lateness(*domain); late > allowed_) {
        saw_[static_cast<int>(late)] = true;
        return false;
      }
      if (Operation *op = recomputed(*domain, ops, outputs))
        return refuse(Refusal::Recomputed, op);
      if (Operation *op = gathered(*domain, ops))
        return refuse(Refusal::GathersTransposed, op);
    }
    switch (graph_.canMerge(a, b)) {
    case FusionGraph::Order::Fine:
      break;
    case FusionGraph::Order::Circle:
      return refuse(Refusal::Between, at);
    case FusionGraph::Order::TooFar:
      return refuse(Refusal::TooFar, at);
    }
    if (Objection objection = objectionTo(ops)) {
      refusals_.add(objection->first, at, objection->second);
      return false;
    }
    graph_.merge(a, b);
    return true;
  }

  // The name of a user's rule, and what it says.
  using Objection = std::optional<std::pair<std::string, std::string>>;
  Objection objectionTo(ArrayRef<Operation *> ops) const {
    for (const RegisteredFusionRule &each : rules_) {
      std::string why = callUser([&] { return "the fusion rule '" + each.name + "'"; },
                                 [&] { return each.rule(ops); });
      if (!why.empty())
        return std::pair(each.name, std::move(why));
    }
    return std::nullopt;
  }

  // Elementwise ops of one shape share a domain, whatever they are. No analysis is needed, so that
  // long chains of them are quick.
  static bool isPlain(ArrayRef<Operation *> ops) {
    // Compare encodings as well as shapes: the encoding has the names of dims, and two names with
    // one largest size are two sizes.
    auto first = ir::typeOf(ops.front()->getResult(0));
    return llvm::all_of(ops, [&](Operation *op) {
      if (!isa<ir::ElementwiseOp, ir::ConstantOp>(op))
        return false;
      auto type = ir::typeOf(op->getResult(0));
      return type.getShape() == first.getShape() && type.getEncoding() == first.getEncoding();
    });
  }

  static bool isCheap(Operation *op) {
    return isa<ir::ElementwiseOp>(op) && !isExpensive(op);
  }

  bool tryRematerialize(int v) {
    int home = graph_.groupOf(v);
    Value value = graph_.node(v)->getResult(0);
    // The ops to compute again, and what they read from memory.
    SmallVector<int> chain{v};
    SmallVector<Value> pending(graph_.node(v)->getOperands()), large;
    DenseSet<Value> seen;
    double added = 0;
    while (!pending.empty()) {
      Value operand = pending.pop_back_val();
      if (!seen.insert(operand).second)
        continue;
      Operation *def = operand.getDefiningOp();
      if (def && graph_.isFree(def)) {
        pending.append(def->operand_begin(), def->operand_end());
        continue;
      }
      int p = def ? graph_.nodeOf(def) : -1;
      bool inMemory =
          p < 0 || graph_.isBarrier(p) || graph_.groupOf(p) != home || graph_.isAlwaysOutput(p);
      if (!inMemory && tensorBytes(operand) * limits::kSmallOperandPart <= tensorBytes(value)) {
        added += tensorBytes(operand);
        continue;
      }
      if (!inMemory && !graph_.isReadByOtherGroup(p)) {
        if (!isCheap(def) || chain.size() == limits::kMaxRematerializedOps)
          return false;
        chain.push_back(p);
        pending.append(def->operand_begin(), def->operand_end());
        continue;
      }
      large.push_back(operand);
    }
    SmallVector<int> readers, groups;
    for (int node : chain)
      graph_.readersOf(graph_.node(node)->getResult(0), readers);
    for (int reader : readers)
      if (int group = graph_.groupOf(reader); group != home && !llvm::is_contained(groups, group))
        groups.push_back(group);
    if (llvm::any_of(groups, [&](int group) { return repeats(group, value); }))
      return false;
    double saved = tensorBytes(value) * double(1 + groups.size());
    for (int group : groups)
      for (Value operand : large)
        if (!reads(group, operand))
          added += tensorBytes(operand);
    if (saved <= added)
      return false;
    graph_.setFree(chain);
    if (!graph_.members(home).empty())
      groups.push_back(home);
    if (llvm::all_of(groups, [&](int group) { return isKernel(group); }))
      return true;
    graph_.unsetFree(chain, home);
    return false;
  }

  // Whether a kernel with the op has several elements for each of the value's.
  static bool isRepeatedBy(Operation *op, Value value) {
    return elementsOf(op->getResult(0)) >= limits::kRepeatedElements * elementsOf(value);
  }
  // Whether the group's kernel would compute each element of the value several times.
  bool repeats(int group, Value value) const {
    return llvm::any_of(graph_.members(group),
                        [&](int node) { return isRepeatedBy(graph_.node(node), value); });
  }

  bool reads(int group, Value value) const {
    SmallVector<int> readers;
    graph_.readersOf(value, readers);
    return llvm::any_of(readers, [&](int reader) { return graph_.groupOf(reader) == group; });
  }

  // Whether the ops of a group still make one kernel within all limits.
  bool isKernel(int group) const {
    SmallVector<Operation *> ops;
    SmallVector<Value> outputs;
    graph_.collect(graph_.members(group), ops, outputs);
    if (static_cast<int64_t>(ops.size()) > kMaxFusionOps ||
        countInputs(ops) + static_cast<int64_t>(outputs.size()) > limits::kMaxBuffers ||
        objectionTo(ops))
      return false;
    FusionRefusal why;
    std::optional<FusionDomain> domain = FusionDomain::analyze(ops, outputs, why);
    return domain && !recomputed(*domain, ops, outputs) && !gathered(*domain, ops);
  }

  static int64_t countInputs(ArrayRef<Operation *> ops) {
    DenseSet<Operation *> inside(ops.begin(), ops.end());
    DenseSet<Value> inputs;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp(); !def || !inside.contains(def))
          inputs.insert(operand);
    return inputs.size();
  }

  // An expensive op that the kernel would run more often than its result has elements; null if
  // there is none.
  Operation *recomputed(const FusionDomain &domain, ArrayRef<Operation *> ops,
                        ArrayRef<Value> outputs) const {
    if (domain.shape() == FusionDomain::Shape::Alone)
      return nullptr;
    if (Operation *op = recomputedInRow(domain, ops))
      return op;
    DenseSet<Value> elsewhere = readElsewhere(ops);
    std::optional<DenseSet<Value>> once; // few candidates have an op that asks for it
    int64_t cheap = 0;
    for (Operation *op : ops) {
      bool again = domain.role(op->getResult(0)) == FusionDomain::Role::Inline ||
                   elsewhere.contains(op->getResult(0));
      if (graph_.isFree(op) || !again || isOncePerRow(domain, op))
        continue;
      // Ops that only move elements compute nothing.
      if (cast<ir::WeftOp>(op).kind() == ir::Kind::Movement)
        continue;
      if (!once)
        once = computedOnce(ops, outputs);
      if (once->contains(op->getResult(0)))
        continue;
      if (isExpensive(op) || ++cheap > limits::kMaxRecomputedOps)
        return op;
    }
    return nullptr;
  }

  // A slice whose elements the kernel's vectors would gather, row after row: one column of a matrix
  // that each row is multiplied by; null if there is none. In memory of its own it is read as it
  // lies.
  static Operation *gatheredByRows(const FusionDomain &domain, ArrayRef<Operation *> ops) {
    auto isGathered = [&](Operation *op) {
      auto slice = dyn_cast<ir::SliceOp>(op);
      return slice && gathersLines(domain, slice) &&
             llvm::any_of(ops,
                          [&](Operation *each) { return isRepeatedBy(each, slice.getResult()); }) &&
             !llvm::is_contained(ops, slice.getInput().getDefiningOp());
    };
    const auto *found = llvm::find_if(ops, isGathered);
    return found == ops.end() ? nullptr : *found;
  }

  // Whether elements of a slice that are next to each other along the vectors lie apart, in many
  // lines of a cache.
  static bool gathersLines(const FusionDomain &domain, ir::SliceOp slice) {
    RankedTensorType from = slice.getInput().getType(), to = slice.getType();
    const FusionDomain::Layout *layout = domain.layout(slice.getResult());
    if (!layout || layout->empty() || domain.inner().empty() ||
        layout->back() != domain.inner().back() || !from.hasStaticShape())
      return false;
    int64_t dim = to.getRank() - 1;
    while (dim > 0 && to.getDimSize(dim) == 1)
      --dim;
    int64_t bytes = (to.getElementTypeBitWidth() + 7) / 8,
            stride = bytes * slice.getSteps()[dim] *
                     ShapedType::getNumElements(from.getShape().drop_front(dim + 1));
    int64_t touched = elementsOf(slice.getResult()) * std::min(stride, limits::kLineBytes);
    return stride > limits::kMaxLaneStride * bytes && touched >= limits::kMinTurnedBytes;
  }

  // A large transpose across the vectors of a kernel with reductions, whose schedule does not turn
  // tiles of what it reads; null if there is none. Elementwise kernels turn them, those of rows
  // without sums over rows or parts of them, and nests along the one dim that they fold.
  static Operation *gathered(const FusionDomain &domain, ArrayRef<Operation *> ops) {
    using Shape = FusionDomain::Shape;
    if (Operation *op = gatheredByRows(domain, ops))
      return op;
    if (!llvm::is_contained({Shape::Rows, Shape::Total, Shape::Nest}, domain.shape()))
      return nullptr;
    const FusionDomain::Layout *first = nullptr; // of a reduction's operand
    bool sumsRows = false;
    for (Operation *op : ops) {
      if (!isReduction(op))
        continue;
      sumsRows |= llvm::is_contained({FusionDomain::Role::Col, FusionDomain::Role::Part},
                                     domain.role(op->getResult(0)));
      if (!first)
        first = domain.layout(op->getOperand(0));
    }
    bool turns = domain.shape() == Shape::Rows && domain.lanes() < 0 && !sumsRows &&
                 domain.rowSize() <= limits::kMaxTurnedRow;
    if (!first || first->empty())
      return nullptr;
    int32_t along = domain.shape() != Shape::Nest && domain.lanes() < 0 ? domain.inner().back()
                                                                        : first->back();
    for (Operation *op : ops) {
      if (!isa<ir::TransposeOp>(op) || tensorBytes(op->getResult(0)) < limits::kMinTurnedBytes)
        continue;
      const FusionDomain::Layout *from = domain.layout(op->getOperand(0)),
                                 *to = domain.layout(op->getResult(0));
      if (!from || !to || from->empty() || to->back() != along || from->back() == along)
        continue;
      int32_t innermost = from->back();
      bool isTurned = ((turns && llvm::is_contained(domain.outer(), innermost)) ||
                       domain.liesAcrossNest(*from)) &&
                      !ir::typeOf(op->getResult(0)).getEncoding();
      if (!isTurned && domain.atoms()[innermost] > limits::kMaxLaneStride)
        return op;
    }
    return nullptr;
  }

  // Values of a kernel without reductions that are read through slices. A value that is also read
  // at its own position is computed once for each of these: a step of a simulation reads its last
  // state at each cell and at its neighbours.
  static DenseSet<Value> readElsewhere(ArrayRef<Operation *> ops) {
    DenseSet<Value> read;
    if (llvm::any_of(ops, [](Operation *op) { return isReduction(op); }))
      return read;
    for (Operation *op : llvm::reverse(ops)) {
      if (isa<ir::SliceOp>(op))
        read.insert(op->getOperand(0));
      else if (read.contains(op->getResult(0)))
        read.insert(op->operand_begin(), op->operand_end());
    }
    return read;
  }

  // Whether rows of what a slice gives are rows of samples that are drawn together.
  static bool keepsDraws(ir::SliceOp slice) {
    if (slice.getStarts().empty())
      return true;
    int64_t whole = ir::typeOf(slice.getInput()).getShape().back(),
            part = ir::typeOf(slice.getResult()).getShape().back();
    int64_t unit = limits::kDrawnTogether;
    return slice.getStarts().back() % unit == 0 && slice.getSteps().back() == 1 &&
           (elementsOf(slice.getResult()) == part || (whole % unit == 0 && part % unit == 0));
  }

  // Values that a kernel without reductions computes at one position alone, at no more points than
  // they have elements: of what one slice reads, the slice's.
  static DenseSet<Value> computedOnce(ArrayRef<Operation *> ops, ArrayRef<Value> outputs) {
    DenseSet<Value> once;
    if (llvm::any_of(ops, [](Operation *op) { return isReduction(op); }))
      return once;
    // Readers in step with a value share one position, each other one brings those of its result.
    struct Positions {
      int64_t inStep = 0, others = 0;
      bool cutsDraws = false;
    };
    DenseMap<Value, Positions> positions;
    int64_t points = 0;
    for (Value output : outputs) {
      positions[output].inStep = 1;
      points = std::max(points, elementsOf(output));
    }
    for (Operation *op : llvm::reverse(ops)) {
      Value result = op->getResult(0);
      Positions own = positions.lookup(result);
      int64_t all = own.inStep + own.others;
      int64_t least = isa<ir::RandomUniformOp>(op) && own.cutsDraws ? limits::kLeastDrawn : 1;
      if (all == 1 && elementsOf(result) >= points * least)
        once.insert(result);
      auto slice = dyn_cast<ir::SliceOp>(op);
      bool cutsDraws = own.cutsDraws || isa<ir::TransposeOp>(op) || (slice && !keepsDraws(slice));
      for (Value operand : op->getOperands()) {
        Positions &of = positions[operand];
        if (isa<ir::ElementwiseOp, ir::ReshapeOp, ir::BroadcastOp>(op))
          of.inStep = std::max(of.inStep, all);
        else // a gather reads where it likes, and as often
          of.others += isa<ir::SliceOp, ir::TransposeOp>(op) ? all : 2;
        of.cutsDraws |= cutsDraws;
      }
    }
    return once;
  }

  // The same for values along a row that are read at other positions of the row, after its
  // reductions: the windows of a pooled norm, the other half of a rotary embedding.
  Operation *recomputedInRow(const FusionDomain &domain, ArrayRef<Operation *> ops) const {
    using Role = FusionDomain::Role;
    if (domain.shape() != FusionDomain::Shape::Rows)
      return nullptr;
    DenseSet<Value> dependent, read;
    for (Operation *op : ops) {
      bool depends = llvm::any_of(op->getOperands(),
                                  [&](Value operand) { return dependent.contains(operand); });
      if (depends || isReduction(op))
        dependent.insert(op->getResult(0));
      if (depends && isa<ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp>(op))
        read.insert(op->operand_begin(), op->operand_end());
    }
    int64_t cheap = 0;
    for (Operation *op : llvm::reverse(ops)) {
      if (!read.contains(op->getResult(0)) || isReduction(op) ||
          domain.role(op->getResult(0)) == Role::Row)
        continue;
      read.insert(op->operand_begin(), op->operand_end());
      if (graph_.isFree(op) || isOncePerRow(domain, op) ||
          cast<ir::WeftOp>(op).kind() == ir::Kind::Movement)
        continue;
      if (isExpensive(op) || ++cheap > limits::kMaxWindowOps)
        return op;
    }
    return nullptr;
  }

  static Late lateness(const FusionDomain &domain) {
    if (!domain.kept().empty() || !domain.near().empty())
      return Late::PartsAndSlices;
    return domain.shape() == FusionDomain::Shape::Rows && domain.runSize() != domain.rowSize()
               ? Late::SeveralRuns
               : Late::None;
  }

  // Whether loops over rows hoist the op out of the row: it reads nothing that lies along it.
  static bool isOncePerRow(const FusionDomain &domain, Operation *op) {
    const FusionDomain::Layout *layout = domain.layout(op->getResult(0));
    return layout && domain.rowSize() >= limits::kMinHoistedRow &&
           llvm::none_of(*layout,
                         [&](int32_t atom) { return llvm::is_contained(domain.inner(), atom); });
  }

  Block &block_;
  const std::vector<RegisteredFusionRule> rules_ = registeredFusionRules();
  FusionGraph graph_;
  RefusalCollector refusals_;
  std::vector<Candidate> candidates_;
  Late allowed_ = Late::None;    // what kernels may have so far
  std::array<bool, 3> saw_ = {}; // which of these some would have
  int64_t numRematerialized_ = 0;
  DenseSet<std::pair<int, int>> refused_; // pairs of groups, looked at in this round
};

// What stays outside of fusions: it costs no kernel.
bool staysOutside(Operation &op) {
  return cast<ir::WeftOp>(op).kind() == ir::Kind::Structure ||
         isa<ir::ReshapeOp, ir::ConstantOp>(op);
}

// Each op a kernel of its own, with the splat constants that it reads.
FusionGroups singleOps(Block &block) {
  FusionGroups groups;
  for (Operation &op : block.without_terminator()) {
    if (staysOutside(op))
      continue;
    FusionGroup &group = groups.emplace_back();
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && isSplat(def) && !llvm::is_contained(group.ops, def))
        group.ops.push_back(def);
    group.clone.assign(group.ops.size(), true);
    group.ops.push_back(&op);
    group.clone.push_back(false);
  }
  return groups;
}

class FusePass : public impl::FusePassBase<FusePass> {
public:
  using FusePassBase::FusePassBase;
  FusePass(FusePassOptions options, CompileReport *report)
      : FusePassBase(options), report_(report) {}

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    Block &block = main.getBody().front();
    // What nothing claimed and nothing decomposed is left to kernels.
    for (Operation &op : block.without_terminator())
      if (std::string why = whyNoKernel(&op); !why.empty()) {
        op.emitOpError("has no kernel: ") << why;
        return signalPassFailure();
      }
    splitWideConcats(block);
    splitSumsOverSizes(block);
    RefusalCollector refusals("fuse");
    if (writeRows) {
      FusionGroups writes;
      writeInPlace(block);
      checkBeforeWrites(block, writes, refusals);
      separateWrites(block, writes);
      if (failed(buildFusions(block, writes)))
        return signalPassFailure();
      refusals.flush(report_, printReport);
    }
    fillConstants(block);
    FusionGroups groups;
    if (fuse) {
      turnResults(block);
      Fuser fuser(block);
      fuser.run();
      fuser.rematerialize();
      numRematerialized += fuser.numRematerialized();
      groups = fuser.groups();
      fuser.refusals().flush(report_, printReport);
    } else {
      groups = singleOps(block);
    }
    numFusions += groups.size();
    if (failed(buildFusions(block, groups)))
      return signalPassFailure();
  }

private:
  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<Pass> createFusePass(FusePassOptions options, CompileReport *report) {
  return std::make_unique<FusePass>(std::move(options), report);
}

} // namespace weft::compiler

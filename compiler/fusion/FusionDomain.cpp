// Which ops may stand in a kernel, and what values of one are to each other: positions, reductions
// that others wait for, roles.
#include "compiler/fusion/DomainAnalysis.h"
#include "compiler/fusion/NarrowMatrix.h"
#include "compiler/pipeline/Registrations.h"
#include "dialects/weft/ir/Accumulation.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/LongDims.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {

using namespace mlir;

using ir::Kind;

// What explain calls a refusal, and says of it.
static std::pair<StringRef, StringRef> wordsOf(Refusal refusal) {
  switch (refusal) {
  case Refusal::None:
    return {"none", ""};
  case Refusal::NotFusible:
    return {"not-fusible", "the op has no lowering to a kernel"};
  case Refusal::NoSchedule:
    return {"no-schedule",
            "kernels of contractions, scans and scatters are written for Weft's own ops; give the "
            "op's record a decomposition in place of its lowering, or a provider that claims it"};
  case Refusal::SeveralResults:
    return {"several-results",
            "kernels compute ops of one result; give the op's record a decomposition in place of "
            "its lowering, or a provider that claims it"};
  case Refusal::Alone:
    return {"schedule-of-its-own", "the op has a schedule of its own"};
  case Refusal::DynamicShape:
    return {"dynamic-shape", "a dimension has no static size"};
  case Refusal::DifferentRows:
    return {"different-rows", "the reductions are over different dimensions"};
  case Refusal::DifferentShapes:
    return {"different-shapes", "an output does not have the elements of the others, row by row"};
  case Refusal::ReshapeMixesDims:
    return {"reshape-mixes-dims", "a reshape moves elements across the border between rows"};
  case Refusal::ReadsAcrossRows:
    return {"reads-across-rows",
            "the result of a reduction across rows is needed before all rows are done"};
  case Refusal::ReadsReducedElsewhere:
    return {"reads-reduced-elsewhere",
            "a value that depends on a reduction is read at another position"};
  case Refusal::PartialReduction:
    return {"partial-reduction",
            "a reduction over middle dimensions shares its kernel with other outputs"};
  case Refusal::TooLarge:
    return {"too-many-ops", "more ops than one kernel holds"};
  case Refusal::NarrowSum:
    return {"narrow-sum", "bf16, f16 and uint8 accumulate in wider dtypes; run weft-widen first"};
  case Refusal::ComputedTooOften:
    return {"computed-too-often", "a value would be computed again at too many positions"};
  case Refusal::TooManyBuffers:
    return {"too-many-buffers",
            "the kernel would read and write more buffers than registers can address"};
  case Refusal::TwoLengths:
    return {"two-lengths", "rows whose length varies are in no kernel with what has another size "
                           "that varies, or has it elsewhere"};
  case Refusal::Recomputed:
    return {"recomputed",
            "the kernel would compute an expensive value again for each element that reads it"};
  case Refusal::GathersTransposed:
    return {"gathers-transposed",
            "the kernel would gather each lane of its vectors from a line of its own"};
  case Refusal::Between:
    return {"between", "another kernel or library call lies between the two"};
  case Refusal::TooFar:
    return {"too-far", "too many ops lie between the two to look at"};
  case Refusal::CheckedAfterWrite:
    return {"checked-after-write",
            "what may fail is computed of what is written in place, which is a copy"};
  }
  llvm_unreachable("all refusals have words");
}
StringRef refusalText(Refusal refusal) {
  return wordsOf(refusal).second;
}
StringRef refusalName(Refusal refusal) {
  return wordsOf(refusal).first;
}

bool isReduction(Operation *op) {
  return isReduce(op) && llvm::any_of(reducedDims(op), [&](int64_t dim) {
           return shapeOf(op->getOperand(0))[dim] != 1;
         });
}

// What planning adds to a full kernel, where it draws random numbers from, does not count.
static int64_t countedOps(ArrayRef<Operation *> ops) {
  return llvm::count_if(ops, [](Operation *op) {
    return !isa<ir::AddOp>(op) || !ir::isRandomState(op->getResult(0).getType());
  });
}
static bool isTooLarge(ArrayRef<Operation *> ops, const FusionDomain &domain) {
  return countedOps(ops) > (domain.near().empty() ? kMaxFusionOps : kMaxWindowedOps);
}
// Attention is a composite with a schedule of its own; a backend without that decomposes it.
static bool isAlone(Operation *op) {
  if (ir::isAttention(op))
    return true;
  auto kind = cast<ir::WeftOp>(op).kind();
  return kind == Kind::Contraction || kind == Kind::Scatter || kind == Kind::Scan;
}

bool movesRows(Operation *op) {
  if (auto transpose = dyn_cast<ir::TransposeOp>(op)) {
    ArrayRef<int64_t> order = transpose.getPermutation();
    return !order.empty() && order.back() + 1 == static_cast<int64_t>(order.size());
  }
  if (!isa<ir::BroadcastOp, ir::ReshapeOp>(op))
    return false;
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
  size_t kept = isa<ir::ReshapeOp>(op) ? 2 : 1;
  return from.size() >= kept && to.size() >= kept && from.take_back(kept) == to.take_back(kept);
}

bool lacksSchedule(Operation *op) {
  return !ir::isOwn(op) && isa<ir::WeftOp>(op) && isAlone(op);
}

std::string whyNoKernel(Operation *op) {
  if (!isa<ir::WeftOp>(op)) {
    std::string passes = registeredNames("pass");
    return "only weft ops have one" +
           (passes.empty() ? "" : "; a registered pass has left it (there is " + passes + ")");
  }
  if (ir::isOwn(op))
    return "";
  Refusal why = FusionDomain::fusible(op);
  if (why == Refusal::NotFusible)
    return "nothing has claimed or decomposed it, and its record has no lowering; give it a "
           "decomposition, a lowering or a provider";
  return why == Refusal::NoSchedule || why == Refusal::SeveralResults ? refusalText(why).str() : "";
}

// Whether rows of a length that varies, [4, n], are one dim there, [4 n]: a kernel knows the
// strides of the largest length. Memory has both.
static bool movesRowsOfSomeLength(ir::ReshapeOp reshape) {
  ir::Dims from = ir::dimsOf(reshape.getInput()), to = ir::dimsOf(reshape.getResult());
  auto named = [](ir::Dims dims) {
    llvm::erase_if(dims, [](const ir::Dim &dim) { return dim.isStatic(); });
    return dims;
  };
  return (ir::variesBehind(from) || ir::variesBehind(to)) && named(from) != named(to);
}

Refusal FusionDomain::fusible(Operation *op) {
  auto weft = dyn_cast<ir::WeftOp>(op);
  if (!weft)
    return Refusal::NotFusible;
  if (weft.kind() == Kind::Structure || weft.kind() == Kind::Exchange)
    return Refusal::NotFusible;
  if (!ir::isAttention(op) &&
      (weft.kind() == Kind::Composite || !weft.missingRule(ir::RuleKind::Lowering).empty()))
    return Refusal::NotFusible;
  if (lacksSchedule(op))
    return Refusal::NoSchedule;
  if (op->getNumResults() != 1 && !ir::isAttention(op))
    return Refusal::SeveralResults;
  auto isStatic = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  };
  if (!llvm::all_of(op->getOperandTypes(), isStatic) ||
      !llvm::all_of(op->getResultTypes(), isStatic))
    return Refusal::DynamicShape;
  if (ir::accumulationType(op))
    return Refusal::NarrowSum;
  if (auto reshape = dyn_cast<ir::ReshapeOp>(op); reshape && movesRowsOfSomeLength(reshape))
    return Refusal::ReshapeMixesDims;
  return Refusal::None;
}

// Whether the op reads its operands at other elements than those that stand in step with its
// result's: a part of them, windows, where data say.
static bool readsOutOfStep(Operation *op) {
  auto kind = cast<ir::WeftOp>(op).kind();
  if (kind == Kind::Gather || kind == Kind::Scatter)
    return true;
  if (kind != Kind::Movement)
    return false;
  auto statement = ir::statementOf(op);
  auto inStep = [&](OpOperand &operand) {
    return llvm::all_of(llvm::enumerate(shapeOf(operand.get())), [&](auto dim) {
      return ir::digitsOf(*statement, statement->operands[operand.getOperandNumber()][dim.index()],
                          dim.value());
    });
  };
  return statement && !llvm::all_of(op->getOpOperands(), inStep);
}

// Counts at how many positions each value is computed: users in step with it share one, each slice,
// gather, concat or insert_slice brings those of its result. A constant costs nothing at any of
// them: a concat may have one for each of its columns.
bool DomainAnalysis::checkPositions() {
  DenseMap<Value, int64_t> positions;
  for (Operation *op : llvm::reverse(ops)) {
    if (isa<ir::ConstantOp>(op))
      continue;
    bool moves = readsOutOfStep(op);
    int64_t own = 1;
    if (op->getNumResults() == 1)
      own = std::max<int64_t>(1, positions.lookup(op->getResult(0)));
    if (own > kMaxPositions)
      return refuse(Refusal::ComputedTooOften, op);
    for (Value operand : op->getOperands()) {
      int64_t &at = positions[operand];
      at = moves ? at + own : std::max(at, own);
    }
  }
  return true;
}

// Whether a slice, or what a value becomes a part of, has its elements in the row that they have in
// the operand.
bool DomainAnalysis::staysInRow(Operation *op, Value operand) {
  if (!isa<ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp>(op) ||
      domain.shape_ != FusionDomain::Shape::Rows || sideBySide)
    return false;
  auto from = layouts.find(operand), to = layouts.find(op->getResult(0));
  if (from == layouts.end() || to == layouts.end())
    return false;
  auto statement = ir::statementOf(op);
  Atoms kept;
  for (auto [dim, before, after] : llvm::enumerate(from->second, to->second)) {
    bool isOuter =
        llvm::any_of(before, [&](int32_t atom) { return llvm::is_contained(domain.outer_, atom); });
    // A value may be several operands: of concats, which have few.
    bool keeps = llvm::all_of(op->getOpOperands(), [&, dim = dim](OpOperand &use) {
      return use.get() != operand ||
             statement->operands[use.getOperandNumber()][dim].is(static_cast<int32_t>(dim));
    });
    if (isOuter && (before != after || !keeps))
      return false;
    if (isOuter)
      kept.append(after.begin(), after.end());
  }
  return llvm::all_of(domain.outer_, [&](int32_t atom) { return llvm::is_contained(kept, atom); });
}

// Whether an output is elementwise on slices of rows, of the same dims as others that are.
bool DomainAnalysis::isNear(Value output) {
  auto found = layouts.find(output);
  if (domain.shape_ != FusionDomain::Shape::Rows || sideBySide ||
      depends.lookup(output) != Depends::Row || found == layouts.end())
    return false;
  Atoms atoms = flat(found->second), own;
  llvm::copy_if(atoms, std::back_inserter(own),
                [&](int32_t atom) { return !llvm::is_contained(domain.outer_, atom); });
  if (own.empty() || own.size() + domain.outer_.size() != atoms.size())
    return false;
  if (!domain.near_.empty() && Atoms(domain.near_) != own)
    return false;
  domain.near_.assign(own.begin(), own.end());
  return true;
}

// Whether the op's result lies where its operand k does. Atoms stay as they are: O and I are made
// of them.
bool DomainAnalysis::liesWith(Operation *op, unsigned k) {
  size_t before = domain.atoms_.size();
  auto expected = resultFromOperand(op, k);
  return expected && domain.atoms_.size() == before &&
         layouts.lookup(op->getResult(0)) == *expected;
}

// What depends on a reduction is read where it was computed, and nothing waits for all rows but
// what comes after them.
bool DomainAnalysis::checkUses() {
  using Shape = FusionDomain::Shape;
  bool moved = false; // whether a row is read at other positions
  for (Operation *op : ops) {
    if (op->getNumResults() != 1)
      return refuse(Refusal::NotFusible, op);
    Depends result = Depends::Nothing;
    bool anyRow = false, anyPost = false;
    for (auto [k, operand] : llvm::enumerate(op->getOperands())) {
      Depends on = depends.lookup(operand);
      anyRow |= on == Depends::Row;
      anyPost |= on == Depends::Post;
      if (on == Depends::Nothing)
        continue;
      bool moves = isa<ir::ReshapeOp, ir::TransposeOp, ir::BroadcastOp>(op) || isReduce(op);
      if (on == Depends::Row && staysInRow(op, operand)) {
        moved = true;
        continue;
      }
      if (cast<ir::WeftOp>(op).kind() != Kind::Elementwise && !moves && !isReduction(op))
        return refuse(
            on == Depends::Post ? Refusal::ReadsAcrossRows : Refusal::ReadsReducedElsewhere, op);
      if (on == Depends::Post) {
        if (moves && !isa<ir::ReshapeOp>(op))
          return refuse(Refusal::ReadsAcrossRows, op);
        if (isReduction(op))
          return refuse(Refusal::ReadsAcrossRows, op);
        if (!liesWith(op, k))
          return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::ReadsAcrossRows, op);
        continue;
      }
      if (isReduction(op))
        continue;
      if (!layouts.contains(op->getResult(0)) || !layouts.contains(operand))
        return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::ReadsReducedElsewhere, op);
      auto expected = operandFromResult(op, k);
      if (!expected || !(*expected == layouts[operand]))
        return refuse(Refusal::ReadsReducedElsewhere, op);
    }
    if (anyRow && anyPost)
      return refuse(Refusal::ReadsAcrossRows, op);
    if (anyRow)
      result = Depends::Row;
    if (anyPost)
      result = Depends::Post;
    if (isReduction(op)) {
      if (!liesWith(op, 0))
        return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::DifferentRows, op);
      Atoms kept = flat(layouts[op->getResult(0)]);
      bool isRow = domain.shape_ == Shape::Nest ||
                   (domain.shape_ == Shape::Rows && kept == Atoms(domain.outer_) &&
                    Atoms(flat(layouts[op->getOperand(0)])) != Atoms(domain.outer_));
      result = isRow ? Depends::Row : Depends::Post;
      if (anyRow && domain.shape_ == Shape::Nest)
        return refuse(Refusal::PartialReduction, op);
    }
    depends[op->getResult(0)] = result;
  }
  // That another position is in the same row shows where dims stay apart: a reshape between would
  // take it apart by divisions, which say nothing where the position may lie outside of the image.
  auto wideDims = [](Value value) {
    SmallVector<int64_t> dims;
    llvm::copy_if(shapeOf(value), std::back_inserter(dims), [](int64_t size) { return size != 1; });
    return dims;
  };
  for (Operation *op : ops)
    if (moved && isa<ir::ReshapeOp>(op) && depends.lookup(op->getOperand(0)) == Depends::Row &&
        wideDims(op->getOperand(0)) != wideDims(op->getResult(0)))
      return refuse(Refusal::ReadsReducedElsewhere, op);
  return true;
}

bool DomainAnalysis::checkOutputs() {
  using Shape = FusionDomain::Shape;
  using Role = FusionDomain::Role;
  auto sorted = [](Atoms atoms) {
    llvm::sort(atoms);
    return atoms;
  };
  Atoms full(domain.outer_.begin(), domain.outer_.end());
  full.append(domain.inner_.begin(), domain.inner_.end());
  full = sorted(full);
  Atoms outer = sorted(Atoms(domain.outer_.begin(), domain.outer_.end()));
  for (auto &[value, layout] : layouts) {
    Atoms atoms = sorted(flat(layout));
    Depends on = depends.lookup(value);
    if (on == Depends::Post)
      continue;
    if (atoms == full)
      domain.roles_[value] = Role::Full;
    else if (atoms == outer)
      domain.roles_[value] = Role::Row;
  }
  for (Operation *op : ops)
    if (depends.lookup(op->getResult(0)) == Depends::Post) {
      Value value = op->getResult(0);
      auto found = layouts.find(value);
      if (found == layouts.end())
        return refuse(Refusal::ReadsAcrossRows, op);
      Atoms atoms = flat(found->second);
      bool isPart = !domain.kept_.empty() && !atoms.empty();
      if (isPart && atoms != Atoms(domain.kept_))
        return refuse(Refusal::ReadsAcrossRows, op);
      domain.roles_[value] = atoms.empty() ? Role::Scalar : isPart ? Role::Part : Role::Col;
    }
  for (Value output : outputs)
    if (domain.role(output) == Role::Inline && !isNear(output))
      return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::DifferentShapes,
                    output.getDefiningOp());
  if (!domain.near_.empty()) {
    Atoms near = outer;
    near.append(domain.near_.begin(), domain.near_.end());
    near = sorted(near);
    for (auto &[value, layout] : layouts)
      if (domain.role(value) == Role::Inline && sorted(flat(layout)) == near)
        domain.roles_[value] = Role::Near;
  }
  for (Value output : outputs) {
    Operation *op = output.getDefiningOp();
    Role role = domain.role(output);
    if (role == Role::Inline)
      return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::DifferentShapes, op);
    if (domain.shape_ == Shape::Nest && role != Role::Row)
      return refuse(Refusal::PartialReduction, op);
    // Without reductions, or with one over everything, nothing of a kernel runs once a row.
    bool hasRows = domain.shape_ != Shape::Total && domain.shape_ != Shape::Elementwise;
    if (!hasRows && role == Role::Row)
      return refuse(Refusal::DifferentShapes, op);
  }
  return true;
}

// One op with a schedule of its own: its operands may be computed on the way, if each element is
// used about once.
bool DomainAnalysis::alone() {
  Operation *op = *llvm::find_if(ops, isAlone);
  // All that converts a product's matrix, or nothing of it.
  auto matmul = dyn_cast<ir::MatmulOp>(op);
  std::optional<NarrowMatrix> matrix = matmul ? narrowMatrixOf(matmul) : std::nullopt;
  DenseSet<Operation *> members(ops.begin(), ops.end());
  bool converts = matrix && llvm::all_of(*matrix, [&](Operation *each) {
                    return members.contains(each) || isa<ir::ConstantOp>(each);
                  });
  for (Operation *other : ops) {
    if (other == op)
      continue;
    if (isAlone(other) || isReduction(other))
      return refuse(Refusal::Alone, other);
    bool isHeads =
        ir::isAttention(op) && (isa<ir::TransposeOp, ir::ReshapeOp>(other) || movesRows(other));
    bool isMatrix = converts && matrix->contains(other);
    if ((matmul || ir::isAttention(op)) && !isHeads && !isMatrix && !isa<ir::ConstantOp>(other))
      return refuse(Refusal::Alone, op);
  }
  // Attention writes a result as it is or as a transpose says, its result both ways.
  DenseSet<Value> written;
  for (Value output : outputs) {
    auto transpose = output.getDefiningOp<ir::TransposeOp>();
    if (transpose && ir::isAttention(op) && movesRows(transpose))
      output = transpose.getInput();
    if (output.getDefiningOp() != op ||
        (!written.insert(output).second && !isa<ir::AttentionOp>(op)))
      return refuse(Refusal::Alone, op);
  }
  domain.shape_ = FusionDomain::Shape::Alone;
  return true;
}

// Whether it matters where slices lie: an output has no layout, or what a reduction gave is sliced.
bool DomainAnalysis::needsSlices() {
  return llvm::any_of(outputs, [&](Value output) { return !layouts.contains(output); }) ||
         anyBehindReduction([](Operation *op) { return isa<ir::SliceOp, ir::InsertSliceOp>(op); });
}

bool DomainAnalysis::run() {
  if (countedOps(ops) > kMaxWindowedOps)
    return refuse(Refusal::TooLarge, ops.back());
  DenseSet<Operation *> members(ops.begin(), ops.end());
  Value hero;
  bool empty = false;
  auto consider = [&](Value value) {
    if (!hero || sizeOf(value) > sizeOf(hero))
      hero = value;
  };
  for (Operation *op : ops) {
    if (Refusal refusal = FusionDomain::fusible(op); refusal != Refusal::None)
      return refuse(refusal, op);
    for (auto [k, operand] : llvm::enumerate(op->getOperands()))
      uses[operand].push_back({op, k});
    if (isReduction(op)) {
      consider(op->getOperand(0));
      empty |= sizeOf(op->getOperand(0)) == 0;
    }
  }
  if (llvm::any_of(ops, isAlone))
    return isTooLarge(ops, domain) ? refuse(Refusal::TooLarge, ops.back()) : alone();
  for (Value output : outputs) {
    consider(output);
    empty |= sizeOf(output) == 0;
  }
  if (!checkPositions())
    return false;
  if (!hero)
    return refuse(Refusal::NotFusible, ops.empty() ? nullptr : ops.back());
  if (empty) {
    // The schedule of nothing knows reductions of nothing only.
    for (Operation *op : ops)
      if (isReduction(op) && sizeOf(op->getOperand(0)) != 0)
        return refuse(Refusal::DifferentShapes, op);
    domain.shape_ = FusionDomain::Shape::Empty;
    return !isTooLarge(ops, domain) || refuse(Refusal::TooLarge, ops.back());
  }
  DimLayout layout;
  for (int64_t size : shapeOf(hero)) {
    layout.emplace_back();
    if (size == 1)
      continue;
    layout.back().push_back(domain.atoms_.size());
    domain.atoms_.push_back(size);
  }
  assign(hero, layout);
  propagate(members);
  // Ops that share nothing with the hero but its shape: the same elements at the same places.
  // Single elements are at one place, whatever their ranks.
  for (Value output : outputs) {
    if (layouts.contains(output))
      continue;
    auto type = ir::typeOf(output), like = ir::typeOf(hero);
    if (ir::dimsOf(type) == ir::dimsOf(like))
      assign(output, DimLayout(layouts[hero]));
    else if (sizeOf(output) == 1 && sizeOf(hero) == 1)
      assign(output, DimLayout(type.getRank()));
    propagate(members);
  }
  if (needsSlices())
    followSlices(members);
  settleReduced();
  if (!classifyReductions())
    return false;
  if (domain.shape_ == FusionDomain::Shape::Elementwise)
    domain.inner_ = flat(layouts[hero]);
  if (!checkUses() || !checkOutputs())
    return false;
  if (isTooLarge(ops, domain))
    return refuse(Refusal::TooLarge, ops.back());
  mergeAtoms();
  findRuns();
  // What keeps dims apart (an input of some of them) leaves fewer rows side by side.
  if (sideBySide && domain.atoms_[domain.lanes_] < kShortRun)
    return refuse(Refusal::PartialReduction, *llvm::find_if(ops, isReduction));
  return true;
}

std::optional<FusionDomain> FusionDomain::analyze(ArrayRef<Operation *> ops,
                                                  ArrayRef<Value> outputs, FusionRefusal &why) {
  why = {};
  DomainAnalysis analysis(ops, outputs, why);
  if (!analysis.run())
    return std::nullopt;
  return std::move(analysis.domain);
}

int64_t FusionDomain::partRun() const {
  int64_t run = rowSize();
  for (int32_t atom : inner_)
    if (llvm::is_contained(kept_, atom))
      run /= atoms_[atom];
  return run;
}

bool FusionDomain::liesAcrossNest(const Layout &layout) const {
  return shape_ == Shape::Nest && inner_.size() == 1 && !layout.empty() &&
         layout.back() == inner_.front() && atoms_[inner_.front()] >= kShortRun;
}

FusionDomain::Layout FusionDomain::partialLayout() const {
  Layout atoms(outer_.begin(), outer_.end());
  llvm::copy_if(inner_, std::back_inserter(atoms),
                [&](int32_t atom) { return llvm::is_contained(kept_, atom); });
  return atoms;
}

FusionDomain::Layout FusionDomain::addedRows() const {
  Layout atoms;
  llvm::copy_if(outer_, std::back_inserter(atoms),
                [&](int32_t atom) { return !llvm::is_contained(kept_, atom); });
  return atoms;
}

int32_t FusionDomain::cut(int32_t atom, int64_t inner) {
  int32_t added = atoms_.size();
  atoms_.push_back(inner);
  atoms_[atom] /= inner;
  auto insertIn = [&](auto &list) {
    if (auto found = llvm::find(list, atom); found != list.end())
      list.insert(found + 1, added);
  };
  for (auto &[value, layout] : layouts_)
    insertIn(layout);
  insertIn(outer_);
  insertIn(inner_);
  if (shape_ == Shape::Elementwise && inner_.size() > 1) {
    outer_.append(inner_.begin(), inner_.end() - 1);
    inner_.erase(inner_.begin(), inner_.end() - 1);
    run_ = rowSize();
  }
  return added;
}

FusionDomain::Role FusionDomain::role(Value value) const {
  auto found = roles_.find(value);
  return found == roles_.end() ? Role::Inline : found->second;
}

const FusionDomain::Layout *FusionDomain::layout(Value value) const {
  auto found = layouts_.find(value);
  return found == layouts_.end() ? nullptr : &found->second;
}

} // namespace weft::compiler

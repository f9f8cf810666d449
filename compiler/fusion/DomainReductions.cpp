// What a row is: the reductions of a kernel and the dims that they fold.
#include "compiler/fusion/DomainAnalysis.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {

using namespace mlir;

// A single row is one piece of work, for one thread. A reduction over a larger tensor is better a
// kernel of its own (Total), whose blocks run in parallel.
static constexpr int64_t kLargestSingleRow = 1 << 15;

// Elements of a row beside which other rows lie, up to which some vectors' worth of such rows stay in
// a near cache from sweep to sweep. (Softmax of 64 x 1024 x 64 over the middle dim, ms: one kernel
// 3.3, three 2.1.)
static constexpr int64_t kLongestSideBySide = 256;

// Whether `holds` for an op that depends on a reduction.
bool DomainAnalysis::anyBehindReduction(function_ref<bool(Operation *)> holds) {
  DenseSet<Value> dependent;
  for (Operation *op : ops) {
    bool depends =
        llvm::any_of(op->getOperands(), [&](Value operand) { return dependent.contains(operand); });
    if (depends && holds(op))
      return true;
    if (isReduction(op) || depends)
      dependent.insert(op->getResult(0));
  }
  return false;
}

bool DomainAnalysis::hasAllAtoms(Value value) {
  auto found = layouts.find(value);
  return found != layouts.end() &&
         flat(found->second).size() == domain.outer_.size() + domain.inner_.size();
}

// Whether something beside elementwise ops on O reads a reduction of a nest: another reduction, or
// an output that has all elements.
bool DomainAnalysis::nestNeedsRows() {
  return anyBehindReduction(isReduction) ||
         llvm::any_of(outputs, [&](Value output) { return hasAllAtoms(output); });
}

// Whether a reduction, or a value that has all elements, depends on a reduction.
bool DomainAnalysis::readsSums() {
  return anyBehindReduction(
      [&](Operation *op) { return isReduction(op) || hasAllAtoms(op->getResult(0)); });
}

// Whether the rows of a nest can be swept as other rows are. All of its reductions must read one
// order of atoms. Vectors lie along its innermost atom: inside of a row where that is reduced, else
// across rows that lie side by side, which pays where several sweeps read them. A size that varies
// is a leading one: it may count such rows, and must not lie inside of one.
bool DomainAnalysis::nestMakesRows() {
  std::optional<Atoms> common;
  bool hasNames = false;
  for (Operation *op : ops) {
    hasNames |= bool(ir::typeOf(op->getResult(0)).getEncoding());
    if (!isReduction(op))
      continue;
    Atoms atoms = flat(layouts[op->getOperand(0)]);
    if (common && *common != atoms)
      return false;
    common = atoms;
  }
  if (llvm::is_contained(domain.inner_, common->back()))
    return !hasNames;
  if (hasNames && (llvm::is_contained(domain.inner_, common->front()) || common->size() < 3))
    return false;
  int64_t neighbours = 1;
  for (int32_t atom : llvm::reverse(*common)) {
    if (llvm::is_contained(domain.inner_, atom))
      break;
    neighbours *= domain.atoms_[atom];
  }
  sideBySide = neighbours >= kShortRun && domain.rowSize() <= kLongestSideBySide && readsSums();
  return sideBySide;
}

// Called after mergeAtoms. The run is what is contiguous and reduced at the end of the reductions'
// operands.
void DomainAnalysis::findRuns() {
  domain.run_ = domain.rowSize();
  if (!nestRows)
    return;
  Operation *op = *llvm::find_if(ops, isReduction);
  ArrayRef<int32_t> layout = domain.layouts_[op->getOperand(0)];
  domain.run_ = 1;
  for (int32_t atom : llvm::reverse(layout)) {
    if (!llvm::is_contained(domain.inner_, atom))
      break;
    domain.run_ *= domain.atoms_[atom];
  }
  if (sideBySide)
    domain.lanes_ = layout.back();
}

// A reduction in terms of the domain: all atoms of its operand, in order, and which of them are
// kept and reduced.
struct DomainAnalysis::Fold {
  Atoms all, kept, reduced;
  bool leading = false,
       trailing = false; // whether the folded ones are the outermost, the innermost
};

bool DomainAnalysis::fold(Operation *op, Fold &result) {
  auto found = layouts.find(op->getOperand(0));
  if (found == layouts.end())
    return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::DifferentShapes, op);
  result.all = flat(found->second);
  SmallVector<bool> isReduced;
  for (auto [i, dim] : llvm::enumerate(found->second)) {
    bool in = llvm::is_contained(reducedDims(op), static_cast<int64_t>(i));
    (in ? result.reduced : result.kept).append(dim.begin(), dim.end());
    isReduced.append(dim.size(), in);
  }
  result.trailing = llvm::is_sorted(isReduced);
  result.leading = llvm::is_sorted(llvm::reverse(isReduced));
  return true;
}

// Whether the reduction gives a Part value: it keeps leading dims of I and some of O, and folds the
// rest. Example: from [N, C, H, W] to [C], where the rows are groups of channels of a sample. The
// order of its sum is that of the same reduction in a kernel of its own, so that fused and unfused
// agree: run by run, as NestSchedule sweeps, or, if no dim of O is folded, row by row where the
// rows are these runs. A leading size that varies is refused: each partial result has one place.
bool DomainAnalysis::makesPart(const Fold &fold, ArrayRef<int32_t> outer, ArrayRef<int32_t> inner,
                               Operation *op) {
  Atoms full(outer.begin(), outer.end());
  full.append(inner.begin(), inner.end());
  if (fold.all != full || ir::typeOf(op->getOperand(0)).getEncoding())
    return false;
  auto isKept = [&](int32_t atom) {
    return llvm::is_contained(fold.kept, atom);
  };
  size_t prefix = 0;
  while (prefix < inner.size() && isKept(inner[prefix]))
    ++prefix;
  if (prefix == inner.size() || llvm::any_of(inner.drop_front(prefix), isKept))
    return false;
  // The reduction folds whole rows and the rows next to them. Alone, it would fold all of these as
  // one longer run, in another order.
  if (prefix == 0 && (outer.empty() || !isKept(outer.back())))
    return false;
  return domain.kept_.empty() || ArrayRef<int32_t>(domain.kept_) == ArrayRef<int32_t>(fold.kept);
}

// The rows: what the widest reduction over inner dims folds. False with a reason where some
// reduction has no layout.
bool DomainAnalysis::findRows(Atoms &outer, Atoms &inner, bool &found) {
  size_t widest = 0;
  for (Operation *op : ops) {
    if (!isReduction(op))
      continue;
    Fold f;
    if (!fold(op, f))
      return false;
    if (f.kept.empty() || !f.trailing)
      continue;
    if (found &&
        std::make_pair(widest, inner.size()) >= std::make_pair(f.all.size(), f.reduced.size()))
      continue;
    found = true;
    widest = f.all.size();
    outer = f.kept;
    inner = f.reduced;
  }
  return true;
}

// Finds O and I from the reductions.
bool DomainAnalysis::classifyReductions() {
  Atoms outer, inner;
  bool haveRows = false, haveCols = false, haveTotal = false, haveNest = false;
  Operation *totalOp = nullptr;
  auto readInside = [&](Operation *op) {
    return !uses.lookup(op->getResult(0)).empty();
  };
  // Row reductions say what a row is; then everything else must fit.
  if (!findRows(outer, inner, haveRows))
    return false;
  for (Operation *op : ops) {
    if (!isReduction(op))
      continue;
    Fold f;
    if (!fold(op, f))
      return false;
    // The reduction folds the elements of the rows in another order of atoms. Alone it is a nest,
    // which adds them up in that order.
    if (haveRows && f.trailing && f.kept == outer && f.reduced == inner)
      continue;
    if (f.kept.empty()) {
      if (haveRows) {
        if (f.all != outer)
          return refuse(Refusal::DifferentRows, op);
        continue; // of a Row value
      }
      if (haveCols || haveNest)
        return refuse(Refusal::DifferentRows, op);
      if (haveTotal && f.all != inner)
        return refuse(Refusal::DifferentRows, op);
      haveTotal = true;
      inner = f.all;
      if (readInside(op))
        totalOp = op;
      continue;
    }
    if (haveRows && !haveCols && makesPart(f, outer, inner, op)) {
      domain.kept_.assign(f.kept.begin(), f.kept.end());
      continue;
    }
    // The operand is a Row value: the reduction is over rows.
    if (f.trailing && haveRows && f.all.size() != outer.size())
      return refuse(Refusal::DifferentRows, op);
    if (f.leading && !haveNest && !haveTotal) {
      if ((haveRows || haveCols) && (f.reduced != outer || f.kept != inner))
        return refuse(Refusal::DifferentRows, op);
      if (!domain.kept_.empty())
        return refuse(Refusal::PartialReduction, op);
      haveCols = true;
      outer = f.reduced;
      inner = f.kept;
      continue;
    }
    if (haveRows || haveCols || haveTotal)
      return refuse(Refusal::PartialReduction, op);
    if (haveNest && (outer != f.kept || inner != f.reduced))
      return refuse(Refusal::DifferentRows, op);
    haveNest = true;
    outer = f.kept;
    inner = f.reduced;
  }
  using Shape = FusionDomain::Shape;
  if (haveCols && !haveRows) {
    // Sums over rows that the kernel reads again: columns are rows then.
    domain.outer_ = inner;
    domain.inner_ = outer;
    if (nestNeedsRows() && nestMakesRows()) {
      nestRows = true;
      domain.shape_ = Shape::Rows;
      return true;
    }
  }
  domain.outer_ = outer;
  domain.inner_ = inner;
  if (haveNest) {
    nestRows = nestNeedsRows() && nestMakesRows();
    domain.shape_ = nestRows ? Shape::Rows : Shape::Nest;
  } else if (haveTotal) {
    // Small enough for one thread: the whole is one row, and ops of the kernel may read its sums.
    if (totalOp && domain.rowSize() <= kLargestSingleRow)
      domain.shape_ = Shape::Rows;
    else
      domain.shape_ = Shape::Total;
  } else
    domain.shape_ = haveRows || haveCols ? Shape::Rows : Shape::Elementwise;
  return true;
}

} // namespace weft::compiler

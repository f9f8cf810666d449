#include "compiler/fusion/FusionDomain.h"

#include "dialects/weft/ir/Accumulation.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;
using ir::Kind;

// A single row is one piece of work for one thread; beyond this a whole-tensor reduction is better a kernel of its own, whose blocks
// run in parallel.
static constexpr int64_t kLargestSingleRow = 1 << 15;

// Elements of a run below which it is no loop of its own: a vector has 16.
static constexpr int64_t kShortRun = 16;

llvm::StringRef refusalText(Refusal refusal) {
  switch (refusal) {
  case Refusal::None: return "";
  case Refusal::NotFusible: return "the op has no lowering to a kernel";
  case Refusal::Alone: return "the op has a schedule of its own";
  case Refusal::DynamicShape: return "a dimension has no static size";
  case Refusal::DifferentRows: return "the reductions are over different dimensions";
  case Refusal::DifferentShapes: return "an output does not have the elements of the others, row by row";
  case Refusal::ReshapeMixesDims: return "a reshape moves elements across the border between rows";
  case Refusal::ReadsAcrossRows: return "the result of a reduction across rows is needed before all rows are done";
  case Refusal::ReadsReducedElsewhere: return "a value that depends on a reduction is read at another position";
  case Refusal::PartialReduction: return "a reduction over middle dimensions shares its kernel with other outputs";
  case Refusal::TooLarge: return "more ops than one kernel holds";
  case Refusal::NarrowSum: return "bf16, f16 and uint8 accumulate in wider dtypes; run weft-widen first";
  case Refusal::ComputedTooOften: return "a value would be computed again at too many positions";
  }
  return "";
}

// The atoms of each dim of a value, outermost first; none for a dim of size 1.
using DimLayout = llvm::SmallVector<llvm::SmallVector<int32_t, 2>, 4>;
using Atoms = llvm::SmallVector<int32_t, 6>;

static llvm::ArrayRef<int64_t> shapeOf(Value value) { return mlir::cast<RankedTensorType>(value.getType()).getShape(); }
static int64_t sizeOf(Value value) { return mlir::cast<RankedTensorType>(value.getType()).getNumElements(); }
static Atoms flat(const DimLayout &layout) {
  Atoms atoms;
  for (auto &dim : layout) atoms.append(dim.begin(), dim.end());
  return atoms;
}
static bool isReduce(Operation *op) { return mlir::cast<ir::WeftOp>(op).kind() == Kind::Reduction; }
// Of any op of that kind: they share one class of records.
static llvm::ArrayRef<int64_t> reducedDims(Operation *op) {
  return mlir::cast<mlir::DenseI64ArrayAttr>(*op->getInherentAttr("dims")).asArrayRef();
}
bool isReduction(Operation *op) {
  return isReduce(op) && llvm::any_of(reducedDims(op), [&](int64_t dim) { return shapeOf(op->getOperand(0))[dim] != 1; });
}
static bool isAlone(Operation *op) { return mlir::isa<ir::MatmulOp, ir::IndexAddOp, ir::IndexPutOp, ir::ScatterAddOp, ir::CumsumOp>(op); }

Refusal FusionDomain::fusible(Operation *op) {
  auto weft = mlir::dyn_cast<ir::WeftOp>(op);
  if (!weft) return Refusal::NotFusible;
  if (weft.kind() == Kind::Structure || weft.kind() == Kind::Composite) return Refusal::NotFusible;
  if (!weft.missingRule(ir::RuleKind::Lowering).empty()) return Refusal::NotFusible;
  auto isStatic = [](mlir::Type type) {
    auto tensor = mlir::dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  };
  if (!llvm::all_of(op->getOperandTypes(), isStatic) || !llvm::all_of(op->getResultTypes(), isStatic)) return Refusal::DynamicShape;
  if (ir::accumulationType(op)) return Refusal::NarrowSum;
  return Refusal::None;
}

struct DomainAnalysis {
  DomainAnalysis(llvm::ArrayRef<Operation *> ops, llvm::ArrayRef<Value> outputs, FusionRefusal &why)
      : ops(ops), outputs(outputs), why(why) {}

  llvm::ArrayRef<Operation *> ops;
  llvm::ArrayRef<Value> outputs;
  FusionRefusal &why;
  FusionDomain domain;
  llvm::DenseMap<Value, DimLayout> layouts;
  llvm::SmallVector<Value, 16> order;  // values with a layout, as they got it
  size_t propagated = 0;               // how many of them have given their neighbours theirs
  bool mixed = false;                  // some reshape could not be followed

  bool refuse(Refusal reason, Operation *op) {
    why = {reason, op};
    return false;
  }

  //===-- Layouts -----------------------------------------------------------------------------===//

  void assign(Value value, const DimLayout &layout) {
    if (layouts.try_emplace(value, layout).second) order.push_back(value);
  }

  // Cuts an atom of extent outer * inner in two, everywhere.
  void split(int32_t atom, int64_t outer) {
    int32_t inner = domain.atoms_.size();
    domain.atoms_.push_back(domain.atoms_[atom] / outer);
    domain.atoms_[atom] = outer;
    for (auto &[value, layout] : layouts)
      for (auto &dim : layout)
        for (size_t i = 0; i < dim.size(); ++i)
          if (dim[i] == atom) dim.insert(dim.begin() + ++i, inner);
  }

  // The same atoms, in order, for another shape of as many elements. Atoms that lie across its dims are cut.
  std::optional<DimLayout> reflow(Value from, llvm::ArrayRef<int64_t> shape) {
    DimLayout result;
    size_t next = 0;
    for (int64_t size : shape) {
      auto &dim = result.emplace_back();
      int64_t left = size;
      while (left > 1) {
        Atoms atoms = flat(layouts[from]);  // again, since a split changes it
        if (next >= atoms.size()) return std::nullopt;
        int64_t extent = domain.atoms_[atoms[next]];
        if (extent > left) {
          if (extent % left) return std::nullopt;
          // What came before in this result must see the cut, too: it does not hold this atom yet.
          split(atoms[next], left);
          extent = left;
        } else if (left % extent) {
          return std::nullopt;
        }
        dim.push_back(atoms[next++]);
        left /= extent;
      }
    }
    return result;
  }

  std::optional<DimLayout> resultFromOperand(Operation *op, unsigned operand) {
    Value from = op->getOperand(operand);
    const DimLayout &layout = layouts[from];
    auto kind = mlir::cast<ir::WeftOp>(op).kind();
    if (kind == Kind::Elementwise) return layout;
    if (mlir::isa<ir::ReshapeOp>(op)) return reflow(from, shapeOf(op->getResult(0)));
    if (auto transpose = mlir::dyn_cast<ir::TransposeOp>(op)) {
      DimLayout result;
      for (int64_t dim : transpose.getPermutation()) result.push_back(layout[dim]);
      return result;
    }
    if (isReduce(op)) {
      DimLayout result;
      for (auto [i, dim] : llvm::enumerate(layout))
        if (!llvm::is_contained(reducedDims(op), static_cast<int64_t>(i))) result.push_back(dim);
      return result;
    }
    if (mlir::isa<ir::BroadcastOp>(op) && sizeOf(from) == sizeOf(op->getResult(0))) {
      DimLayout result(shapeOf(op->getResult(0)).size() - layout.size());
      result.append(layout.begin(), layout.end());
      return result;
    }
    return std::nullopt;
  }

  std::optional<DimLayout> operandFromResult(Operation *op, unsigned operand) {
    Value result = op->getResult(0), to = op->getOperand(operand);
    const DimLayout &layout = layouts[result];
    if (mlir::cast<ir::WeftOp>(op).kind() == Kind::Elementwise) return layout;
    if (mlir::isa<ir::ReshapeOp>(op)) return reflow(result, shapeOf(to));
    if (auto transpose = mlir::dyn_cast<ir::TransposeOp>(op)) {
      DimLayout from(layout.size());
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation())) from[dim] = layout[i];
      return from;
    }
    if (mlir::isa<ir::BroadcastOp>(op)) {
      DimLayout from;
      size_t lead = layout.size() - shapeOf(to).size();
      for (auto [i, size] : llvm::enumerate(shapeOf(to))) {
        from.emplace_back();
        if (size != 1) from.back() = layout[lead + i];
      }
      return from;
    }
    if (isReduce(op) && !isReduction(op)) {
      DimLayout from;
      size_t next = 0;
      for (int64_t i = 0, rank = shapeOf(to).size(); i < rank; ++i) {
        from.emplace_back();
        if (!llvm::is_contained(reducedDims(op), i)) from.back() = layout[next++];
      }
      return from;
    }
    if (mlir::isa<ir::GatherOp>(op) && operand == 1) return layout;
    if (auto select = mlir::dyn_cast<ir::IndexSelectOp>(op); select && operand == 1)
      return DimLayout(layout.begin() + select.getDim(), layout.begin() + select.getDim() + shapeOf(to).size());
    return std::nullopt;
  }

  void propagate(const llvm::DenseSet<Operation *> &members) {
    for (; propagated < order.size(); ++propagated) {
      Value value = order[propagated];
      Operation *producer = value.getDefiningOp();
      if (producer && members.contains(producer)) {
        for (unsigned k = 0; k < producer->getNumOperands(); ++k) {
          if (layouts.contains(producer->getOperand(k))) continue;
          if (auto layout = operandFromResult(producer, k)) assign(producer->getOperand(k), *layout);
          else mixed |= mlir::isa<ir::ReshapeOp>(producer);
        }
      }
      // Only uses inside: a value may have very many others.
      for (auto [user, operand] : uses.lookup(value)) {
        if (user->getNumResults() != 1 || layouts.contains(user->getResult(0))) continue;
        if (auto layout = resultFromOperand(user, operand)) assign(user->getResult(0), *layout);
        else mixed |= mlir::isa<ir::ReshapeOp>(user);
      }
    }
  }
  llvm::DenseMap<Value, llvm::SmallVector<std::pair<Operation *, unsigned>, 2>> uses;

  //===-- Roles -------------------------------------------------------------------------------===//

  enum class Depends { Nothing, Row, Post };
  llvm::DenseMap<Value, Depends> depends;

  bool nestRows = false; // rows of a nest, whose elements lie in several runs

  bool checkPositions();
  bool nestNeedsRows();
  bool nestMakesRows();
  void findRuns();
  bool classifyReductions();
  bool checkUses();
  bool checkOutputs();
  void mergeAtoms();
  bool alone();
  bool run();
};

// Counts at how many positions each value is computed: users in step with it share one, each slice, gather, concat or insert_slice brings
// those of its result.
bool DomainAnalysis::checkPositions() {
  llvm::DenseMap<Value, int64_t> positions;
  for (Operation *op : llvm::reverse(ops)) {
    auto kind = mlir::cast<ir::WeftOp>(op).kind();
    bool moves = mlir::isa<ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp, ir::WindowsOp>(op) || kind == Kind::Indexing;
    int64_t own = 1;
    if (op->getNumResults() == 1) own = std::max<int64_t>(1, positions.lookup(op->getResult(0)));
    if (own > kMaxPositions) return refuse(Refusal::ComputedTooOften, op);
    for (Value operand : op->getOperands()) {
      int64_t &at = positions[operand];
      at = moves ? at + own : std::max(at, own);
    }
  }
  return true;
}

// Whether more than elementwise ops on O reads a reduction of a nest: another reduction, or an output of all elements.
bool DomainAnalysis::nestNeedsRows() {
  llvm::DenseSet<Value> dependent;
  for (Operation *op : ops) {
    bool depends = llvm::any_of(op->getOperands(), [&](Value operand) { return dependent.contains(operand); });
    if (isReduction(op) && depends) return true;
    if (isReduction(op) || depends) dependent.insert(op->getResult(0));
  }
  return llvm::any_of(outputs, [&](Value output) {
    auto found = layouts.find(output);
    return found != layouts.end() && flat(found->second).size() == domain.outer_.size() + domain.inner_.size();
  });
}

// Whether the rows of a nest can be swept as others are: its reductions read one order of atoms, which ends with reduced ones, so that
// vectors lie along them. (Sizes that vary are leading ones, which such rows have inside.)
bool DomainAnalysis::nestMakesRows() {
  std::optional<Atoms> common;
  for (Operation *op : ops) {
    if (mlir::cast<RankedTensorType>(op->getResult(0).getType()).getEncoding()) return false;
    if (!isReduction(op)) continue;
    Atoms atoms = flat(layouts[op->getOperand(0)]);
    if (common && *common != atoms) return false;
    common = atoms;
  }
  return llvm::is_contained(domain.inner_, common->back());
}

// After mergeAtoms: the run is what the reductions' operands end with.
void DomainAnalysis::findRuns() {
  domain.run_ = domain.rowSize();
  if (!nestRows) return;
  Operation *op = *llvm::find_if(ops, isReduction);
  llvm::ArrayRef<int32_t> layout = domain.layouts_[op->getOperand(0)];
  domain.run_ = 1;
  for (int32_t atom : llvm::reverse(layout)) {
    if (!llvm::is_contained(domain.inner_, atom)) break;
    domain.run_ *= domain.atoms_[atom];
  }
}

// Finds O and I from the reductions.
bool DomainAnalysis::classifyReductions() {
  Atoms outer, inner;
  bool haveRows = false, haveCols = false, haveTotal = false, haveNest = false;
  Operation *totalOp = nullptr;
  auto readInside = [&](Operation *op) { return !uses.lookup(op->getResult(0)).empty(); };
  // Row reductions say what a row is; then everything else must fit.
  for (int pass = 0; pass < 2; ++pass) {
    for (Operation *op : ops) {
      if (!isReduction(op)) continue;
      auto found = layouts.find(op->getOperand(0));
      if (found == layouts.end()) return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::DifferentShapes, op);
      Atoms all = flat(found->second), reduced, kept;
      llvm::SmallVector<bool> isReduced;
      for (auto [i, dim] : llvm::enumerate(found->second)) {
        bool in = llvm::is_contained(reducedDims(op), static_cast<int64_t>(i));
        (in ? reduced : kept).append(dim.begin(), dim.end());
        isReduced.append(dim.size(), in);
      }
      bool trailing = llvm::is_sorted(isReduced), leading = llvm::is_sorted(llvm::reverse(isReduced));
      if (pass == 0) {
        if (kept.empty() || !trailing) continue;
        if (haveRows && (all.size() == outer.size() && Atoms(kept) != outer)) continue;  // over rows: pass 1
        if (haveRows && (kept != outer || reduced != inner)) {
          // The reduction of a Row value over all of O keeps nothing, so this one is another kind of row.
          return refuse(Refusal::DifferentRows, op);
        }
        haveRows = true;
        outer = kept;
        inner = reduced;
        continue;
      }
      if (haveRows && kept == outer && reduced == inner) continue;
      if (kept.empty()) {
        if (haveRows) {
          if (all != outer) return refuse(Refusal::DifferentRows, op);
          continue;  // of a Row value
        }
        if (haveCols || haveNest) return refuse(Refusal::DifferentRows, op);
        if (haveTotal && all != inner) return refuse(Refusal::DifferentRows, op);
        haveTotal = true;
        inner = all;
        if (readInside(op)) totalOp = op;
        continue;
      }
      if (leading && !haveNest && !haveTotal) {
        if ((haveRows || haveCols) && (reduced != outer || kept != inner)) return refuse(Refusal::DifferentRows, op);
        haveCols = true;
        outer = reduced;
        inner = kept;
        continue;
      }
      if (haveRows || haveCols || haveTotal) return refuse(Refusal::PartialReduction, op);
      if (haveNest && (outer != kept || inner != reduced)) return refuse(Refusal::DifferentRows, op);
      haveNest = true;
      outer = kept;
      inner = reduced;
    }
  }
  domain.outer_ = outer;
  domain.inner_ = inner;
  using Shape = FusionDomain::Shape;
  if (haveNest) {
    nestRows = nestNeedsRows() && nestMakesRows();
    domain.shape_ = nestRows ? Shape::Rows : Shape::Nest;
  } else if (haveTotal) {
    // Small enough for one thread: one row, whose scalars may be read again.
    if (totalOp && domain.rowSize() <= kLargestSingleRow) domain.shape_ = Shape::Rows;
    else domain.shape_ = Shape::Total;
  } else domain.shape_ = haveRows || haveCols ? Shape::Rows : Shape::Elementwise;
  return true;
}

// What depends on a reduction is read where it was computed, and nothing waits for all rows but what comes after them.
bool DomainAnalysis::checkUses() {
  using Shape = FusionDomain::Shape;
  for (Operation *op : ops) {
    if (op->getNumResults() != 1) return refuse(Refusal::NotFusible, op);
    Depends result = Depends::Nothing;
    bool anyRow = false, anyPost = false;
    for (auto [k, operand] : llvm::enumerate(op->getOperands())) {
      Depends on = depends.lookup(operand);
      anyRow |= on == Depends::Row;
      anyPost |= on == Depends::Post;
      if (on == Depends::Nothing) continue;
      bool moves = mlir::isa<ir::ReshapeOp, ir::TransposeOp, ir::BroadcastOp>(op) || isReduce(op);
      if (mlir::cast<ir::WeftOp>(op).kind() != Kind::Elementwise && !moves && !isReduction(op))
        return refuse(on == Depends::Post ? Refusal::ReadsAcrossRows : Refusal::ReadsReducedElsewhere, op);
      if (on == Depends::Post) {
        if (moves && !mlir::isa<ir::ReshapeOp>(op)) return refuse(Refusal::ReadsAcrossRows, op);
        if (isReduction(op)) return refuse(Refusal::ReadsAcrossRows, op);
        continue;
      }
      if (isReduction(op)) continue;
      if (!layouts.contains(op->getResult(0)) || !layouts.contains(operand)) return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::ReadsReducedElsewhere, op);
      auto expected = operandFromResult(op, k);
      if (!expected || !(*expected == layouts[operand])) return refuse(Refusal::ReadsReducedElsewhere, op);
    }
    if (anyRow && anyPost) return refuse(Refusal::ReadsAcrossRows, op);
    if (anyRow) result = Depends::Row;
    if (anyPost) result = Depends::Post;
    if (isReduction(op)) {
      Atoms kept = flat(layouts[op->getResult(0)]);
      bool isRow = domain.shape_ == Shape::Nest || (domain.shape_ == Shape::Rows && kept == Atoms(domain.outer_) &&
                                                    Atoms(flat(layouts[op->getOperand(0)])) != Atoms(domain.outer_));
      result = isRow ? Depends::Row : Depends::Post;
      if (anyRow && domain.shape_ == Shape::Nest) return refuse(Refusal::PartialReduction, op);
    }
    depends[op->getResult(0)] = result;
  }
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
    if (on == Depends::Post) continue;
    if (atoms == full) domain.roles_[value] = Role::Full;
    else if (atoms == outer) domain.roles_[value] = Role::Row;
  }
  for (Operation *op : ops)
    if (depends.lookup(op->getResult(0)) == Depends::Post) {
      Value value = op->getResult(0);
      auto found = layouts.find(value);
      if (found == layouts.end()) return refuse(Refusal::ReadsAcrossRows, op);
      domain.roles_[value] = found->second.empty() || flat(found->second).empty() ? Role::Scalar : Role::Col;
    }
  for (Value output : outputs) {
    Operation *op = output.getDefiningOp();
    Role role = domain.role(output);
    if (role == Role::Inline) return refuse(mixed ? Refusal::ReshapeMixesDims : Refusal::DifferentShapes, op);
    if (domain.shape_ == Shape::Nest && role != Role::Row) return refuse(Refusal::PartialReduction, op);
    // Without reductions, or with one over everything, nothing of a kernel runs once a row.
    bool hasRows = domain.shape_ != Shape::Total && domain.shape_ != Shape::Elementwise;
    if (!hasRows && role == Role::Row) return refuse(Refusal::DifferentShapes, op);
  }
  return true;
}

// Joins atoms that no value sees apart, so that loops are as long as they can be.
void DomainAnalysis::mergeAtoms() {
  llvm::SmallVector<Atoms, 16> lists;
  for (Value value : order) lists.push_back(flat(layouts[value]));
  auto adjacent = [&](int32_t x, int32_t y) {
    for (const Atoms &atoms : lists) {
      auto i = llvm::find(atoms, x), j = llvm::find(atoms, y);
      if (i == atoms.end() && j == atoms.end()) continue;
      if (i == atoms.end() || (j != atoms.end() && j != i + 1)) return false;
      // A value that is the same along y: it is loaded once a run, but runs of a few elements do not fill vectors.
      if (j == atoms.end() && domain.atoms_[y] >= kShortRun) return false;
    }
    return true;
  };
  auto merge = [&](llvm::SmallVector<int32_t, 6> &side) {
    // Innermost first, so that y is as long as it gets.
    for (size_t i = side.size(); i-- > 1;) {
      int32_t x = side[i - 1], y = side[i];
      if (!adjacent(x, y)) continue;
      domain.atoms_[x] *= domain.atoms_[y];
      for (Atoms &atoms : lists) atoms.erase(std::remove(atoms.begin(), atoms.end(), y), atoms.end());
      side.erase(side.begin() + i);
    }
  };
  if (domain.shape_ == FusionDomain::Shape::Elementwise) {
    // O and I are one list, cut after merging: the first output's innermost run is the row.
    Atoms all = flat(layouts[outputs.front()]);
    merge(all);
    domain.inner_.clear();
    if (!all.empty()) domain.inner_.push_back(all.pop_back_val());
    domain.outer_ = all;
  } else {
    merge(domain.outer_);
    merge(domain.inner_);
  }
  for (auto [value, atoms] : llvm::zip(order, lists)) domain.layouts_[value] = FusionDomain::Layout(atoms.begin(), atoms.end());
}

// One op with a schedule of its own: its operands may be computed on the way, if each element is used about once.
bool DomainAnalysis::alone() {
  Operation *op = *llvm::find_if(ops, isAlone);
  for (Operation *other : ops) {
    if (other == op) continue;
    if (isAlone(other) || isReduction(other)) return refuse(Refusal::Alone, other);
    if (mlir::isa<ir::MatmulOp>(op) && !mlir::isa<ir::ConstantOp>(other)) return refuse(Refusal::Alone, op);
  }
  if (outputs.size() != 1 || outputs[0] != op->getResult(0)) return refuse(Refusal::Alone, op);
  domain.shape_ = FusionDomain::Shape::Alone;
  return true;
}

bool DomainAnalysis::run() {
  if (static_cast<int64_t>(ops.size()) > kMaxFusionOps) return refuse(Refusal::TooLarge, ops.back());
  llvm::DenseSet<Operation *> members(ops.begin(), ops.end());
  Value hero;
  bool empty = false;
  auto consider = [&](Value value) {
    if (!hero || sizeOf(value) > sizeOf(hero)) hero = value;
  };
  for (Operation *op : ops) {
    if (Refusal refusal = FusionDomain::fusible(op); refusal != Refusal::None) return refuse(refusal, op);
    for (auto [k, operand] : llvm::enumerate(op->getOperands())) uses[operand].push_back({op, k});
    if (isReduction(op)) {
      consider(op->getOperand(0));
      empty |= sizeOf(op->getOperand(0)) == 0;
    }
  }
  if (llvm::any_of(ops, isAlone)) return alone();
  for (Value output : outputs) {
    consider(output);
    empty |= sizeOf(output) == 0;
  }
  if (!checkPositions()) return false;
  if (!hero) return refuse(Refusal::NotFusible, ops.empty() ? nullptr : ops.back());
  if (empty) {
    // The schedule of nothing knows reductions of nothing only.
    for (Operation *op : ops)
      if (isReduction(op) && sizeOf(op->getOperand(0)) != 0) return refuse(Refusal::DifferentShapes, op);
    domain.shape_ = FusionDomain::Shape::Empty;
    return true;
  }
  DimLayout layout;
  for (int64_t size : shapeOf(hero)) {
    layout.emplace_back();
    if (size == 1) continue;
    layout.back().push_back(domain.atoms_.size());
    domain.atoms_.push_back(size);
  }
  assign(hero, layout);
  propagate(members);
  // Ops that share nothing with the hero but its shape: the same elements at the same places. Single elements are at one place, whatever
  // their ranks.
  for (Value output : outputs) {
    if (layouts.contains(output)) continue;
    auto type = mlir::cast<RankedTensorType>(output.getType()), like = mlir::cast<RankedTensorType>(hero.getType());
    if (ir::dimsOf(type) == ir::dimsOf(like)) assign(output, DimLayout(layouts[hero]));
    else if (sizeOf(output) == 1 && sizeOf(hero) == 1) assign(output, DimLayout(type.getRank()));
    propagate(members);
  }
  if (!classifyReductions()) return false;
  if (domain.shape_ == FusionDomain::Shape::Elementwise) domain.inner_ = flat(layouts[hero]);
  if (!checkUses() || !checkOutputs()) return false;
  mergeAtoms();
  findRuns();
  return true;
}

std::optional<FusionDomain> FusionDomain::analyze(llvm::ArrayRef<Operation *> ops, llvm::ArrayRef<Value> outputs, FusionRefusal &why) {
  why = {};
  DomainAnalysis analysis(ops, outputs, why);
  if (!analysis.run()) return std::nullopt;
  return std::move(analysis.domain);
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

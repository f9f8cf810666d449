// Where the elements of each value lie: layouts as atoms, carried from value to value through the
// ops between them.
#include "compiler/fusion/DomainAnalysis.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {

using namespace mlir;

using ir::Kind;

Atoms flat(const DimLayout &layout) {
  Atoms atoms;
  for (auto &dim : layout)
    atoms.append(dim.begin(), dim.end());
  return atoms;
}

// Cuts an atom of extent outer * inner in two, everywhere.
void DomainAnalysis::split(int32_t atom, int64_t outer) {
  int32_t inner = domain.atoms_.size();
  domain.atoms_.push_back(domain.atoms_[atom] / outer);
  domain.atoms_[atom] = outer;
  for (auto &[value, layout] : layouts)
    for (auto &dim : layout)
      for (size_t i = 0; i < dim.size(); ++i)
        if (dim[i] == atom)
          dim.insert(dim.begin() + ++i, inner);
}

// Whether operands and results stand at the same positions of the dim, at each point.
static bool isInStep(const ir::IndexDim &dim) {
  return dim.purpose == ir::Purpose::Parallel || dim.purpose == ir::Purpose::Reduced;
}

// The layout of a tensor from that of another one of the same op: the atoms of each dim of the
// first are those of the statement's dims that make it, which then make the dims of the other.
// Atoms that lie across such dims are cut. Nothing where the first leaves a dim open, or positions
// leave elements out (slices, windows, data).
std::optional<DimLayout> DomainAnalysis::follow(const ir::IndexStatement &statement, Value from,
                                                const ir::Positions &fromPositions, Value to,
                                                const ir::Positions &toPositions) {
  SmallVector<SmallVector<int32_t, 2>, 6> atomsOf(statement.dims.size());
  SmallVector<bool, 6> known(statement.dims.size());
  for (auto [i, dim] : llvm::enumerate(statement.dims))
    known[i] = dim.size.isOne() && isInStep(dim);
  for (auto [i, size] : llvm::enumerate(shapeOf(from))) {
    auto digits = ir::digitsOf(statement, fromPositions[i], size);
    if (!digits)
      return std::nullopt;
    size_t next = 0;
    for (int32_t digit : *digits) {
      known[digit] = isInStep(statement.dims[digit]);
      for (int64_t left = statement.dims[digit].size.size; left > 1;) {
        int32_t atom = layouts[from][i][next]; // again, since a split changes it
        int64_t extent = domain.atoms_[atom];
        if (extent > left) {
          if (extent % left)
            return std::nullopt;
          // The atoms that are taken already do not hold this one.
          split(atom, left);
          extent = left;
        } else if (left % extent) {
          return std::nullopt;
        }
        atomsOf[digit].push_back(atom);
        ++next;
        left /= extent;
      }
    }
  }
  DimLayout result;
  for (auto [position, size] : llvm::zip_equal(toPositions, shapeOf(to))) {
    auto digits = ir::digitsOf(statement, position, size);
    if (!digits || !llvm::all_of(*digits, [&](int32_t digit) { return known[digit]; }))
      return std::nullopt;
    auto &dim = result.emplace_back();
    for (int32_t digit : *digits)
      dim.append(atomsOf[digit].begin(), atomsOf[digit].end());
  }
  return result;
}

// Where parts of a value lie is followSlices' to say.
static std::optional<ir::IndexStatement> followed(Operation *op) {
  if (isa<ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp>(op))
    return std::nullopt;
  return ir::statementOf(op);
}
std::optional<DimLayout> DomainAnalysis::resultFromOperand(Operation *op, unsigned operand) {
  if (cast<ir::WeftOp>(op).kind() == Kind::Elementwise)
    return layouts[op->getOperand(operand)];
  auto statement = followed(op);
  if (!statement)
    return std::nullopt;
  return follow(*statement, op->getOperand(operand), statement->operands[operand], op->getResult(0),
                statement->results[0]);
}
std::optional<DimLayout> DomainAnalysis::operandFromResult(Operation *op, unsigned operand) {
  if (cast<ir::WeftOp>(op).kind() == Kind::Elementwise)
    return layouts[op->getResult(0)];
  auto statement = followed(op);
  if (!statement)
    return std::nullopt;
  return follow(*statement, op->getResult(0), statement->results[0], op->getOperand(operand),
                statement->operands[operand]);
}

void DomainAnalysis::propagate(const DenseSet<Operation *> &members) {
  for (; propagated < order.size(); ++propagated) {
    Value value = order[propagated];
    Operation *producer = value.getDefiningOp();
    if (producer && members.contains(producer)) {
      for (unsigned k = 0; k < producer->getNumOperands(); ++k) {
        if (layouts.contains(producer->getOperand(k)))
          continue;
        if (auto layout = operandFromResult(producer, k))
          assign(producer->getOperand(k), *layout);
        else
          mixed |= isa<ir::ReshapeOp>(producer);
      }
    }
    // Only uses by ops of the fusion: a value may have very many other uses.
    for (auto [user, operand] : uses.lookup(value)) {
      if (user->getNumResults() != 1 || layouts.contains(user->getResult(0)))
        continue;
      if (auto layout = resultFromOperand(user, operand))
        assign(user->getResult(0), *layout);
      else
        mixed |= isa<ir::ReshapeOp>(user);
    }
  }
}

// Gives layouts to slices of values that have one, and to the bases that such values are inserted
// into. A dim that is taken whole keeps its atoms; any other dim gets an atom of its own.
void DomainAnalysis::followSlices(const DenseSet<Operation *> &members) {
  for (Operation *op : ops) {
    auto slice = dyn_cast<ir::SliceOp>(op);
    auto insert = dyn_cast<ir::InsertSliceOp>(op);
    if ((!slice && !insert) || layouts.contains(op->getResult(0)))
      continue;
    Value from = slice ? slice.getInput() : insert.getUpdate();
    auto found = layouts.find(from);
    if (found == layouts.end())
      continue;
    ArrayRef<int64_t> steps = slice ? slice.getSteps() : insert.getSteps();
    DimLayout layout;
    for (auto [dim, size, before, step] :
         llvm::zip(found->second, shapeOf(op->getResult(0)), shapeOf(from), steps)) {
      // The slice has as many elements along this dim as its operand, in the same order: it takes
      // the whole dim.
      if (size == before && step > 0) {
        layout.push_back(dim);
        continue;
      }
      layout.emplace_back();
      if (size == 1)
        continue;
      layout.back().push_back(domain.atoms_.size());
      domain.atoms_.push_back(size);
    }
    assign(op->getResult(0), layout);
    propagate(members);
  }
}

// What a reduction gave, and what is computed from that, lies where its operand says. A value got
// its layout from whichever neighbour had one first, which may be an input that is read at other
// positions as well: [n] by rows and by columns of [n, n].
void DomainAnalysis::settleReduced() {
  DenseSet<Value> reduced;
  for (Operation *op : ops) {
    if (op->getNumResults() != 1)
      continue;
    Value result = op->getResult(0);
    bool isSettled = false;
    for (auto [k, operand] : llvm::enumerate(op->getOperands())) {
      if (!isReduction(op) && !reduced.contains(operand))
        continue;
      reduced.insert(result);
      if (isSettled || !layouts.contains(operand))
        continue;
      if (auto layout = resultFromOperand(op, k)) {
        assign(result, *layout);
        layouts[result] = *std::move(layout);
        isSettled = true;
      }
    }
  }
}

// Joins atoms that no value sees apart, so that loops are as long as they can be.
void DomainAnalysis::mergeAtoms() {
  SmallVector<Atoms, 16> lists;
  for (Value value : order)
    lists.push_back(flat(layouts[value]));
  Atoms kept(domain.kept_.begin(), domain.kept_.end());
  auto adjacent = [&](int32_t x, int32_t y) {
    // A value of slices of rows has the one in full and of the other only a part.
    if (llvm::is_contained(kept, x) != llvm::is_contained(kept, y) ||
        llvm::is_contained(domain.near_, x) != llvm::is_contained(domain.near_, y))
      return false;
    for (const Atoms &atoms : lists) {
      auto i = llvm::find(atoms, x), j = llvm::find(atoms, y);
      if (i == atoms.end() && j == atoms.end())
        continue;
      if (i == atoms.end() || (j != atoms.end() && j != i + 1))
        return false;
      // This value does not vary along y. A run of its own lets it be loaded once a run; but a run
      // of a few elements does not fill a vector, so that short ones are merged all the same.
      if (j == atoms.end() && domain.atoms_[y] >= kShortRun)
        return false;
    }
    return true;
  };
  auto merge = [&](SmallVector<int32_t, 6> &side) {
    // Innermost first, so that y is as long as it gets.
    for (size_t i = side.size(); i-- > 1;) {
      int32_t x = side[i - 1], y = side[i];
      if (!adjacent(x, y))
        continue;
      domain.atoms_[x] *= domain.atoms_[y];
      for (Atoms &atoms : lists)
        atoms.erase(std::remove(atoms.begin(), atoms.end(), y), atoms.end());
      llvm::erase(domain.near_, y);
      side.erase(side.begin() + i);
    }
  };
  if (domain.shape_ == FusionDomain::Shape::Elementwise) {
    // O and I are merged as one list, and cut afterwards: the first output's innermost run is the
    // row.
    Atoms all = flat(layouts[outputs.front()]);
    merge(all);
    domain.inner_.clear();
    if (!all.empty())
      domain.inner_.push_back(all.pop_back_val());
    domain.outer_ = all;
  } else {
    merge(domain.outer_);
    merge(domain.inner_);
  }
  domain.kept_.clear();
  for (ArrayRef<int32_t> side : {ArrayRef(domain.outer_), ArrayRef(domain.inner_)})
    llvm::copy_if(side, std::back_inserter(domain.kept_),
                  [&](int32_t atom) { return llvm::is_contained(kept, atom); });
  for (auto [value, atoms] : llvm::zip(order, lists))
    domain.layouts_[value] = FusionDomain::Layout(atoms.begin(), atoms.end());
}

} // namespace weft::compiler

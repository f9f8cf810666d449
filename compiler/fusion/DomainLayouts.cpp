// Where the elements of each value lie: layouts as atoms, carried from value to value through the
// ops between them.
#include "compiler/fusion/DomainAnalysis.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {

using ir::Kind;
using mlir::Operation;
using mlir::Value;

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

// The same atoms, in order, for another shape of as many elements. Atoms that lie across its dims
// are cut.
std::optional<DimLayout> DomainAnalysis::reflow(Value from, llvm::ArrayRef<int64_t> shape) {
  DimLayout result;
  size_t next = 0;
  for (int64_t size : shape) {
    auto &dim = result.emplace_back();
    int64_t left = size;
    while (left > 1) {
      Atoms atoms = flat(layouts[from]); // again, since a split changes it
      if (next >= atoms.size())
        return std::nullopt;
      int64_t extent = domain.atoms_[atoms[next]];
      if (extent > left) {
        if (extent % left)
          return std::nullopt;
        // The part of the result that is made already must see the cut, too: it does not hold this
        // atom yet.
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

std::optional<DimLayout> DomainAnalysis::resultFromOperand(Operation *op, unsigned operand) {
  Value from = op->getOperand(operand);
  const DimLayout &layout = layouts[from];
  auto kind = mlir::cast<ir::WeftOp>(op).kind();
  if (kind == Kind::Elementwise)
    return layout;
  if (mlir::isa<ir::ReshapeOp>(op))
    return reflow(from, shapeOf(op->getResult(0)));
  if (auto transpose = mlir::dyn_cast<ir::TransposeOp>(op)) {
    DimLayout result;
    for (int64_t dim : transpose.getPermutation())
      result.push_back(layout[dim]);
    return result;
  }
  if (isReduce(op)) {
    DimLayout result;
    for (auto [i, dim] : llvm::enumerate(layout))
      if (!llvm::is_contained(reducedDims(op), static_cast<int64_t>(i)))
        result.push_back(dim);
    return result;
  }
  if (mlir::isa<ir::BroadcastOp>(op) && sizeOf(from) == sizeOf(op->getResult(0))) {
    DimLayout result(shapeOf(op->getResult(0)).size() - layout.size());
    result.append(layout.begin(), layout.end());
    return result;
  }
  return std::nullopt;
}

std::optional<DimLayout> DomainAnalysis::operandFromResult(Operation *op, unsigned operand) {
  Value result = op->getResult(0), to = op->getOperand(operand);
  const DimLayout &layout = layouts[result];
  if (mlir::cast<ir::WeftOp>(op).kind() == Kind::Elementwise)
    return layout;
  if (mlir::isa<ir::ReshapeOp>(op))
    return reflow(result, shapeOf(to));
  if (auto transpose = mlir::dyn_cast<ir::TransposeOp>(op)) {
    DimLayout from(layout.size());
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      from[dim] = layout[i];
    return from;
  }
  if (mlir::isa<ir::BroadcastOp>(op)) {
    DimLayout from;
    size_t lead = layout.size() - shapeOf(to).size();
    for (auto [i, size] : llvm::enumerate(shapeOf(to))) {
      from.emplace_back();
      if (size != 1)
        from.back() = layout[lead + i];
    }
    return from;
  }
  if (isReduce(op) && !isReduction(op)) {
    DimLayout from;
    size_t next = 0;
    for (int64_t i = 0, rank = shapeOf(to).size(); i < rank; ++i) {
      from.emplace_back();
      if (!llvm::is_contained(reducedDims(op), i))
        from.back() = layout[next++];
    }
    return from;
  }
  if (mlir::isa<ir::GatherOp>(op) && operand == 1)
    return layout;
  if (auto select = mlir::dyn_cast<ir::IndexSelectOp>(op); select && operand == 1)
    return DimLayout(layout.begin() + select.getDim(),
                     layout.begin() + select.getDim() + shapeOf(to).size());
  return std::nullopt;
}

void DomainAnalysis::propagate(const llvm::DenseSet<Operation *> &members) {
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
          mixed |= mlir::isa<ir::ReshapeOp>(producer);
      }
    }
    // Only uses by ops of the fusion: a value may have very many other uses.
    for (auto [user, operand] : uses.lookup(value)) {
      if (user->getNumResults() != 1 || layouts.contains(user->getResult(0)))
        continue;
      if (auto layout = resultFromOperand(user, operand))
        assign(user->getResult(0), *layout);
      else
        mixed |= mlir::isa<ir::ReshapeOp>(user);
    }
  }
}

// Gives layouts to slices of values that have one, and to the bases that such values are inserted
// into. A dim that is taken whole keeps its atoms; any other dim gets an atom of its own.
void DomainAnalysis::followSlices(const llvm::DenseSet<Operation *> &members) {
  for (Operation *op : ops) {
    auto slice = mlir::dyn_cast<ir::SliceOp>(op);
    auto insert = mlir::dyn_cast<ir::InsertSliceOp>(op);
    if ((!slice && !insert) || layouts.contains(op->getResult(0)))
      continue;
    Value from = slice ? slice.getInput() : insert.getUpdate();
    auto found = layouts.find(from);
    if (found == layouts.end())
      continue;
    llvm::ArrayRef<int64_t> steps = slice ? slice.getSteps() : insert.getSteps();
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

// Joins atoms that no value sees apart, so that loops are as long as they can be.
void DomainAnalysis::mergeAtoms() {
  llvm::SmallVector<Atoms, 16> lists;
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
  auto merge = [&](llvm::SmallVector<int32_t, 6> &side) {
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
  for (llvm::ArrayRef<int32_t> side :
       {llvm::ArrayRef(domain.outer_), llvm::ArrayRef(domain.inner_)})
    llvm::copy_if(side, std::back_inserter(domain.kept_),
                  [&](int32_t atom) { return llvm::is_contained(kept, atom); });
  for (auto [value, atoms] : llvm::zip(order, lists))
    domain.layouts_[value] = FusionDomain::Layout(atoms.begin(), atoms.end());
}

} // namespace weft::compiler

// The analysis behind FusionDomain::analyze, shared by the files that hold its parts:
// DomainLayouts.cpp (where the elements of each value lie), DomainReductions.cpp (what a row is)
// and FusionDomain.cpp (the rest, in the order of `run`).
#pragma once

#include <optional>

#include "compiler/fusion/FusionDomain.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// Elements of a run below which it is no loop of its own: a vector has 16.
inline constexpr int64_t kShortRun = 16;

// The atoms of each dim of a value, outermost first; none for a dim of size 1.
using DimLayout = llvm::SmallVector<llvm::SmallVector<int32_t, 2>, 4>;
using Atoms = llvm::SmallVector<int32_t, 6>;

inline int64_t sizeOf(mlir::Value value) {
  return ir::typeOf(value).getNumElements();
}
Atoms flat(const DimLayout &layout);
inline bool isReduce(mlir::Operation *op) {
  return mlir::cast<ir::WeftOp>(op).kind() == ir::Kind::Reduction;
}
// Of any op of that kind: the verifier asks it of all (ir::verifyKind).
inline llvm::ArrayRef<int64_t> reducedDims(mlir::Operation *op) {
  return op->getAttrOfType<mlir::DenseI64ArrayAttr>("dims").asArrayRef();
}

struct DomainAnalysis {
  DomainAnalysis(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> outputs,
                 FusionRefusal &why)
      : ops(ops), outputs(outputs), why(why) {}

  llvm::ArrayRef<mlir::Operation *> ops;
  llvm::ArrayRef<mlir::Value> outputs;
  FusionRefusal &why;
  FusionDomain domain;
  llvm::DenseMap<mlir::Value, DimLayout> layouts;
  llvm::SmallVector<mlir::Value, 16> order; // values with a layout, as they got it
  size_t propagated = 0;                    // how many of them have given their neighbours theirs
  bool mixed = false;                       // some reshape could not be followed
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<mlir::Operation *, unsigned>, 2>> uses;

  bool refuse(Refusal reason, mlir::Operation *op) {
    why = {reason, op};
    return false;
  }

  // DomainLayouts.cpp
  void assign(mlir::Value value, const DimLayout &layout) {
    if (layouts.try_emplace(value, layout).second)
      order.push_back(value);
  }
  void split(int32_t atom, int64_t outer);
  std::optional<DimLayout> follow(const ir::IndexStatement &statement, mlir::Value from,
                                  const ir::Positions &fromPositions, mlir::Value to,
                                  const ir::Positions &toPositions);
  std::optional<DimLayout> resultFromOperand(mlir::Operation *op, unsigned operand);
  std::optional<DimLayout> operandFromResult(mlir::Operation *op, unsigned operand);
  void followSlices(const llvm::DenseSet<mlir::Operation *> &members);
  void propagate(const llvm::DenseSet<mlir::Operation *> &members);
  void settleReduced();
  void mergeAtoms();

  // DomainReductions.cpp
  bool anyBehindReduction(llvm::function_ref<bool(mlir::Operation *)> holds);
  bool hasAllAtoms(mlir::Value value);
  bool nestNeedsRows();
  bool readsSums();
  bool nestMakesRows();
  void findRuns();
  struct Fold;
  bool fold(mlir::Operation *op, Fold &result);
  bool makesPart(const Fold &fold, llvm::ArrayRef<int32_t> outer, llvm::ArrayRef<int32_t> inner,
                 mlir::Operation *op);
  bool findRows(Atoms &outer, Atoms &inner, bool &found);
  bool classifyReductions();
  bool nestRows = false;   // rows of a nest, whose elements lie in several runs
  bool sideBySide = false; // the same, each run of which is one element: rows lie side by side

  // FusionDomain.cpp. What a value waits for: for a row's reductions, or for all rows.
  enum class Depends { Nothing, Row, Post };
  llvm::DenseMap<mlir::Value, Depends> depends;
  bool checkPositions();
  bool staysInRow(mlir::Operation *op, mlir::Value operand);
  bool isNear(mlir::Value output);
  bool liesWith(mlir::Operation *op, unsigned operand);
  bool checkUses();
  bool checkOutputs();
  bool alone();
  bool needsSlices();
  bool run();
};

} // namespace weft::compiler

// Which op of a kernel over rows runs in which sweep over a row, and which outputs may take an
// input's buffer: what the schedules of all backends ask first.
#pragma once

#include "compiler/codegen/Schedule.h"
#include "mlir/IR/TypeUtilities.h"

namespace weft::compiler {

// Reductions, by the role of what they give, and outputs, by their number.
struct Sweep {
  llvm::SmallVector<mlir::Operation *> reductions, columns,
      totals;                                     // Row, Col, and Total over Full values
  llvm::SmallVector<mlir::Operation *> rowTotals; // Scalar over Row values
  llvm::SmallVector<mlir::Operation *> parts;     // Part over Full values: all in the last sweep
  llvm::SmallVector<int64_t> stores, rowStores;   // outputs: Full, Row
};

// A row is swept once for each level: level 0 depends on no reduction of rows, level n + 1 on those
// of level n.
struct Sweeps {
  explicit Sweeps(KernelBuilder &kernel);

  KernelBuilder &kernel;
  const FusionDomain &domain;
  std::vector<Sweep> sweeps;
  llvm::SmallVector<int64_t> nearStores; // outputs: Near
  int64_t lastLevel = 0;
  bool hasColumns = false, hasRows = false, hasParts = false;

  int64_t level(mlir::Value value) const {
    return levels_.lookup(value);
  }
  static mlir::Type elementOf(mlir::Value value) {
    return mlir::getElementTypeOrSelf(value.getType());
  }
  llvm::SmallVector<mlir::linalg::GenericOp>
  generics(llvm::ArrayRef<mlir::Operation *> reductions) const;

  // An element, or a vector of them, that goes to an output.
  struct Stored {
    int64_t output;
    mlir::Value value;
    Index place;
  };
  // Those of some outputs where the atoms are: to be stored once all is read that may lie in their
  // buffers.
  llvm::SmallVector<Stored, 1> compute(KernelFunction &f, llvm::ArrayRef<int64_t> outputs,
                                       llvm::ArrayRef<Index> atoms, mlir::Value mask = nullptr);
  void store(KernelFunction &f, llvm::ArrayRef<Stored> values, mlir::Value mask = nullptr);

  // Watches the reads of inputs while a sweep of `level` is emitted at `atoms`. Behind the last
  // level no output's store is in step with them.
  void trackReads(KernelFunction &f, int64_t level, llvm::ArrayRef<Index> atoms);
  void trackOtherReads(KernelFunction &f) {
    trackReads(f, lastLevel + 1, {});
  }
  // Whether all reads of the input so far were at the output's position, no later than its store.
  bool &inStep(int64_t output, int64_t input) {
    return inStep_.try_emplace({output, input}, true).first->second;
  }
  // Notes the pairs of which that holds once all is emitted, and whose elements are as wide.
  void noteInPlace();

private:
  llvm::DenseMap<mlir::Value, int64_t> levels_;
  llvm::DenseMap<std::pair<int64_t, int64_t>, bool> inStep_;
};

} // namespace weft::compiler

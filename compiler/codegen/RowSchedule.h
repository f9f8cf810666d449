// The schedule of a kernel over rows, shared by the files that emit its parts: RowSchedule.cpp
// (what each sweep does; bodies and finish), RowColumns.cpp (reductions over rows), RowNear.cpp
// (slices of rows), RowParts.cpp (reductions of parts of rows), RowPlan.cpp (which memory sweeps
// share), RowBodies.cpp (which body the kernel gets), RowPrefetch.cpp (what sweeps ask for ahead),
// RowTiles.cpp (elementwise bodies with transposed inputs), RowTurned.cpp (bodies with reductions
// and such inputs), RowLanes.cpp (bodies of rows that lie side by side), RowsTogether.cpp (bodies
// of rows that read the same elements), RowPairs.cpp (bodies of rows that are pairs) and
// ShortRows.cpp (bodies with rows of up to a vector).
#pragma once

#include "compiler/codegen/Sweeps.h"

namespace weft::compiler {

struct RowSchedule : Sweeps {
  using Role = FusionDomain::Role;
  using Sweeps::Sweeps;

  bool random = false;
  struct Kept {
    int64_t offset, level; // in scratch; the sweep that computes it
  };
  llvm::MapVector<mlir::Value, Kept> kept;
  bool keepsAt(int64_t level) const {
    return llvm::any_of(kept, [&](const auto &entry) { return entry.second.level == level; });
  }
  // In scratch, of Col reductions whose chunks have more rows than one accumulator takes: the
  // totals (KernelFunction::noTotals).
  llvm::DenseMap<mlir::Operation *, std::array<int64_t, 2>> columnTotals;
  int64_t scratchRows = 1; // whose kept values wait in scratch at a time
  // Rows of a piece, and pieces. With Col reductions chunks begin where pieces do, and one piece
  // may have several of them (largestChunk).
  int64_t pieceRows = 1, rowPieces = 1;
  int64_t chunks = 1, unroll = 1;
  int64_t laneWidth = 0; // rows that lie side by side in a piece of Body::Lanes
  // Of Body::Turned: the atom of O along which inputs are turned, the rows of a piece, and where
  // the row that is being swept begins in the scratch of these inputs, which are kept from
  // kTurnedLevel on, before the first sweep.
  static constexpr int64_t kTurnedLevel = -1;
  int32_t turned = -1;
  int64_t turnedRows = 0;
  Index turnedRow;
  // Of Body::Pairs: what is turned, and where in scratch.
  llvm::SmallVector<std::pair<mlir::BlockArgument, int64_t>> paired;

  // The loops that go over the positions; the choice "body" has these names.
  enum class Body {
    Run,
    RowBlocks,
    Tiles,
    Totals,
    Columns,
    Lanes,
    Turned,
    ShortRows,
    RowGroups,
    RowsTogether,
    Pairs,
    Rows
  };
  Body body = Body::Rows;

  // What sweeps ask for ahead of its use.
  struct Ahead {
    mlir::Value value;
    int64_t number, level; // of the input or output; the sweep that asks
    bool isOutput;
  };
  llvm::SmallVector<Ahead> ahead;
  int64_t rowsAhead = 0; // of inputs

  void plan();
  void chooseBody();
  void planScratch();
  int64_t paddedRow() const;
  int64_t scratchElements() const;
  int64_t paddedColumns() const {
    return roundUp(domain.rowSize(), kLanes);
  }
  void planPartials();
  void planPrefetch();
  void prefetch(KernelFunction &f, int64_t level, const Index &row,
                const KernelFunction::Unit &unit);
  llvm::SmallVector<Stored, 1> computeFull(KernelFunction &f, int64_t level,
                                           const KernelFunction::Unit &unit, const Index &row);
  void storeFull(KernelFunction &f, int64_t level, llvm::ArrayRef<KernelFunction::Unit> units,
                 const Index &row);
  // One row, all sweeps.
  void oneRow(KernelFunction &f, const Index &row, const Index *chunk);
  // A row of kLanes that are swept one after another, level by level, and whose sums are folded
  // together.
  struct Grouped {
    Index number; // of the row in its group
    llvm::SmallVector<mlir::Value, 4>
        unfolded; // for each reduction of the sweep a buffer of kLanes x kLanes
  };
  void sweepRow(KernelFunction &f, int64_t level, const Index &row, const Index *chunk,
                const Grouped *grouped = nullptr);
  void storeRows(KernelFunction &f, const Sweep &sweep, const Index &row);
  // Of the row, or rows in lanes, whose atoms are given.
  void storeRows(KernelFunction &f, const Sweep &sweep, const Index &row,
                 llvm::ArrayRef<Index> atoms, mlir::Value mask);
  // scratchRow: where position 0 of the unit's run is in scratch.
  void keepOrKnow(KernelFunction &f, int64_t level, const KernelFunction::Unit &unit,
                  llvm::ArrayRef<Index> atoms, const Index &scratchRow = Index::of(0));
  void forgetKept(KernelFunction &f);
  // The result of a Row reduction at a row, or at one in each lane.
  void knowSum(KernelFunction &f, mlir::Operation *op, const Index &row,
               std::function<mlir::Value()> sum);
  // Runs of a row that Part reductions fold.
  int64_t partsOfRow() const {
    return domain.rowSize() / domain.partRun();
  }
  void sweepParts(KernelFunction &f, int64_t level, const Index &row);
  void storeOutputs(KernelFunction &f, Role role, llvm::ArrayRef<Index> atoms, mlir::Value mask);
  void finishParts(KernelFunction &f);
  void storeNear(KernelFunction &f, const Index &row);
  mlir::LogicalResult emitBody();
  mlir::LogicalResult emitLinear();
  llvm::SmallVector<KernelFunction::Unit, 4> vectorsOf(KernelFunction &f,
                                                       const Index &round) const;
  bool readsMemoryThatEnds() const;
  mlir::LogicalResult emitSizedLinear();
  mlir::LogicalResult emitRowBlocks();
  mlir::LogicalResult emitTiles(int32_t along);
  void eachColumn(
      KernelFunction &f,
      llvm::function_ref<void(mlir::Operation *, const KernelFunction::Unit &)> emit);
  // Whether the chunks of Col reductions have more rows than one accumulator takes.
  bool hasColumnTotals() const;
  void eachChain(KernelFunction &f, mlir::Value first, mlir::Value last,
                 llvm::function_ref<void(mlir::Value, mlir::Value)> emit);
  void eachChunk(KernelFunction &f, const Index &piece,
                 llvm::function_ref<void(const Index &)> emit);
  std::pair<mlir::Value, mlir::Value> boundsOf(KernelFunction &f, const Index &chunk);
  void rowsOfChunk(KernelFunction &f, const Index &chunk);
  bool hasFewColumns() const;
  int64_t narrowColumns(mlir::Value argument) const;
  bool hasNarrowRows() const;
  KernelFunction::State narrowChains(KernelFunction &f, mlir::Value from);
  void fewColumnsOfChunk(KernelFunction &f, const Index &chunk);
  int64_t columnBlock() const;
  void columnsOfChunk(KernelFunction &f, const Index &chunk, int64_t size, const Index &base);
  void addRows(KernelFunction &f, const Index &chunk, const Index &first, int64_t count,
               int64_t size, const Index &base);
  mlir::LogicalResult emitRows();
  bool canGroup() const;
  bool hasManyGroups() const;
  bool canTransposeRows() const;
  int64_t groupedLine() const;
  bool canGroupRows() const;
  bool paysToGroupRows() const;
  int64_t groupBytes() const;
  void rowGroup(KernelFunction &f, const Index &first);
  void transposeReads(KernelFunction &f, mlir::BlockArgument argument);
  mlir::Value foldTogether(KernelFunction &f, mlir::linalg::GenericOp reduction,
                           llvm::SmallVector<mlir::Value> lanes);
  void sweepGroup(KernelFunction &f, const Index &first);
  mlir::LogicalResult emitGroups();
  bool hasLoneSums() const;
  llvm::SmallVector<int64_t> countsTogether() const;
  int64_t rowsTogether() const;
  void sweepTogether(KernelFunction &f, llvm::ArrayRef<Index> rows);
  mlir::LogicalResult emitTogether(int64_t count);
  int64_t foldedOps() const;
  llvm::SmallVector<mlir::BlockArgument> pairedInputs() const;
  int64_t pairedBytes(mlir::BlockArgument argument) const;
  int64_t pairedPieces(int64_t rows) const;
  bool paysToPair() const;
  void turnPairs(KernelFunction &f, llvm::MutableArrayRef<Index> atoms, const Index &first,
                 int64_t count);
  void sweepPair(KernelFunction &f, llvm::MutableArrayRef<Index> atoms, mlir::Value mask);
  mlir::LogicalResult emitPairs();
  mlir::LogicalResult emitColumns();
  void chooseLanes();
  bool isCrowded(mlir::Value value) const;
  void sweepLanes(KernelFunction &f, llvm::ArrayRef<int32_t> others, const Index &other,
                  const Index &base, llvm::ArrayRef<KernelFunction::Unit> units);
  mlir::LogicalResult emitLanes();
  bool liesAcross(mlir::Value value, int32_t along) const;
  int32_t turnedAtom() const;
  int64_t turnedStride() const;
  int64_t turnedBytes(int32_t along) const;
  void planTurned();
  void turnRows(KernelFunction &f, llvm::MutableArrayRef<Index> atoms, const Index &first,
                int64_t count);
  mlir::LogicalResult emitTurned();
  mlir::LogicalResult emitTotals();
  mlir::LogicalResult emitFinish();
  // Whether the length of rows is a size that varies: of the kernel's only one, or of several, of
  // which it is told (LengthSizes.h).
  bool isSizedRow() const {
    return !kernel.sizes.lengthDims.empty() ||
           (kernel.sizes && domain.shape() == FusionDomain::Shape::Rows && domain.outer().empty());
  }
  mlir::Value rowEnd; // where such rows end
  std::pair<mlir::Value, mlir::Value> pieces(KernelFunction &f);
  mlir::LogicalResult run();
};

} // namespace weft::compiler

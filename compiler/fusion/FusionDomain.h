// The domain that the ops of one kernel share, or the named reason why they have none.
//
// A kernel runs over rows. Its domain is O x I: outer dims, which run in parallel, and inner dims,
// which make one row. Reshapes and transposes between the ops cut dims into `atoms`, the coarsest
// pieces of which every dim is made. A row need not lie together: for batch_norm over [N, C, H, W]
// the rows are the channels, each of N runs of H * W elements.
//
// Every value of the fusion has one role. The role says at which positions the value exists:
//   Full    O x I, in some order of the atoms
//   Row     O: a reduction over I, and what is computed from such reductions
//   Col     I: a reduction over O
//   Scalar  none: a reduction over everything
//   Part    some of O and the leading dims of I: a reduction over the rest. Example: the
//           gradient of group_norm's weight, a number a channel, where the rows are the
//           groups of each sample
//   Near    O and dims of its own: elementwise on slices of a row's Full values. Example:
//           the maxima over windows of a row that was normalised. A Near value is an output,
//           or only Near values are computed from it; no reduction reads it
//   Inline  computed wherever it is needed (the operand of a slice or a gather, a broadcast
//           row); it must not depend on a reduction
// Col, Part and Scalar values are cross-row: they, and what is computed from them, exist only after
// all rows are done. Nothing Full or Row may read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

using ir::shapeOf;

// Why ops do not become one kernel. refusalText gives the sentence that reports print, behind
// refusalName: "reads-across-rows".
enum class Refusal {
  None,
  NotFusible,       // a composite, a structure op, or one whose record has no lowering
  NoSchedule,       // of a kind that has schedules for Weft's own ops alone (lacksSchedule)
  SeveralResults,   // kernels compute one value for each op: layouts go from op to op by its result
  Alone,            // an op that codegen only builds as a kernel of its own (matmul, scatters,
                    // index_add, index_put, scans, attention)
  DynamicShape,     // a dim has no size
  DifferentRows,    // two reductions are over different dimensions
  DifferentShapes,  // an output has neither the rows nor the elements of the others
  ReshapeMixesDims, // a reshape moves elements across the border between rows
  ReadsAcrossRows,  // the result of a cross-row reduction is needed before all rows are done
  ReadsReducedElsewhere, // a value that depends on a reduction is read at another position (through
                         // a slice, gather, transpose, ...)
  PartialReduction,      // a reduction over some of the dims, neither the inner nor the outer ones,
                         // beside other outputs
  TooLarge,              // more ops than one kernel should hold
  NarrowSum, // it folds elements of a dtype that is too narrow to do so; weft-widen comes before
             // fusing
  ComputedTooOften, // a value would be computed again at too many positions (slices of slices,
                    // writes into what was read)
  // Why two kernels stay two though one could run the ops of both (Fuse.cpp):
  TooManyBuffers,
  TwoLengths, // rows of a length that varies, and something else of a size that varies
  Recomputed,
  GathersTransposed,
  Between,           // another kernel or a library's call needs the one and is needed by the other
  TooFar,            // the search for such a one takes too long
  CheckedAfterWrite, // of a check of indices (EarlyChecks.cpp); the last one
};
llvm::StringRef refusalText(Refusal refusal);
llvm::StringRef refusalName(Refusal refusal);

struct FusionRefusal {
  Refusal reason = Refusal::None;
  mlir::Operation *op = nullptr; // the op at which it shows; may be null
};

// Whether it is an op of another dialect of a kind (contraction, scan, scatter) whose schedules are
// written for each of Weft's own ops.
bool lacksSchedule(mlir::Operation *op);
// Why no kernel can run an op of another dialect that nothing claimed and nothing decomposed; empty
// where one can, and for Weft's own.
std::string whyNoKernel(mlir::Operation *op);
// Whether each row of its result, along the last dim, is a row of its operand: a transpose or a
// broadcast that leaves the last dim alone, a reshape that leaves the last two.
bool movesRows(mlir::Operation *op);

// Whether the op folds several elements into one: a reduction over dims of size 1 is a reshape to
// fusion and codegen.
bool isReduction(mlir::Operation *op);

// The most ops in one kernel: compile time grows with them faster than what fusing saves.
inline constexpr int64_t kMaxFusionOps = 96;
// The same for a kernel that reads windows of its rows. A pooling of 3 x 3 with the indices of its
// maxima takes 77 ops, about eight for each window; a batch_norm in training that feeds it takes 31
// more.
inline constexpr int64_t kMaxWindowedOps = 128;
// The most positions at which a kernel computes one Inline value for each element. Each position
// computes the value anew, and through several such ops the numbers multiply. Nine lets a pooling
// of 3 x 3 take in what feeds it.
inline constexpr int64_t kMaxPositions = 9;

class FusionDomain {
public:
  enum class Shape {
    Elementwise, // no reduction; I is the innermost run of the first output
    Rows,        // reductions over I (Row), over O (Col), or both
    Total,       // reductions of whole values to scalars that no op of the kernel reads; O is empty
    // Reductions over middle dims or over several groups of dims, read by elementwise ops alone. If
    // more ops read them the shape is Rows: strided ones where the innermost dim is reduced, else
    // short ones that lie side by side.
    Nest,
    Alone, // one op with a schedule of its own (matmul, scatters, index_add, index_put, scans,
           // attention and its derivative), and what computes its operands
    Empty, // no element anywhere but in results of empty reductions
  };
  enum class Role { Inline, Full, Row, Col, Part, Near, Scalar };
  // The atoms of a value, outermost first: its row-major position is the mixed-radix number of
  // their positions.
  using Layout = llvm::SmallVector<int32_t, 4>;

  // The domain of `ops` (of one block, in block order), whose results `outputs` are read by others.
  // Operands that `ops` do not define are the kernel's inputs. Linear in the number of ops.
  // nullopt: not one kernel; `why` says the reason.
  static std::optional<FusionDomain> analyze(llvm::ArrayRef<mlir::Operation *> ops,
                                             llvm::ArrayRef<mlir::Value> outputs,
                                             FusionRefusal &why);
  // Whether the op may stand in any kernel at all.
  static Refusal fusible(mlir::Operation *op);

  Shape shape() const {
    return shape_;
  }
  // Extents of all atoms, by number.
  llvm::ArrayRef<int64_t> atoms() const {
    return atoms_;
  }
  // The atoms of O and of I, outermost first.
  llvm::ArrayRef<int32_t> outer() const {
    return outer_;
  }
  llvm::ArrayRef<int32_t> inner() const {
    return inner_;
  }
  // The extents of some atoms; below, how many positions they have together.
  llvm::SmallVector<int64_t, 6> extents(llvm::ArrayRef<int32_t> some) const {
    llvm::SmallVector<int64_t, 6> result;
    for (int32_t atom : some)
      result.push_back(atoms_[atom]);
    return result;
  }
  int64_t positions(llvm::ArrayRef<int32_t> some) const {
    int64_t n = 1;
    for (int32_t atom : some)
      n *= atoms_[atom];
    return n;
  }
  int64_t rows() const {
    return positions(outer_);
  }
  int64_t rowSize() const {
    return positions(inner_);
  }
  // Elements of a row that lie together in the operands of Row reductions; these fold a row run by
  // run. Equals rowSize() unless rows are strided (batch_norm over [N, C, H, W]); always divides
  // it.
  int64_t runSize() const {
    return run_;
  }
  // The atom of O along which vectors lie where rows lie side by side (softmax over dim 1 of [N, C,
  // H, W]): the innermost one of what Row reductions read. -1 where that is one of I.
  int32_t lanes() const {
    return lanes_;
  }
  // The atoms of Part values, outermost first; empty without Part values. The kept atoms of I are
  // its outermost ones; the rest of a row is a run of partRun() elements.
  llvm::ArrayRef<int32_t> kept() const {
    return kept_;
  }
  int64_t partRun() const;
  // Every row leaves a partial result for each Part value. Their atoms: those of O and the kept
  // ones of I. Below, the atoms of O over which the partial results are added up.
  Layout partialLayout() const;
  Layout addedRows() const;
  // Cuts an atom of extent n * inner in two, in every layout. The outer part keeps the atom's
  // number; the inner part's number is returned. In a kernel without reductions the inner part
  // becomes the row.
  int32_t cut(int32_t atom, int64_t inner);
  // Whether a value lies along the dim that a nest folds, while vectors of the nest lie across it:
  // the sums over the pixels of an image whose channels were moved last. Tiles of it are turned.
  bool liesAcrossNest(const Layout &layout) const;
  // The atoms of Near values beside those of O, outermost first; empty without Near values.
  llvm::ArrayRef<int32_t> near() const {
    return near_;
  }
  Role role(mlir::Value value) const;
  // Null where the value has no position in the domain (Inline).
  const Layout *layout(mlir::Value value) const;

private:
  friend struct DomainAnalysis;
  Shape shape_ = Shape::Elementwise;
  llvm::SmallVector<int64_t, 6> atoms_;
  llvm::SmallVector<int32_t, 6> outer_, inner_, kept_, near_;
  int64_t run_ = 0;
  int32_t lanes_ = -1;
  llvm::DenseMap<mlir::Value, Role> roles_;
  llvm::DenseMap<mlir::Value, Layout> layouts_;
};

} // namespace weft::compiler

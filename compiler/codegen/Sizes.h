// Fusions whose tensors have named dims: what a kernel that serves all their sizes may look like.
//
// Kernels work on the largest sizes. A named dim is the leading one of each value that has it, so
// that strides do not depend on it, and it is the slowest of the domain: fewer rows, or fewer
// elements of the one run, are a shorter range of pieces of the same code. Whatever does not fit
// that is refused, with its reason.
//
// Attention's queries, and its keys, have a named dim behind the matrices: one size for both, or
// two. Its kernel is told how many there are, so that what it reads and writes may have that dim
// anywhere: elements follow each other without gaps. Movements inside it say where they lie. The
// number of its matrices may vary as well, where it leads. A kernel of rows that vary in length,
// [4, n], is told their length (LengthSizes.h).
#pragma once

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

// The dim of a tensor that a kernel is told the length of.
struct LengthDim {
  int64_t dim = -1; // -1: none
  // Which one: that of rows, or attention's number of queries; or its number of keys, where that is
  // another one.
  enum Of : uint8_t { kOwn, kOfKeys } of = kOwn;
};

struct KernelSizes {
  // The size that says how many pieces there are; static where nothing in the fusion has a name.
  ir::Dim counted = 1;
  // Of each operand of a kernel that is told lengths. Empty: of any other kernel.
  llvm::SmallVector<LengthDim> lengthDims;
  // The fusion's values, arguments included, that have a named dim.
  llvm::DenseSet<mlir::Value> named;
  // Those of them that are read by rows alone, where they lie: they may have another size.
  llvm::DenseSet<mlir::Value> chosen;
  explicit operator bool() const {
    return !counted.isStatic();
  }
};

// On attention in a fusion that has lost its names, an i64 of KeyLength: its number of queries
// varies. Such a kernel counts queries, of all matrices, and its functions take the launch's count,
// behind the range: a range alone does not say how many keys there are, nor where the next matrix
// lies. Behind the count they take the number of keys of a matrix where that varies by itself.
// kMatricesAttr: the number of matrices varies as well. Then the kernel counts these, and takes the
// number of queries of one behind the count.
inline constexpr llvm::StringLiteral kLengthsAttr = "lengths", kMatricesAttr = "matrices";
enum class KeyLength : int64_t { kStatic, kAsQueries, kOwn };

// Failure, with an error at the op, where no kernel serves all sizes.
mlir::FailureOr<KernelSizes> kernelSizes(ir::FusionOp fusion);
// Leaves the fusion with the largest sizes and no names, as codegen wants it.
void forgetNames(ir::FusionOp fusion);
// The dim of the type that has a name; -1 for none, -2 where it is not the leading one (but for
// dims of size 1) or there are several.
int64_t namedDimOf(mlir::Type type);

} // namespace weft::compiler

// Index statements: how an op uses positions, said once in its record, for all who ask: fusion,
// sizes that vary, lowerings, costs, and how an op may be cut over devices.
//
// A statement names the dims of an op's points, and gives for each operand and result the position
// at which it stands at one point. In textOf's notation:
//
//   matmul       (a m k, a k n) -> (a m n)              k is reduced by a sum
//   transpose    (b a) -> (a b)
//   slice        (2*a+1 b) -> (a b)
//   concat       (a b, a-3 b) -> (a b)
//   reshape      (4*a+b c) -> (a 3*b+c)                 dims are split and merged
//   softmax      (a b) -> (a b)                         b is carried
//   gather       (n b, a b) -> (a b)                    data choose n
//   conv2d       (n c 2*y+v-1 ..., o c v ...) -> (n o y ...)
//
// Invariant: an element of a result depends on those elements of an operand alone that stand at the
// same points; where a dim is carried, at any position of that dim. A point whose position lies
// outside of a tensor has no element there: padding, the other inputs of a concat. The statement
// may name more than what is read, never less. tests/conformance/StatementTest.cpp holds each
// against reference evaluation.
#pragma once

#include <optional>
#include <string>

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

namespace weft::ir {

// What a dim is to the results.
enum class Purpose {
  Parallel, // each position gives its elements of the results on its own
  Reduced,  // its positions are folded into each element
  Carried,  // results have it, but not each position on its own: scans, softmax, sorts, draws
  Chosen,   // data choose the position at which an operand is read or a result written
};

// How reduced positions become one. Parts of a reduced dim give partial results, which are folded
// in the same way; Mean wants parts of equal size. Other: no parts.
enum class Fold { None, Sum, Mean, Product, Max, Min, Other };

struct IndexDim {
  llvm::StringRef name; // static text
  Dim size;
  Purpose purpose;
};

// (sum of scale * dim + offset) / divisor, rounded down, % modulus.
struct Position {
  struct Term {
    int32_t dim;
    int64_t scale;
    bool operator==(const Term &) const = default;
  };
  llvm::SmallVector<Term, 2> terms;
  int64_t offset = 0;
  int64_t divisor = 1;
  int64_t modulus = 0; // 0: none
  bool exact = false;  // there is no element where the division leaves a remainder

  Position() = default; // position 0
  Position(int32_t dim) : terms{{dim, 1}} {}
  Position(llvm::ArrayRef<Term> terms, int64_t offset = 0) : terms(terms), offset(offset) {}
  bool has(int32_t dim) const {
    return llvm::any_of(terms, [&](Term term) { return term.dim == dim; });
  }
  // Whether it is the position of the dim, as it is.
  bool is(int32_t dim) const {
    return offset == 0 && divisor == 1 && modulus == 0 && terms.size() == 1 &&
           terms[0] == Term{dim, 1};
  }
  bool operator==(const Position &) const = default;
};
using Positions = llvm::SmallVector<Position, 4>; // one a dim of the tensor

struct IndexStatement {
  llvm::SmallVector<IndexDim, 6> dims;
  Fold fold = Fold::None;
  llvm::SmallVector<Positions, 3> operands, results; // those that the op has, in its order

  int32_t add(llvm::StringRef name, Dim size, Purpose purpose = Purpose::Parallel) {
    dims.push_back({name, size, purpose});
    return static_cast<int32_t>(dims.size()) - 1;
  }
  // A dim for each of the type's, of this purpose, and the positions that they make.
  Positions addAll(mlir::Type type, Purpose purpose = Purpose::Parallel);
};

// The op's statement. Nothing where its record has none (`missingRule` says why), or where
// symbolic sizes keep it from being written down: a reshape whose inner dims are symbolic. Nothing
// either where an op of another dialect throws, or gives one that does not fit it
// (verifyStatement).
std::optional<IndexStatement> statementOf(mlir::Operation *op);

// Why the statement does not fit the op: other tensors, other ranks, dims that it has not; empty
// where it does.
std::string statementError(mlir::Operation *op, const IndexStatement &statement);

// Why not each point has an element where a tensor of the type stands at these positions; empty
// where each has. For those who read or write there without asking.
std::string outsideError(const IndexStatement &statement, const Positions &positions,
                         mlir::Type type);

// "(a m k, a k n) -> (a m n), k reduced by sum".
std::string textOf(const IndexStatement &statement);

// The positions as an affine map of the dims that data do not choose, which come first. Positions
// whose division is exact have none.
mlir::AffineMap mapOf(const IndexStatement &statement, const Positions &positions,
                      mlir::MLIRContext *context);

// The dims of a position that takes all of a tensor's dim of `size`, outermost first: its mixed
// radix digits. Nothing where the position leaves some out (a slice), repeats some (a window) or
// has an offset.
std::optional<llvm::SmallVector<int32_t, 2>> digitsOf(const IndexStatement &statement,
                                                      const Position &position, int64_t size);

// How an op runs in parts along a dim of its statement. Each part is the same op on the parts of
// those operands that have a dim to cut; the others are taken whole.
struct Cut {
  // The dim of each operand and result that is cut into equal parts; -1: none.
  llvm::SmallVector<int64_t, 4> operands, results;
  llvm::StringRef name; // of the statement's dim
  // How the parts' results become the whole: joined along their dims (None), or folded.
  Fold fold = Fold::None;
};
// Nothing where the op has no parts along the dim: it is carried or chosen, windows overlap, or a
// tensor that is cut has named sizes.
std::optional<Cut> cutAlong(const IndexStatement &statement, int32_t dim, mlir::Operation *op);

// One of `parts` equal parts of the op, on operands that are cut already.
mlir::Operation *buildPart(mlir::OpBuilder &builder, mlir::Operation *op, const Cut &cut,
                           int64_t parts, mlir::ValueRange operands);

// Scalar operations of the op, whose shapes are static, by its record's cost: cost * points, chosen
// dims apart. Elements of the first result instead of points for a draw, which reads all of its
// state at each, and where there is no statement.
double operationsOf(mlir::Operation *op);

// The statement of an elementwise op: the same position of all operands and results.
std::optional<IndexStatement> elementwiseStatement(mlir::Operation *op);

} // namespace weft::ir

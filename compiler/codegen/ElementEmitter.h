// Emits the element of a tensor at a position, with all that it is computed from, as scalar or
// vector code.
//
// It reads linalg on tensors (indexing maps, scalar bodies, reshapes, concat, insert_slice) from
// the result back to the buffers: every producer is recomputed where it is needed, unless its
// element is known already (a reduction's result, a row kept in scratch). One vector covers `width`
// neighbours of one loop; what all lanes share stays scalar. Recursion goes as deep as the fusion
// is long, which kMaxFusionOps bounds.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/Index.h"
#include "compiler/codegen/Sizes.h"
#include "dialects/weft/ir/SameOp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace weft::compiler {

// Elements in a vector, for every type and CPU: lanes are part of what a sum's value is.
inline constexpr int64_t kLanes = 16;

// The type that elements have in memory: i1 takes a byte.
mlir::Type memoryType(mlir::Type element);
// Bytes of an element in memory.
int64_t memoryBytes(mlir::Type element);

class ElementEmitter {
public:
  ElementEmitter(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {
    scopes_.emplace_back();
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  IndexSpace space;
  // Elements in a vector of the code being emitted.
  int64_t width = kLanes;
  // Elements between lanes up to which loads read whole vectors and pick lanes from them by
  // shuffles; beyond it, or where nothing better is known of a stride, they gather.
  int64_t mostStride = 1;
  // Whether buffers hold as many elements as their types say, so that a load may read what lies
  // between others' elements.
  bool wholeBuffers = false;
  // What the first element of every buffer of a kernel is aligned to, in bytes; 0: to its element.
  int64_t bufferAlignment = 0;

  // The element of `tensor` at `position`: a scalar where the position is uniform and its producers
  // are, else a vector. `mask` says which lanes exist (null: all); nothing is read for the others.
  mlir::Value at(mlir::Value tensor, llvm::ArrayRef<Index> position, mlir::Value mask = nullptr);
  // The value of the body of `generic` for the loops at `loops` with region arguments `args`.
  mlir::Value body(mlir::linalg::GenericOp generic, llvm::ArrayRef<Index> loops,
                   mlir::ValueRange args, mlir::Value mask);
  // The elements of the generic's inputs at `loops`.
  llvm::SmallVector<mlir::Value> inputsAt(mlir::linalg::GenericOp generic,
                                          llvm::ArrayRef<Index> loops, mlir::Value mask);

  // `tensor` lives in `buffer` (memref<N x memoryType>), row-major.
  struct Buffer {
    mlir::Value memref;
    int64_t argument = -1; // of the kernel
    LengthDim length = {}; // the dim that is shorter in memory than its type says
  };
  void setBuffer(mlir::Value tensor, Buffer buffer) {
    buffers_[tensor] = buffer;
  }
  // Called for the element of `tensor` at a position: the value where it is known there, null where
  // it must be computed.
  using Known = std::function<mlir::Value(llvm::ArrayRef<Index> position, mlir::Value mask)>;
  void setKnown(mlir::Value tensor, Known known) {
    known_[tensor] = std::move(known);
  }
  // Known at these places alone, an element each.
  void setKnown(mlir::Value tensor, llvm::SmallVector<llvm::SmallVector<Index>> places,
                llvm::SmallVector<mlir::Value> elements);
  void dropKnown(mlir::Value tensor) {
    known_.erase(tensor);
  }

  // How many elements a dim has that is shorter in memory than its type says, by LengthDim::of:
  // rows of a text among others, which follow each other without gaps.
  std::array<mlir::Value, 2> lengths;
  // Row-major position of `position` in `shape`, of which that dim is `length`.
  Index linearize(llvm::ArrayRef<Index> position, llvm::ArrayRef<int64_t> shape, LengthDim length);

  // memref[linear] as element type `element`, and the store of a scalar or vector there.
  mlir::Value load(mlir::Value memref, mlir::Type element, const Index &linear, mlir::Value mask);
  void store(mlir::Value memref, mlir::Value value, const Index &linear, mlir::Value mask);

  // Asks for the cache lines of a vector at `linear`, to be read or written soon; nothing where
  // lanes are not neighbours.
  void prefetch(mlir::Value memref, const Index &linear, bool write);
  // Whether two buffers, which begin at one place or do not overlap, are two.
  mlir::Value differ(mlir::Value memref, mlir::Value other);
  // The same for the line of one element, into the L1 cache or only the L2; `linear` may lie
  // outside the buffer.
  void prefetchLine(mlir::Value memref, const Index &linear, bool write, bool nearest = true);

  // The position in [0, size) that an index from data means (negative ones count from the end);
  // notes one that is out of range.
  Index checkedIndex(mlir::Value raw, int64_t size, mlir::Value mask = nullptr);

  // Arithmetic on positions, unsigned where the name does not say otherwise.
  mlir::Value add(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::AddIOp>(a, b);
  }
  mlir::Value sub(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::SubIOp>(a, b);
  }
  mlir::Value mul(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::MulIOp>(a, b);
  }
  mlir::Value div(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::DivUIOp>(a, b);
  }
  mlir::Value rem(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::RemUIOp>(a, b);
  }
  mlir::Value min(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::MinUIOp>(a, b);
  }
  mlir::Value max(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::MaxUIOp>(a, b);
  }
  mlir::Value minSigned(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::MinSIOp>(a, b);
  }
  mlir::Value maxSigned(const Number &a, const Number &b) {
    return arithmetic<mlir::arith::MaxSIOp>(a, b);
  }
  // a / b, rounded up.
  mlir::Value divideUp(const Number &a, const Number &b) {
    return div(add(a, sub(b, 1)), b);
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, const Number &a, const Number &b) {
    mlir::Value left = scalar(a);
    return make<mlir::arith::CmpIOp>(predicate, left, scalar(b));
  }

  // Values of an Index.
  mlir::Value scalarIndex(const Index &index);
  mlir::Value scalar(const Number &number) {
    return number.index ? scalarIndex(*number.index) : number.value;
  }
  mlir::Value vectorIndex(const Index &index);
  // A vector of `lanes` equal values, if it is none yet.
  mlir::Value broadcast(mlir::Value value) {
    return broadcast(value, width);
  }
  mlir::Value broadcast(mlir::Value value, int64_t lanes);
  mlir::Value constantIndex(int64_t value);
  mlir::Value constant(mlir::TypedAttr value); // a scalar of any element type
  // The mask of the first `lanes` lanes; null for all.
  mlir::Value tailMask(int64_t lanes);
  mlir::Value tailMask(mlir::Value lanes);
  // 0, 1, ... as 32-bit integers.
  mlir::Value laneNumbers();
  mlir::VectorType vectorOf(mlir::Type element) const {
    return mlir::VectorType::get({width}, element);
  }

  // Values emitted inside a scope (the body of a loop or branch) are not used after it.
  void pushScope() {
    scopes_.emplace_back();
  }
  void popScope() {
    scopes_.pop_back();
  }
  // Creates an op, folded, or finds the same one.
  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    return unique(Op::create(b, loc, std::forward<Args>(args)...));
  }
  mlir::Value unique(mlir::Operation *op);
  template <typename Op> mlir::Value arithmetic(const Number &a, const Number &b) {
    mlir::Value left = scalar(a);
    return make<Op>(left, scalar(b));
  }

  // memref<1xi32> in which kernels remember that an index was out of range.
  mlir::Value errorFlag;
  // Called instead with whether one was (an i1), where many threads share the flag.
  std::function<void(mlir::Value bad)> onFailure;

  // Lanes after which positions that vectors computed by a division begin anew: had vectors ended
  // there, there would be none.
  llvm::SmallSetVector<int64_t, 4> periods;

  // Reads of kernel arguments, for in-place decisions: called with the argument and the linear
  // position (none: irregular).
  std::function<void(int64_t argument, const Index &linear)> onRead;

  bool failed() const {
    return !error_.empty();
  }
  const std::string &error() const {
    return error_;
  }
  void fail(std::string message) {
    if (error_.empty())
      error_ = std::move(message);
  }

private:
  struct Element {
    llvm::SmallVector<Index> position;
    mlir::Value mask, value;
  };
  // A loop of a body, emitted for what it reads from outside of itself.
  struct BodyLoop {
    mlir::Operation *source;
    llvm::SmallVector<mlir::Value, 8> reads;
    mlir::Operation *emitted;
  };
  struct Scope {
    llvm::DenseSet<mlir::Operation *, ir::SameOp> ops;
    llvm::DenseMap<mlir::Value, llvm::SmallVector<Element, 2>> elements;
    llvm::SmallVector<BodyLoop, 1> loops;
  };

  mlir::Value compute(mlir::Value tensor, llvm::ArrayRef<Index> position, mlir::Value mask);
  mlir::Value constantElement(mlir::Value tensor, mlir::ElementsAttr value,
                              llvm::ArrayRef<Index> position, mlir::Value mask);
  mlir::Value concatElement(mlir::Operation *op, llvm::ArrayRef<Index> position, mlir::Value mask);
  mlir::Value insertElement(mlir::Operation *op, llvm::ArrayRef<Index> position, mlir::Value mask);
  // The same where lanes go along steps of a vector and more (a diagonal), so that one of them at
  // most is written, from memory: without a branch. Null for others.
  mlir::Value writtenLane(mlir::tensor::InsertSliceOp insert, llvm::ArrayRef<Index> position,
                          mlir::Value mask);
  mlir::Value writtenElement(mlir::tensor::InsertSliceOp insert, llvm::ArrayRef<Index> position,
                             mlir::Value mask, mlir::Value meets);
  // Whether some lane is at 0, step, ..., (size - 1) step: a scalar. Null where most vectors have
  // such a lane, or lanes are irregular.
  mlir::Value meetsPart(const Index &position, int64_t step, int64_t size);
  // Adds the values of the block's ops to those of its arguments.
  void bodyOps(mlir::Block &block, llvm::ArrayRef<Index> loops,
               llvm::DenseMap<mlir::Value, mlir::Value> &values, mlir::Value mask);
  mlir::Value bodyOp(mlir::Operation &op, llvm::ArrayRef<Index> loops,
                     llvm::DenseMap<mlir::Value, mlir::Value> &values, mlir::Value mask);
  void bodyLoop(mlir::scf::ForOp loop, llvm::ArrayRef<Index> loops,
                llvm::DenseMap<mlir::Value, mlir::Value> &values, mlir::Value mask);
  mlir::Value loadPicked(mlir::Value memref, mlir::Type stored, const Index &start,
                         int64_t covered, llvm::ArrayRef<int64_t> element);
  mlir::Value loadKnown(mlir::Value memref, mlir::Type stored, const Index &linear,
                        mlir::Value mask);
  // memref[base + stride * lane] for the first `lanes` lanes, by whole vectors.
  mlir::Value loadStrided(mlir::Value memref, mlir::Type stored, const Index &base, int64_t stride,
                          int64_t lanes);
  void storeFirst(mlir::Value memref, mlir::Value value, const Index &base, int64_t lanes);
  // The alignment in bytes of an access to a buffer at `base`; null: not known to exceed the
  // element's.
  mlir::IntegerAttr alignmentOf(const Index &base, mlir::Type stored);
  mlir::Value indexValue(const Index &index) {
    return space.uniform(index) ? scalarIndex(index) : vectorIndex(index);
  }
  // Digits of base + lane by numbers no smaller than the vector is wide: lanes from `turned` on are
  // behind a multiple of the least of them.
  struct Turn {
    mlir::Value first, second; // where lane 0 is, and the lane at the turn; scalars
    mlir::Value before;        // how many lanes come before the turn, at most all
    mlir::Value turned;        // vector<width x i1>
    int64_t stride;            // of lanes on one side
  };
  // None where the lanes of `linear` are no such digits.
  std::optional<Turn> turnOf(const Index &linear);
  mlir::Value turnedIndex(const Turn &turn);
  // The quotient or remainder that the symbol is, lane by lane.
  mlir::Value dividedLanes(const IndexSpace::Symbol &symbol);
  // memref[linear] where at most two rows meet in a vector, whose lanes on either side lie together
  // or share an element; null for other positions.
  mlir::Value loadTurned(mlir::Value memref, mlir::Type stored, const Index &linear,
                         mlir::Value mask);
  Index dynamicIndex(mlir::Value value, int64_t size);
  // onTrue() where `condition` (i1 or a vector of it) holds, else onFalse(); each is emitted for
  // the lanes that take it.
  mlir::Value choose(mlir::Value condition, mlir::Value mask, mlir::Type element,
                     llvm::function_ref<mlir::Value(mlir::Value)> onTrue,
                     llvm::function_ref<mlir::Value(mlir::Value)> onFalse, bool vector);
  mlir::Value compareIndex(const Index &index, int64_t bound); // index < bound
  void noteFailure(mlir::Value condition, mlir::Value mask);

  std::vector<Scope> scopes_;
  llvm::DenseMap<mlir::Value, Buffer> buffers_;
  llvm::DenseMap<mlir::Value, Known> known_;
  std::string error_;
};

} // namespace weft::compiler

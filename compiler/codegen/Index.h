// Positions as linear forms, so that codegen sees which loads are contiguous, which are uniform,
// and which need a gather.
//
// An Index is constant + sum(coefficient * symbol). A symbol is a loop variable (one value for all
// lanes), the lane number, a value that comes from data, or the quotient or remainder of another
// Index. Every symbol lies in [0, extent), from which divisions simplify.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

struct Index {
  int64_t constant = 0;
  llvm::SmallVector<std::pair<int32_t, int64_t>, 3>
      terms; // (symbol, coefficient), by symbol, no zero coefficient

  static Index of(int64_t constant) {
    return Index{constant, {}};
  }
  bool isConstant() const {
    return terms.empty();
  }
  bool operator==(const Index &other) const {
    return constant == other.constant && terms == other.terms;
  }
};

// What arithmetic on positions takes: a value, or a position or a number that becomes one.
struct Number {
  Number(mlir::Value value) : value(value) {}
  Number(Index index) : index(std::move(index)) {}
  Number(int64_t constant) : index(Index::of(constant)) {}

  mlir::Value value;
  std::optional<Index> index;
};

class IndexSpace {
public:
  enum class Kind {
    Scalar,    // `value`, of index type
    Lane,      // 0, 1, ... of the vector
    Vector,    // `value`, a vector of index type
    Quotient,  // of / by, rounded down
    Remainder, // of - by * quotient
  };
  struct Symbol {
    Kind kind;
    int64_t extent;
    bool uniform; // the same in all lanes
    mlir::Value value;
    Index of;
    int64_t by = 1;
  };

  // A loop variable or a value from data; asking again for the same value gives the same symbol.
  Index scalar(mlir::Value value, int64_t extent);
  Index vector(mlir::Value value, int64_t extent);
  // The lane number of a vector with `lanes` valid lanes.
  Index lane(int64_t lanes);

  Index add(const Index &a, const Index &b);
  Index add(const Index &a, int64_t b) const;
  Index scale(const Index &a, int64_t factor) const;
  // Quotient and remainder by a positive number.
  std::pair<Index, Index> divide(const Index &a, int64_t by);
  // Row-major position of `position` in `shape`, and back.
  Index linearize(llvm::ArrayRef<Index> position, llvm::ArrayRef<int64_t> shape);
  llvm::SmallVector<Index> delinearize(const Index &linear, llvm::ArrayRef<int64_t> shape);

  // The smallest and the largest value, over valid lanes.
  std::pair<int64_t, int64_t> range(const Index &a) const;
  bool uniform(const Index &a) const;
  // `a` without its lane number, where no lane of it is on another side of `bound` than the first:
  // 16 i + lane of 16 lanes beside 48. Else none.
  std::optional<Index> withoutLane(const Index &a, int64_t bound) const;
  // `a` as base + stride * lane, with a base that is the same in all lanes; no stride where lanes
  // are irregular.
  std::pair<Index, std::optional<int64_t>> splitLanes(const Index &a) const;
  // `a` as a base that is the same in all lanes and what each of `lanes` lanes adds to it, where
  // that is a number: lane / 2. None where it depends on more than the lane.
  std::optional<std::pair<Index, llvm::SmallVector<int64_t>>> placesOfLanes(const Index &a,
                                                                            int64_t lanes) const;
  // Digits of one dividend, base + lane, however they nest: between the multiples of all periods'
  // least its lanes are `stride` apart.
  struct Turns {
    Index dividend;
    llvm::SmallVector<int64_t, 4> periods; // that it is divided by, all multiples of the least
    int64_t stride = 0;
    int64_t period() const {
      return *llvm::min_element(periods);
    }
  };
  // None where `a` has no such digits, or other lanes beside them.
  std::optional<Turns> turnsOf(const Index &a) const;
  // `a` in the lane in which the dividend of its digits is `place`, which is uniform.
  Index placedAt(const Index &a, const Turns &turns, const Index &place);
  const Symbol &symbol(int32_t id) const {
    return symbols_[id];
  }

private:
  std::optional<int64_t> valueAt(const Index &a, int64_t lane) const;
  std::optional<int64_t> strideBetween(const Index &a, Turns &turns) const;
  Index intern(Symbol symbol);
  Index opaque(Kind kind, const Index &of, int64_t by);

  llvm::SmallVector<Symbol, 32> symbols_;
  llvm::DenseMap<mlir::Value, int32_t> byValue_;
};

} // namespace weft::compiler

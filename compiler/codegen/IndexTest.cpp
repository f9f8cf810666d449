// Positions as linear forms: what they say is what arithmetic gives, and digits of one position
// have one form whatever shapes they went through.
#include "compiler/codegen/Index.h"

#include <random>

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using Shape = llvm::SmallVector<int64_t>;

class IndexTest : public testing::Test {
protected:
  // A loop variable, known by its number.
  Index variable(int number, int64_t extent) {
    extents_.resize(std::max<size_t>(extents_.size(), number + 1));
    extents_[number] = extent;
    return space.scalar(valueOf(number), extent);
  }
  static mlir::Value valueOf(int number) {
    return mlir::Value::getFromOpaquePointer(reinterpret_cast<void *>(intptr_t(number + 1) << 8));
  }
  int64_t evaluate(const Index &index, llvm::ArrayRef<int64_t> variables) {
    int64_t sum = index.constant;
    for (auto [id, coefficient] : index.terms) {
      IndexSpace::Symbol symbol = space.symbol(id);
      int64_t value = 0;
      if (symbol.kind == IndexSpace::Kind::Scalar) {
        for (size_t i = 0; i < variables.size(); ++i)
          if (symbol.value == valueOf(int(i)))
            value = variables[i];
      } else if (symbol.kind == IndexSpace::Kind::Lane) {
        value = lane_;
      } else {
        value = evaluate(symbol.of, variables);
        value = symbol.kind == IndexSpace::Kind::Quotient
                    ? llvm::divideFloorSigned(value, symbol.by)
                    : value - symbol.by * llvm::divideFloorSigned(value, symbol.by);
      }
      EXPECT_GE(value, 0);
      EXPECT_LT(value, symbol.extent);
      sum += coefficient * value;
    }
    return sum;
  }
  int64_t pick(int64_t n) {
    return int64_t(random() % uint64_t(n));
  }
  // The factors run together to some dims.
  Shape group(llvm::ArrayRef<int64_t> factors) {
    Shape shape{1};
    for (int64_t factor : factors) {
      if (pick(2))
        shape.push_back(1);
      shape.back() *= factor;
    }
    return shape;
  }

  IndexSpace space;
  std::mt19937 random{7};
  llvm::SmallVector<int64_t> extents_;
  int64_t lane_ = 0; // that evaluate() is asked about
};

TEST_F(IndexTest, DigitsHaveOneFormWhateverShapesTheyWentThrough) {
  for (int round = 0; round < 300; ++round) {
    Shape factors;
    int64_t size = 1;
    for (int64_t i = 0, n = 2 + pick(4); i < n; ++i)
      factors.push_back(2 + pick(6)), size *= factors.back();
    Index x = variable(round, size);
    llvm::SmallVector<Index> digits = space.delinearize(x, factors);
    for (int way = 0; way < 4; ++way) {
      // Through some shapes, of the whole and of its dims.
      Index linear = x;
      for (int i = 0; i < 3; ++i) {
        Shape shape = group(factors);
        linear = space.linearize(space.delinearize(linear, shape), shape);
        EXPECT_TRUE(linear == x);
      }
      Shape shape = group(factors);
      llvm::SmallVector<Index> dims = space.delinearize(linear, shape), again;
      size_t next = 0;
      for (auto [dim, extent] : llvm::zip(dims, shape)) {
        Shape own;
        for (int64_t left = extent; left > 1; left /= own.back())
          own.push_back(factors[next++]);
        again.append(space.delinearize(dim, own));
      }
      EXPECT_TRUE(again == digits);
      // Neighbours meet in any order of additions.
      Index sum;
      auto order = llvm::to_vector(llvm::seq<size_t>(0, factors.size()));
      std::shuffle(order.begin(), order.end(), random);
      for (size_t i : order) {
        int64_t stride = 1;
        for (size_t k = i + 1; k < factors.size(); ++k)
          stride *= factors[k];
        sum = space.add(sum, space.scale(digits[i], stride));
      }
      EXPECT_TRUE(sum == x);
    }
  }
}

// A flipped position: its digits are of a division whose dividend has a negative coefficient.
TEST_F(IndexTest, FlippedPositionsHaveDigits) {
  Index flipped = space.add(space.scale(variable(0, 12), -1), 11);
  llvm::SmallVector<Index> digits = space.delinearize(flipped, {2, 2, 3});
  Index inner = space.linearize(llvm::ArrayRef(digits).drop_front(), {2, 3});
  for (int64_t p = 0; p < 12; ++p) {
    EXPECT_EQ(evaluate(digits[0], {p}), (11 - p) / 6);
    EXPECT_EQ(evaluate(digits[1], {p}), (11 - p) / 3 % 2);
    EXPECT_EQ(evaluate(inner, {p}), (11 - p) % 6);
  }
  auto [low, high] = space.range(inner);
  EXPECT_EQ(low, 0);
  EXPECT_EQ(high, 5);
}

TEST_F(IndexTest, LanesOnOneSideOfABoundNeedNoComparisonEach) {
  Index block = space.scale(variable(0, 8), 16), lane = space.lane(16);
  Index position = space.add(block, lane);
  EXPECT_EQ(space.withoutLane(position, 48), block);
  EXPECT_EQ(space.withoutLane(space.add(position, 3), 51), space.add(block, 3));
  EXPECT_EQ(space.withoutLane(block, 5), block); // no lanes at all
  EXPECT_FALSE(space.withoutLane(position, 40)); // a bound inside a vector
  EXPECT_FALSE(space.withoutLane(space.add(space.scale(variable(0, 8), 8), lane), 48));
  EXPECT_FALSE(space.withoutLane(space.add(block, space.scale(lane, -1)), 48));
  EXPECT_FALSE(space.withoutLane(space.add(block, space.scale(lane, 2)), 48));
}

// A vector of 16 positions of a part of a tensor meets two rows of it at most: where the lanes are
// in the whole follows from two of them.
TEST_F(IndexTest, LanesTurnWhereRowsEnd) {
  struct Case {
    Shape part, whole;
    int64_t stride;
  };
  int number = 0;
  for (const Case &c : {Case{{4, 3, 17, 23}, {4, 5, 19, 29}, 1}, Case{{5, 2, 20}, {6, 3, 24}, 1},
                        Case{{7, 2, 19}, {7, 1, 1}, 0}, Case{{3, 4, 21}, {3, 1, 21}, 1},
                        Case{{3, 4, 21}, {3, 4, 1}, 0}, Case{{2, 3, 4, 18}, {1, 3, 1, 1}, 0}}) {
    int64_t elements = 1;
    for (int64_t size : c.part)
      elements *= size;
    int64_t vectors = elements / 16;
    Index position =
        space.add(space.scale(variable(number, vectors), 16), space.lane(16));
    llvm::SmallVector<Index> digits = space.delinearize(position, c.part);
    for (auto [digit, part, whole] : llvm::zip(digits, c.part, c.whole))
      digit = whole == 1 ? Index::of(0) : space.add(digit, whole - part);
    Index place = space.linearize(digits, c.whole);
    auto turns = space.turnsOf(place);
    ASSERT_TRUE(turns);
    EXPECT_EQ(turns->stride, c.stride);
    EXPECT_EQ(turns->period() % c.part.back(), 0);
    Index base = space.splitLanes(turns->dividend).first;
    auto [row, column] = space.divide(base, turns->period());
    Index first = space.placedAt(place, *turns, base),
          second = space.placedAt(place, *turns,
                                  space.scale(space.add(row, 1), turns->period()));
    EXPECT_TRUE(space.uniform(first) && space.uniform(second));
    llvm::SmallVector<int64_t> variables(number + 1, 0);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      variables[number] = vector;
      int64_t before = turns->period() - evaluate(column, variables);
      for (lane_ = 0; lane_ < 16; ++lane_)
        EXPECT_EQ(evaluate(place, variables),
                  lane_ < before ? evaluate(first, variables) + c.stride * lane_
                                 : evaluate(second, variables) + c.stride * (lane_ - before));
    }
    ++number;
  }
  Index lane = space.lane(16), block = space.scale(variable(number, 9), 16);
  EXPECT_FALSE(space.turnsOf(space.add(block, lane))); // nothing turns
  EXPECT_FALSE(space.turnsOf(space.divide(space.add(block, space.scale(lane, 2)), 35).second));
}

// Random sums, multiples, quotients and remainders, some of them negative.
TEST_F(IndexTest, SaysWhatArithmeticGives) {
  for (int round = 0; round < 200; ++round) {
    llvm::SmallVector<Index> known;
    llvm::SmallVector<llvm::SmallVector<int64_t>> values; // of each, for some values of variables
    llvm::SmallVector<llvm::SmallVector<int64_t>> variables(20);
    for (int v = 0; v < 3; ++v) {
      known.push_back(variable(3 * round + v, 1 + pick(40)));
      values.emplace_back();
      for (auto &point : variables) {
        point.resize(3 * round + v + 1);
        values.back().push_back(point.back() = pick(extents_[3 * round + v]));
      }
    }
    for (int step = 0; step < 12; ++step) {
      size_t a = size_t(pick(known.size())), b = size_t(pick(known.size()));
      int64_t number = 1 + pick(9), kind = pick(5);
      auto [quotient, remainder] = space.divide(known[a], number);
      known.push_back(kind == 0   ? space.add(known[a], known[b])
                      : kind == 1 ? space.scale(known[a], number - 4)
                      : kind == 2 ? space.add(known[a], number - 5)
                      : kind == 3 ? quotient
                                  : remainder);
      llvm::SmallVector<int64_t> results;
      for (size_t i = 0; i < variables.size(); ++i) {
        int64_t x = values[a][i], y = values[b][i];
        results.push_back(kind == 0   ? x + y
                          : kind == 1 ? x * (number - 4)
                          : kind == 2 ? x + number - 5
                          : kind == 3 ? llvm::divideFloorSigned(x, number)
                                      : x - number * llvm::divideFloorSigned(x, number));
        ASSERT_EQ(evaluate(known.back(), variables[i]), results.back());
      }
      values.push_back(results);
    }
  }
}

} // namespace
} // namespace weft::compiler

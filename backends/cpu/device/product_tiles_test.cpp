#include "backends/cpu/device/product_tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/device/tiled_matmul.h"

namespace weft::backends::cpu {
namespace {

using Values = std::vector<float>;

Values random_values(int64_t count) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values values(static_cast<size_t>(count));
  for (float &value : values)
    value = uniform(random);
  return values;
}

// Row-major matrices, b transposed where it says so.
struct Problem {
  int64_t rows, terms, columns;
  bool transposed = false, bias = false;
  std::vector<std::pair<PostOp, std::optional<StridedShape>>> post_ops = {};
  int64_t a_term = 0;     // of a transposed a: elements from a term to the next
  bool repeats_a = false; // all terms of a are one

  MatmulProblem matmul() const {
    MatmulProblem p{{{rows, terms}, {terms, 1}},
                    {{terms, columns}, {columns, 1}},
                    {{rows, columns}, {columns, 1}},
                    std::nullopt,
                    post_ops};
    if (transposed)
      p.b.strides = {1, terms};
    if (a_term > 0 || repeats_a)
      p.a.strides = {1, a_term};
    if (bias)
      p.bias = StridedShape{{1, columns}, {columns, 1}};
    return p;
  }
};

struct Operands {
  Values a, b, bias, term;
  explicit Operands(const Problem &p)
      : a(random_values(p.rows * p.terms)), b(random_values(p.terms * p.columns)),
        bias(random_values(p.columns)), term(random_values(p.rows * p.columns)) {}
};

// With the scratch memory of other calls, and nothing written behind the result.
Values computed(const Problem &p, Operands &in, int threads, bool packed) {
  auto matmul = tiled_matmul(p.matmul(), threads, packed);
  constexpr size_t kMargin = 64;
  Values result(static_cast<size_t>(p.rows * p.columns) + kMargin, -7);
  auto memory = [](int64_t bytes) {
    return Values(static_cast<size_t>(bytes) / sizeof(float),
                  std::numeric_limits<float>::quiet_NaN());
  };
  Values scratch = memory(matmul->scratch_bytes()), form = memory(matmul->packed_bytes());
  EXPECT_EQ(packed, !form.empty());
  if (packed)
    EXPECT_TRUE(matmul->pack(in.b.data(), form.data()).ok());
  std::vector<void *> operands = {in.a.data(), packed ? form.data() : in.b.data(), result.data()};
  if (p.bias)
    operands.push_back(in.bias.data());
  for (const auto &[op, shape] : p.post_ops)
    if (shape)
      operands.push_back(in.term.data());
  EXPECT_TRUE(matmul->run(operands, scratch.data()).ok());
  for (size_t i = 0; i < kMargin; ++i) {
    EXPECT_EQ(result.back(), -7);
    result.pop_back();
  }
  return result;
}

// Rows and columns that fill no tile, parts of terms with a rest.
const Problem kProblems[] = {{1, 1, 1},
                             {6, 8, 16, true},
                             {7, 300, 33, true, true},
                             {13, 31, 8},
                             {49, 513, 100},
                             {64, 256, 48, true},
                             {97, 40, 17, false, true},
                             {196, 257, 15, true, true},
                             {5, 1000, 64},
                             {200, 16, 130, true, true},
                             // Each thread packs blocks of columns of its own.
                             {45, 270, 380, false, true},
                             {200, 30, 384, true},
                             {33, 20, 1330, true, true}};

TEST(ProductTiles, AreSumsOfProducts) {
  for (const Problem &p : kProblems) {
    Operands in(p);
    Values found = computed(p, in, 1, false);
    for (int64_t i = 0; i < p.rows; ++i)
      for (int64_t j = 0; j < p.columns; ++j) {
        double sum = p.bias ? in.bias[static_cast<size_t>(j)] : 0;
        for (int64_t k = 0; k < p.terms; ++k)
          sum += static_cast<double>(in.a[static_cast<size_t>(i * p.terms + k)]) *
                 in.b[static_cast<size_t>(p.transposed ? j * p.terms + k : k * p.columns + j)];
        ASSERT_NEAR(found[static_cast<size_t>(i * p.columns + j)], sum, 2e-5)
            << p.rows << " x " << p.terms << " x " << p.columns << ", element " << i << ", " << j;
      }
  }
}

TEST(ProductTiles, BitsDependOnNeitherThreadsNorPackingNorOtherRows) {
  for (const Problem &p : kProblems) {
    Operands in(p);
    Values found = computed(p, in, 1, false);
    for (int threads : {1, 2, 7})
      for (bool packed : {false, true})
        EXPECT_EQ(computed(p, in, threads, packed), found) << threads << " threads";
    for (int64_t rows : {1, 3, 12}) {
      Problem some = p;
      some.rows = std::min(rows, p.rows);
      Values first = computed(some, in, 2, true);
      EXPECT_TRUE(std::equal(first.begin(), first.end(), found.begin())) << rows << " rows";
    }
  }
}

// Also where the terms come in parts, and a panel is not full.
TEST(ProductTiles, ABiasIsAddedToTheWholeSum) {
  for (Problem p : {Problem{32, 257, 8, true}, Problem{40, 600, 50}, Problem{7, 256, 16}}) {
    Operands in(p);
    Values wanted = computed(p, in, 2, false);
    for (size_t i = 0; i < wanted.size(); ++i)
      wanted[i] += in.bias[i % in.bias.size()];
    p.bias = true;
    EXPECT_EQ(computed(p, in, 2, false), wanted) << p.terms << " terms";
  }
}

// Of one term, too, of more rows than a task has, and with gaps between the terms.
TEST(ProductTiles, ATransposedAGivesTheSameBits) {
  for (Problem p : {Problem{33, 1, 64}, Problem{32, 256, 66, true}, Problem{45, 600, 80},
                    Problem{230, 257, 130, true, true}, Problem{40, 20, 8},
                    Problem{100, 260, 2300, false, true}}) {
    Operands in(p), turned = in;
    p.post_ops = {{PostOp::kAdd, StridedShape{{p.rows, p.columns}, {p.columns, 1}}}};
    Values wanted = computed(p, in, 1, false);
    for (int64_t gap : {0, 3}) {
      p.a_term = p.rows + gap;
      turned.a.assign(static_cast<size_t>(p.terms * p.a_term), -7);
      for (int64_t i = 0; i < p.rows; ++i)
        for (int64_t k = 0; k < p.terms; ++k)
          turned.a[static_cast<size_t>(k * p.a_term + i)] =
              in.a[static_cast<size_t>(i * p.terms + k)];
      EXPECT_EQ(has_tiled_matmul() && p.columns >= 64, computes_by_tiles(p.matmul()));
      for (int threads : {1, 2, 7})
        for (bool packed : {false, true})
          EXPECT_EQ(computed(p, turned, threads, packed), wanted) << p.terms << " terms";
    }
    p.a_term = 0;
  }
}

// A row of numbers, repeated for each term.
TEST(ProductTiles, AnAWhoseTermsAreOneIsASumOfB) {
  Problem p{40, 300, 70};
  Operands in(p), row = in;
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t k = 0; k < p.terms; ++k)
      in.a[static_cast<size_t>(i * p.terms + k)] = row.a[static_cast<size_t>(i)];
  Values wanted = computed(p, in, 1, false);
  p.repeats_a = true;
  EXPECT_EQ(computed(p, row, 2, false), wanted);
}

TEST(ProductTiles, PostOpsFollowTheSums) {
  Problem bare{40, 270, 50, true, true}, both = bare;
  both.post_ops = {{PostOp::kAdd, StridedShape{{40, 50}, {50, 1}}}, {PostOp::kRelu, std::nullopt}};
  Operands in(both);
  in.a[3] = std::numeric_limits<float>::quiet_NaN();
  Values sums = computed(bare, in, 2, false), found = computed(both, in, 2, false);
  for (size_t i = 0; i < sums.size(); ++i) {
    float wanted = sums[i] + in.term[i];
    if (i < 50)
      ASSERT_TRUE(std::isnan(found[i]));
    else
      ASSERT_EQ(found[i], wanted < 0 ? 0 : wanted);
  }
}

// What is not finite stays in its row, or its column.
TEST(ProductTiles, InfinitiesStayWhereTheyAre) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Problem p{14, 20, 21, true};
  Operands in(p);
  in.a[2 * 20 + 5] = kInfinity;
  in.b[20 * 20 + 19] = -kInfinity;
  Values found = computed(p, in, 1, true);
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t j = 0; j < p.columns; ++j)
      EXPECT_EQ(std::isfinite(found[static_cast<size_t>(i * p.columns + j)]), i != 2 && j != 20);
}

} // namespace
} // namespace weft::backends::cpu

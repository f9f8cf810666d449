#include "frontend/compile/generalize.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::recorder {
namespace {

using Ints = std::vector<int64_t>;
constexpr IntPosition kSize{IntPosition::Kind::kSize, 0, 0, 0},
    kStart{IntPosition::Kind::kAttribute, 0, 0, 0};

struct Result {
  bool made;
  Generalization general;
  std::string why;
};
Result make(const std::vector<Ints> &observations, const std::vector<IntPosition> &positions) {
  std::vector<const Ints *> pointers;
  for (const Ints &ints : observations)
    pointers.push_back(&ints);
  Result result;
  result.made =
      generalize(pointers, positions, /*sizes_as_scalars=*/false, result.general, result.why);
  return result;
}
bool matches(const Generalization &general, const Ints &ints) {
  return general.match(ints).has_value();
}

TEST(Generalize, EqualSizesShareAName) {
  Result r = make({{24, 7, 24}, {32, 7, 32}}, {kSize, kSize, kSize});
  ASSERT_TRUE(r.made);
  ASSERT_EQ(r.general.sizes.size(), 1u);
  EXPECT_EQ(r.general.sizes[0].name, "s0");
  EXPECT_EQ(r.general.sizes[0].low, 2);
  EXPECT_EQ(r.general.sizes[0].high, 32);
  EXPECT_TRUE(matches(r.general, {5, 7, 5}));
  EXPECT_FALSE(matches(r.general, {5, 7, 6})) << "one name is one size";
  EXPECT_FALSE(matches(r.general, {5, 8, 5})) << "the constant differs";
  EXPECT_FALSE(matches(r.general, {33, 7, 33})) << "out of range";
  EXPECT_FALSE(matches(r.general, {1, 7, 1})) << "1 broadcasts";
  EXPECT_FALSE(matches(r.general, {0, 7, 0})) << "0 is empty";
  EXPECT_FALSE(matches(r.general, {5, 7}));
}

TEST(Generalize, TheRangeGrowsByPowersOfTwo) {
  Result r = make({{24}, {32}, {33}}, {kSize});
  ASSERT_TRUE(r.made);
  EXPECT_EQ(r.general.sizes[0].high, 64);
}

TEST(Generalize, ProductsOfOtherSizes) {
  // batch, tokens, batch * tokens, 4 * tokens
  Result r = make({{6, 5, 30, 20}, {10, 9, 90, 36}}, {kSize, kSize, kSize, kSize});
  ASSERT_TRUE(r.made);
  ASSERT_EQ(r.general.sizes.size(), 4u);
  EXPECT_EQ(r.general.sizes[2].name, "s0.4");
  EXPECT_EQ(r.general.sizes[3].name, "s0.s1");
  EXPECT_EQ(r.general.sizes[3].high, 256);
  EXPECT_TRUE(matches(r.general, {3, 4, 12, 16}));
  EXPECT_FALSE(matches(r.general, {3, 4, 13, 16}));
}

TEST(Generalize, RangesAroundTheNewest) {
  Result r = make({{43, 129}, {50, 150}}, {kSize, kSize}); // a size, and three times it
  ASSERT_TRUE(r.made);
  while (r.general.raise_ranges()) {
  }
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  Ranges ranges = r.general.ranges_around();
  ASSERT_GE(ranges.size(), 6u);
  ranges.resize(6);
  EXPECT_EQ(ranges, (Ranges{{32, 57}, {41, 64}, {41, 57}, {32, 53}, {46, 64}, {46, 53}}));
  r.general.set_range({41, 53});
  EXPECT_EQ(r.general.sizes[1].low, 123);
  EXPECT_EQ(r.general.sizes[1].high, 159);
  EXPECT_TRUE(matches(r.general, {41, 123}));
  EXPECT_FALSE(matches(r.general, {54, 162}));
  EXPECT_TRUE(make({{6, 5}, {10, 9}}, {kSize, kSize}).general.ranges_around().empty());
}

TEST(Generalize, ARangeLiesOnTheNewestsSideOfAnyThreshold) {
  for (int64_t newest = 32; newest <= 64; ++newest) {
    Result r = make({{newest == 48 ? 47 : 48}, {newest}}, {kSize});
    ASSERT_TRUE(r.made);
    while (r.general.raise_ranges()) {
    }
    auto ranges = r.general.ranges_around();
    auto sorted = ranges;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end()) << newest;
    EXPECT_LE(ranges.size(), 18u) << newest; // 3 for each halving, and the ends
    for (int64_t first = 33; first <= 64; ++first) {
      bool is_alone = (newest == 32 && first == 33) || (newest == 64 && first == 64);
      bool found = std::any_of(ranges.begin(), ranges.end(), [&](auto range) {
        return range.first <= newest && newest <= range.second &&
               (range.second < first || range.first >= first);
      });
      EXPECT_NE(found, is_alone) << newest << " of a library that begins at " << first;
    }
  }
}

TEST(Generalize, OneSizeAloneHoldsTheOthers) {
  // As above, and a start; what was left out counts as it is.
  std::vector<Ints> observations{{1, 5, 5, 20, 7}, {6, 5, 30, 20, 3}, {10, 9, 90, 36, 3}};
  std::vector<IntPosition> positions{kSize, kSize, kSize, kSize, kStart};
  Result r = make(observations, positions);
  ASSERT_TRUE(r.made);
  ASSERT_EQ(r.general.free_sizes(), (std::vector<uint32_t>{0, 1})); // tokens, batch
  std::vector<const Ints *> pointers;
  for (const Ints &ints : observations)
    pointers.push_back(&ints);
  EXPECT_EQ(hold_other_sizes(pointers, positions, r.general, 1),
            (std::vector<Ints>{{1, 9, 9, 36, 3}, {6, 9, 54, 36, 3}, {10, 9, 90, 36, 3}}));
  EXPECT_EQ(hold_other_sizes(pointers, positions, r.general, 0),
            (std::vector<Ints>{{10, 5, 50, 20, 3}, {10, 5, 50, 20, 3}, {10, 9, 90, 36, 3}}));
}

TEST(Generalize, OnesAreNeverNamed) {
  Result r = make({{1, 4}, {8, 4}}, {kSize, kSize});
  EXPECT_FALSE(r.made);
  EXPECT_NE(r.why.find("broadcasting"), std::string::npos);
  // Another observation that fits is used.
  r = make({{1, 4}, {16, 4}, {8, 4}}, {kSize, kSize});
  ASSERT_TRUE(r.made);
  EXPECT_EQ(r.general.sizes[0].high, 16);
  // A start may be anything.
  EXPECT_TRUE(make({{0}, {1}}, {kStart}).made);
}

TEST(Generalize, StartsAreScalarsApartFromSizes) {
  Result r = make({{3, 3, 9}, {4, 4, 9}}, {kStart, kSize, kSize});
  ASSERT_TRUE(r.made);
  EXPECT_EQ(r.general.sizes.size(), 1u);
  ASSERT_EQ(r.general.scalars.size(), 1u);
  std::optional<Generalization::Match> match = r.general.match({-1, 2, 9});
  ASSERT_TRUE(match);
  EXPECT_EQ(match->sizes, (Ints{2}));
  EXPECT_EQ(match->scalars, (Ints{-1}));
}

TEST(Generalize, EqualProgramsHaveEqualTexts) {
  EXPECT_EQ(make({{3}, {5}}, {kSize}).general.text(), make({{3}, {5}}, {kSize}).general.text());
  EXPECT_NE(make({{3}, {5}}, {kSize}).general.text(), make({{3}, {9}}, {kSize}).general.text());
  // One that takes its size as a number has one argument more.
  Generalization takes_size = make({{3}, {5}}, {kSize}).general, other = takes_size;
  takes_size.scalars.push_back({IntPosition::Kind::kSize, takes_size.sizes[0].position});
  EXPECT_NE(takes_size.text(), other.text());
}

} // namespace
} // namespace weft::recorder

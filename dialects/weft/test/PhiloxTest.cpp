#include "dialects/weft/reference/Philox.h"

#include <gtest/gtest.h>

namespace weft::ir {
namespace {

// The known-answer vectors that the authors publish with Random123 (kat_vectors, philox4x32 with 10
// rounds).
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SixtyFourNeighboursAreFourVectorsOfSixteenBlocks) {
  EXPECT_EQ(philoxWord(7, 100, 0), philox({100, 0, 0, 0}, {7, 0})[0]);
  EXPECT_EQ(philoxWord(7, 100, 15), philox({115, 0, 0, 0}, {7, 0})[0]);
  EXPECT_EQ(philoxWord(7, 100, 16), philox({100, 0, 0, 0}, {7, 0})[1]);
  EXPECT_EQ(philoxWord(7, 100, 63), philox({115, 0, 0, 0}, {7, 0})[3]);
  EXPECT_EQ(philoxWord(7, 100, 64), philox({116, 0, 0, 0}, {7, 0})[0]);
  EXPECT_EQ(philoxWord(7, 100, 64, 1), philox({116, 0, 1, 0}, {7, 0})[0]); // of stream 1
  // Key and block number are 64 bits, low word first; the block number carries.
  EXPECT_EQ(philoxWord(0x500000007, 0xffffffff, 1), philox({0, 1, 0, 0}, {7, 5})[0]);
}

TEST(Philox, Blocks) {
  EXPECT_EQ(philoxBlocks(0), 0);
  EXPECT_EQ(philoxBlocks(1), 16);
  EXPECT_EQ(philoxBlocks(64), 16);
  EXPECT_EQ(philoxBlocks(65), 32);
}

} // namespace
} // namespace weft::ir

#include "runtime/memory/pieces.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace weft::runtime {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

void *at(int64_t address) {
  return reinterpret_cast<void *>(address);
}

TEST(Pieces, AreCutAndGrowTogether) {
  Pieces pieces;
  pieces.add(at(1000), 100);
  EXPECT_EQ(pieces.take(10, kMost), nullptr); // all is in use
  EXPECT_EQ(pieces.put(at(1000)), at(1000));
  EXPECT_EQ(pieces.take(30, kMost), at(1000));
  EXPECT_EQ(pieces.take(30, kMost), at(1030));
  EXPECT_EQ(pieces.take(40, kMost), at(1060));
  EXPECT_EQ(pieces.take(1, kMost), nullptr);
  EXPECT_EQ(pieces.put(at(1030)), nullptr);
  EXPECT_EQ(pieces.put(at(1060)), nullptr);
  EXPECT_EQ(pieces.take(71, kMost), nullptr);
  EXPECT_EQ(pieces.take(70, kMost), at(1030)); // of two that were freed
  EXPECT_EQ(pieces.put(at(1000)), nullptr);
  EXPECT_EQ(pieces.put(at(1030)), at(1000)); // nothing of the block is in use
  EXPECT_EQ(pieces.bytes_of(at(1000)), 100);
  pieces.remove(at(1000));
  EXPECT_EQ(pieces.take(1, kMost), nullptr);
}

TEST(Pieces, BlocksThatMeetDoNotGrowTogether) {
  Pieces pieces;
  pieces.add(at(1000), 100);
  pieces.add(at(1100), 100);
  EXPECT_EQ(pieces.put(at(1100)), at(1100));
  EXPECT_EQ(pieces.put(at(1000)), at(1000));
  EXPECT_EQ(pieces.take(150, kMost), nullptr);
  EXPECT_EQ(pieces.bytes_of(at(1100)), 100);
}

TEST(Pieces, TheSmallestThatFitsIsTakenFromTheLowestAddressOn) {
  Pieces pieces;
  for (auto [address, bytes] : {std::pair(1000, 80), std::pair(2000, 50), std::pair(3000, 50)}) {
    pieces.add(at(address), bytes);
    pieces.put(at(address));
  }
  EXPECT_EQ(pieces.take(40, kMost), at(2000));
  EXPECT_EQ(pieces.take(50, 50), at(3000));
  EXPECT_EQ(pieces.take(50, 79), nullptr); // one of 80 would be cut
  EXPECT_EQ(pieces.take(50, 80), at(1000));
  EXPECT_EQ(pieces.take(10, kMost), at(2040));
}

// Beside a map of each byte.
TEST(Pieces, NoTwoUsesOfAByte) {
  std::mt19937 random(5);
  Pieces pieces;
  std::map<int64_t, int64_t> used;   // bytes by address
  std::map<int64_t, int64_t> blocks; // the same of blocks
  int64_t next = 1 << 20;
  auto block_of = [&](int64_t address) {
    return std::prev(blocks.upper_bound(address));
  };
  auto used_in = [&](int64_t block, int64_t bytes) {
    auto first = used.lower_bound(block);
    return first != used.end() && first->first < block + bytes;
  };
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      int64_t bytes = 1 + random() % 300;
      auto piece = reinterpret_cast<int64_t>(pieces.take(bytes, kMost));
      if (piece == 0) {
        // No block has a hole so large.
        for (auto [block, size] : blocks) {
          int64_t hole = block;
          for (auto it = used.lower_bound(block); it != used.end() && it->first < block + size;
               ++it) {
            ASSERT_LT(it->first - hole, bytes);
            hole = it->first + it->second;
          }
          ASSERT_LT(block + size - hole, bytes);
        }
        int64_t size = bytes + random() % 1000;
        pieces.add(at(next), size);
        ASSERT_EQ(pieces.put(at(next)), at(next));
        blocks[next] = size;
        next += size + random() % 2; // some meet
        piece = reinterpret_cast<int64_t>(pieces.take(bytes, kMost));
      }
      auto [block, size] = *block_of(piece);
      ASSERT_LE(piece + bytes, block + size);
      auto after = used.lower_bound(piece);
      ASSERT_TRUE(after == used.end() || piece + bytes <= after->first);
      if (after != used.begin())
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, piece);
      used[piece] = bytes;
    } else if (!used.empty()) {
      auto freed = std::next(used.begin(), static_cast<int64_t>(random() % used.size()));
      int64_t address = freed->first;
      used.erase(freed);
      auto [block, size] = *block_of(address);
      void *whole = pieces.put(at(address));
      ASSERT_EQ(whole, used_in(block, size) ? nullptr : at(block));
      if (whole && random() % 2 == 0) {
        ASSERT_EQ(pieces.bytes_of(whole), size);
        pieces.remove(whole);
        blocks.erase(block);
      }
    }
  }
}

} // namespace
} // namespace weft::runtime

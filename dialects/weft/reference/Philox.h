// Philox 4x32-10, the counter-based random generator of Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3" (SC 2011): what every backend must compute. Depends on
// nothing, so that tests and other backends can share it.
#pragma once

#include <array>
#include <cstdint>

namespace weft::ir {

inline constexpr int kPhiloxRounds = 10;

// The four words of the block that `counter` numbers under `key`.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    if (round > 0) {
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    uint64_t a = uint64_t(0xD2511F53u) * counter[0], b = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
  }
  return counter;
}

// Word `element` of the stream that a random op reads: 64 neighbours are four vectors of 16 blocks,
// whatever the vector width. The 64-bit key and block number enter low word first; the third word
// of the counter is `stream`, the fourth is 0. Stream 1 has the words that float64 samples take
// beside those of stream 0.
constexpr uint32_t philoxWord(uint64_t key, uint64_t firstBlock, uint64_t element,
                              uint32_t stream = 0) {
  uint64_t block = firstBlock + element / 64 * 16 + element % 16;
  return philox({uint32_t(block), uint32_t(block >> 32), stream, 0},
                {uint32_t(key), uint32_t(key >> 32)})[element / 16 % 4];
}

// The blocks that a tensor of `elements` elements takes.
constexpr int64_t philoxBlocks(int64_t elements) {
  return (elements + 63) / 64 * 16;
}

} // namespace weft::ir

// The generator behind shuffling and sampling: small, seeded, the same on every platform.
#pragma once

#include <cstdint>

namespace weft::data {

// SplitMix64 (Steele, Lea and Flood 2014): one 64-bit word of state, so that a position can be
// stored and set again. std::shuffle and std::uniform_int_distribution differ between standard
// libraries; a resumed run must not.
class SplitMix64 {
public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  // 64 random bits.
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  // Uniform over [0, bound), without bias (Lemire 2019); bound > 0.
  uint64_t below(uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
    uint64_t low = static_cast<uint64_t>(product);
    if (low < bound) {
      for (uint64_t threshold = (0 - bound) % bound; low < threshold;) {
        product = static_cast<unsigned __int128>(next()) * bound;
        low = static_cast<uint64_t>(product);
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Uniform over [0, 1) with 53 bits.
  double uniform() {
    return static_cast<double>(next() >> 11) * 0x1p-53;
  }

private:
  uint64_t state_;
};

// A seed for item `index` of the stream that `seed` names; neighbouring seeds and indices give
// unrelated streams.
inline uint64_t derived_seed(uint64_t seed, uint64_t index) {
  SplitMix64 first(seed);
  return SplitMix64(first.next() + index).next();
}

} // namespace weft::data

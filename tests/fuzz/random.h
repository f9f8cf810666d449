// Random numbers that are the same everywhere (std's distributions are not).
#pragma once

#include <cstdint>

namespace weft::fuzz {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(n));
  }
  int64_t between(int64_t low, int64_t high) {
    return low + below(high - low + 1);
  }
  bool chance(double p) {
    return static_cast<double>(next() >> 11) * 0x1p-53 < p;
  }
  template <typename C> const auto &of(const C &choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }

private:
  uint64_t state_;
};

} // namespace weft::fuzz

// Elements as unsigned integers in the order of a sort: NaN is the largest, whatever its bits, and
// -0 equals 0.
#pragma once

#include <cstdint>

namespace weft::backends::cpu {

// Of IEEE floats, by their bits. kInfinity: the bits of infinity, below which numbers without their
// sign stand in order.
template <typename Bits, Bits kInfinity> struct FloatKey {
  using Source = Bits; // as elements lie in memory
  using Key = Bits;
  static Key of(Source bits) {
    constexpr auto kSign = static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1));
    auto magnitude = static_cast<Bits>(bits & ~kSign);
    // Positive numbers behind negative ones, which stand in the reverse order of their bits.
    auto key = static_cast<Bits>(bits & kSign ? ~bits : bits | kSign);
    key = magnitude == 0 ? kSign : key;
    return magnitude > kInfinity ? static_cast<Bits>(~Bits(0)) : key;
  }
};

template <typename Bits> struct SignedKey {
  using Source = Bits;
  using Key = Bits;
  static Key of(Source bits) {
    return static_cast<Bits>(bits ^ static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1)));
  }
};

template <typename Bits> struct UnsignedKey {
  using Source = Bits;
  using Key = Bits;
  static Key of(Source bits) {
    return bits;
  }
};

// What is sorted: a key and the index of its element. No two of a row are equal, so that any way to
// sort them gives one result, the stable one.

// A key of at most 32 bits above an index of 32.
struct Packed {
  using Element = uint64_t;
  using Count = uint32_t;
  static Element make(uint64_t key, int64_t index) {
    return key << 32 | static_cast<uint32_t>(index);
  }
  static int64_t index(Element e) {
    return static_cast<uint32_t>(e);
  }
  static uint64_t key(Element e) {
    return e >> 32;
  }
};

// Keys of 64 bits, and rows of 2^32 elements or more.
struct Wide {
  struct Element {
    uint64_t key;
    int64_t index;
    bool operator<(const Element &other) const {
      return key != other.key ? key < other.key : index < other.index;
    }
  };
  using Count = uint64_t;
  static Element make(uint64_t key, int64_t index) {
    return {key, index};
  }
  static int64_t index(const Element &e) {
    return e.index;
  }
  static uint64_t key(const Element &e) {
    return e.key;
  }
};

} // namespace weft::backends::cpu

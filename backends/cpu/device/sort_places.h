// The elements at some places of a row's order, without the order of all others: how often each
// digit of the keys is there is counted, and the elements with the digits that stand at these
// places are kept; then the same by the next digit of what is kept, until that is little. Each
// digit is two passes over what is left.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cpu/device/sort_rows.h"

namespace weft::backends::cpu {

// Places [first, first + count) of the order.
struct Places {
  int64_t first, count;
};

// `bits` bits of keys, above `shift` others. All keys agree in the bits above.
struct Digit {
  int shift, bits;

  // The most significant one of a key. Longer rows are worth more counters: fewer are left then.
  static Digit top(int key_bits, int64_t row_size) {
    int bits = std::min(key_bits, row_size < SortLimits::kLongRow ? 8 : SortLimits::kMostDigitBits);
    return {key_bits - bits, bits};
  }
  // The next one; there is none where shift is 0.
  Digit next() const {
    int following = std::min(bits, shift);
    return {shift - following, following};
  }
  size_t count() const {
    return size_t(1) << bits;
  }
};

// f(i, keys, n) for blocks [i, i + n) of [begin, end), whose keys `read(i, keys, n)` writes: in
// loops of their own, which are vectors where elements lie side by side.
template <typename Key, typename Read, typename F>
void for_blocks(int64_t begin, int64_t end, const Read &read, const F &f) {
  std::array<Key, SortLimits::kKeyBlock> keys;
  for (int64_t i = begin; i < end; i += SortLimits::kKeyBlock) {
    int64_t n = std::min(SortLimits::kKeyBlock, end - i);
    read(i, keys.data(), n);
    f(i, keys.data(), n);
  }
}

// How many elements have each digit. Neighbours count in turns: one counter that each of many
// elements in a row adds to would have them wait for each other.
template <typename Count> struct DigitCounts {
  std::array<std::array<Count, size_t(1) << SortLimits::kMostDigitBits>, 2> counts;

  template <typename Key, typename Read>
  void count(Digit digit, int64_t begin, int64_t end, const Read &read) {
    for (auto &each : counts)
      std::fill_n(each.begin(), digit.count(), Count(0));
    auto mask = static_cast<Key>(digit.count() - 1);
    for_blocks<Key>(begin, end, read, [&](int64_t, Key *keys, int64_t n) {
      for (int64_t k = 0; k < n; ++k)
        keys[k] = static_cast<Key>(keys[k] >> digit.shift & mask);
      int64_t k = 0;
      for (; k + 2 <= n; k += 2) {
        ++counts[0][keys[k]];
        ++counts[1][keys[k + 1]];
      }
      if (k < n)
        ++counts[0][keys[k]];
    });
  }
  void add(const DigitCounts &other, Digit digit) {
    for (size_t i = 0; i < digit.count(); ++i)
      counts[0][i] += other.counts[0][i] + other.counts[1][i];
  }
  int64_t of(uint64_t digit) const {
    return static_cast<int64_t>(counts[0][digit] + counts[1][digit]);
  }
};

// Elements of digits [low, high], before which `before` others come.
struct DigitRange {
  uint64_t low = 0, high = 0;
  int64_t before = 0;

  // Those that the places lie among.
  template <typename Count> DigitRange(const DigitCounts<Count> &counts, Places places) {
    while (before + counts.of(low) <= places.first)
      before += counts.of(low++);
    high = low;
    for (int64_t reached = before + counts.of(low); reached < places.first + places.count;)
      reached += counts.of(++high);
  }

  // Moves those of [begin, end) to `to`, in their order, as `element(i, key)` makes them; how many.
  template <typename Key, typename Read, typename Make, typename Element>
  int64_t gather(Digit digit, int64_t begin, int64_t end, const Read &read, const Make &element,
                 Element *to) const {
    auto mask = static_cast<Key>(~Key(0));
    if (digit.shift + digit.bits < 8 * int(sizeof(Key)))
      mask = static_cast<Key>((Key(1) << (digit.shift + digit.bits)) - 1);
    auto lowest = static_cast<Key>(low << digit.shift),
         span = static_cast<Key>(((high + 1 - low) << digit.shift) - 1);
    int64_t held = 0;
    for_blocks<Key>(begin, end, read, [&](int64_t i, const Key *keys, int64_t n) {
      for (int64_t k = 0; k < n; ++k) {
        to[held] = element(i + k, keys[k]); // a branch would be foretold wrongly again and again
        held += static_cast<Key>((keys[k] & mask) - lowest) <= span;
      }
    });
    return held;
  }
};

// Brings the elements at `places` of the order of the `held` ones at `first` to the front of these,
// in order. They agree in all digits above `digit`, and in it as well where `agree`; they come in
// the order of their indices.
template <typename E, typename Key>
void order_places(typename E::Element *first, int64_t held, Places places, Digit digit, bool agree,
                  DigitCounts<typename E::Count> &counts) {
  auto read = [first](int64_t i, Key *keys, int64_t n) {
    for (int64_t k = 0; k < n; ++k)
      keys[k] = static_cast<Key>(E::key(first[i + k]));
  };
  while (agree && digit.shift > 0 && held > SortLimits::kFewLeft) {
    digit = digit.next();
    counts.template count<Key>(digit, 0, held, read);
    DigitRange range(counts, places);
    // Elements move to places that were read before.
    held = range.template gather<Key>(
        digit, 0, held, read, [first](int64_t i, Key) { return first[i]; }, first);
    places.first -= range.before;
    agree = range.low == range.high;
  }
  auto *begin = first + places.first, *end = begin + places.count;
  // Elements whose keys are equal are in order.
  if (!agree || digit.shift > 0) {
    if (places.first > 0)
      std::nth_element(first, begin, first + held);
    if (end < first + held)
      std::nth_element(begin, end - 1, first + held);
    std::sort(begin, end);
  }
  std::copy(begin, end, first);
}

} // namespace weft::backends::cpu

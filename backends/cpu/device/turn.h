// Squares of floats turned in registers: rows become columns.
#pragma once

#include <cstdint>
#include <utility>

#include "backends/cpu/device/vector_lanes.h"

namespace weft::backends::cpu {

// a0 b0 a1 b1 ... of two vectors, from lane kFirst of each on.
template <int kLanes, int kFirst, int... kAt>
WEFT_INLINE Vector<kLanes> interleave(const Vector<kLanes> &a, const Vector<kLanes> &b,
                                      std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(a, b, (kFirst + kAt / 2 + kAt % 2 * kLanes)...);
}

// to[j, i] = from[i, j] for i, j in [0, kLanes). from(i) and to(j) are where these rows begin; none
// of `to` is one of `from`. Rows that are interleaved with those half of them further on, once for
// each bit of an index, are turned.
template <int kLanes, typename From, typename To>
WEFT_INLINE void turn(const From &from, const To &to) {
  constexpr auto kAll = std::make_integer_sequence<int, kLanes>();
  Vector<kLanes> rows[kLanes], mixed[kLanes];
#pragma clang loop unroll(full)
  for (int i = 0; i < kLanes; ++i)
    rows[i] = load<kLanes>(from(i));
#pragma clang loop unroll(full)
  for (int bit = 1; bit < kLanes; bit *= 2) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kLanes / 2; ++i) {
      mixed[2 * i] = interleave<kLanes, 0>(rows[i], rows[i + kLanes / 2], kAll);
      mixed[2 * i + 1] = interleave<kLanes, kLanes / 2>(rows[i], rows[i + kLanes / 2], kAll);
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kLanes; ++i)
      rows[i] = mixed[i];
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < kLanes; ++i) {
    Vector<kLanes> value = rows[i];
    store(to(i), value);
  }
}

} // namespace weft::backends::cpu

// Squares of floats turned in registers: rows become columns.
#pragma once

#include <utility>

#include "backends/cpu/device/vector_lanes.h"

namespace weft::backends::cpu {

// a0 b0 a1 b1 ... of two vectors, from lane kFirst of each on.
template <int kLanes, int kFirst, int... kAt>
WEFT_INLINE Vector<kLanes> interleave(const Vector<kLanes> &a, const Vector<kLanes> &b,
                                      std::integer_sequence<int, kAt...>) {
  return __builtin_shufflevector(a, b, (kFirst + kAt / 2 + kAt % 2 * kLanes)...);
}

// kLanes rows. Those that are interleaved with those half of them further on, once for each bit of
// an index, are turned.
template <int kLanes> WEFT_INLINE void turn_rows(Vector<kLanes> *rows) {
  constexpr auto kAll = std::make_integer_sequence<int, kLanes>();
  Vector<kLanes> mixed[kLanes];
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
}
// AVX2 mixes halves of a vector at a greater cost than what is inside of them: once is enough.
template <> WEFT_INLINE void turn_rows<8>(Vector<8> *rows) {
  Vector<8> t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    t[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      rows[i + j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      rows[i + j + 2] =
          __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    t[i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    t[i + 4] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i)
    rows[i] = t[i];
}

// to[j, i] = from[i, j] for i, j in [0, kLanes). from(i) and to(j) are where these rows begin; none
// of `to` is one of `from`.
template <int kLanes, typename From, typename To>
WEFT_INLINE void turn(const From &from, const To &to) {
  Vector<kLanes> rows[kLanes];
#pragma clang loop unroll(full)
  for (int i = 0; i < kLanes; ++i)
    rows[i] = load<kLanes>(from(i));
  turn_rows<kLanes>(rows);
#pragma clang loop unroll(full)
  for (int i = 0; i < kLanes; ++i) {
    Vector<kLanes> value = rows[i];
    store(to(i), value);
  }
}

} // namespace weft::backends::cpu

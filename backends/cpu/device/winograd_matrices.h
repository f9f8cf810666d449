// The matrices of Winograd's transforms, as sums of vectors.
#pragma once

#include <cstdint>

#include "backends/cpu/device/vector_lanes.h"
#include "backends/cpu/device/winograd_tiles.h"

namespace weft::backends::cpu {

// The transforms of a row or a column; `from` and `step` elements lie from one to the next. Of a
// convolution: the image's m + 2 pixels, the weight's 3 taps, and back to m results. Of a weight's
// gradient, transposed: `spread` of m elements of the result's gradient, and `gather` back to 3
// taps.
template <int kTile> struct Matrices;

template <> struct Matrices<2> {
  template <typename V> static WEFT_INLINE void image(const V *d, V *to, int step) {
    V a = d[0], b = d[step], c = d[2 * step], e = d[3 * step];
    to[0] = a - c;
    to[step] = b + c;
    to[2 * step] = c - b;
    to[3 * step] = b - e;
  }
  template <typename V> static WEFT_INLINE void weight(const V *g, V *to, int from, int step) {
    V a = g[0], b = g[from], c = g[2 * from], half = (a + c) * 0.5f;
    to[0] = a;
    to[step] = half + b * 0.5f;
    to[2 * step] = half - b * 0.5f;
    to[3 * step] = c;
  }
  template <typename V> static WEFT_INLINE void result(const V *m, V *to, int from, int step) {
    V sum = m[from] + m[2 * from], difference = m[from] - m[2 * from];
    to[0] = m[0] + sum;
    to[step] = difference - m[3 * from];
  }
  // `result`, transposed.
  template <typename V> static WEFT_INLINE void spread(const V *y, V *to, int from, int step) {
    V a = y[0], b = y[from];
    to[0] = a;
    to[step] = a + b;
    to[2 * step] = a - b;
    to[3 * step] = -b;
  }
  // `weight`, transposed.
  template <typename V> static WEFT_INLINE void gather(const V *u, V *to, int from, int step) {
    V half_sum = (u[from] + u[2 * from]) * 0.5f, half_difference = (u[from] - u[2 * from]) * 0.5f;
    to[0] = u[0] + half_sum;
    to[step] = half_difference;
    to[2 * step] = half_sum + u[3 * from];
  }
};

// The points are 0, a, -a, b, -b: with a = 5/8 and b = 3/2, whose powers are exact, rounding errors
// are a third of those with 1 and 2 (and the transforms as fast).
template <> struct Matrices<4> {
  static constexpr float kA = 0.625f, kB = 1.5f, kAA = kA * kA, kBB = kB * kB, kAABB = kAA * kBB,
                         kOfA = 0.5f / (kAA * (kAA - kBB)), kOfB = 0.5f / (kBB * (kBB - kAA));

  template <typename V> static WEFT_INLINE void image(const V *d, V *to, int step) {
    V d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step],
      d5 = d[5 * step];
    V even_a = d4 - d2 * kBB, odd_a = d3 * kA - d1 * (kA * kBB), even_b = d4 - d2 * kAA,
      odd_b = d3 * kB - d1 * (kAA * kB);
    to[0] = d0 * kAABB - d2 * (kAA + kBB) + d4;
    to[step] = even_a + odd_a;
    to[2 * step] = even_a - odd_a;
    to[3 * step] = even_b + odd_b;
    to[4 * step] = even_b - odd_b;
    to[5 * step] = d1 * kAABB - d3 * (kAA + kBB) + d5;
  }
  template <typename V> static WEFT_INLINE void weight(const V *g, V *to, int from, int step) {
    V g0 = g[0], g1 = g[from], g2 = g[2 * from];
    V even_a = g0 * kOfA + g2 * (kAA * kOfA), odd_a = g1 * (kA * kOfA),
      even_b = g0 * kOfB + g2 * (kBB * kOfB), odd_b = g1 * (kB * kOfB);
    to[0] = g0 * (1 / kAABB);
    to[step] = even_a + odd_a;
    to[2 * step] = even_a - odd_a;
    to[3 * step] = even_b + odd_b;
    to[4 * step] = even_b - odd_b;
    to[5 * step] = g2;
  }
  template <typename V> static WEFT_INLINE void result(const V *m, V *to, int from, int step) {
    V sum_a = m[from] + m[2 * from], difference_a = m[from] - m[2 * from],
      sum_b = m[3 * from] + m[4 * from], difference_b = m[3 * from] - m[4 * from];
    to[0] = m[0] + sum_a + sum_b;
    to[step] = difference_a * kA + difference_b * kB;
    to[2 * step] = sum_a * kAA + sum_b * kBB;
    to[3 * step] = difference_a * (kAA * kA) + difference_b * (kBB * kB) + m[5 * from];
  }
  template <typename V> static WEFT_INLINE void spread(const V *y, V *to, int from, int step) {
    V y0 = y[0], y1 = y[from], y2 = y[2 * from], y3 = y[3 * from];
    V even_a = y0 + y2 * kAA, odd_a = y1 * kA + y3 * (kAA * kA), even_b = y0 + y2 * kBB,
      odd_b = y1 * kB + y3 * (kBB * kB);
    to[0] = y0;
    to[step] = even_a + odd_a;
    to[2 * step] = even_a - odd_a;
    to[3 * step] = even_b + odd_b;
    to[4 * step] = even_b - odd_b;
    to[5 * step] = y3;
  }
  template <typename V> static WEFT_INLINE void gather(const V *u, V *to, int from, int step) {
    V sum_a = (u[from] + u[2 * from]) * kOfA, difference_a = (u[from] - u[2 * from]) * (kA * kOfA),
      sum_b = (u[3 * from] + u[4 * from]) * kOfB,
      difference_b = (u[3 * from] - u[4 * from]) * (kB * kOfB);
    to[0] = u[0] * (1 / kAABB) + sum_a + sum_b;
    to[step] = difference_a + difference_b;
    to[2 * step] = sum_a * kAA + sum_b * kBB + u[5 * from];
  }
};

// Where a tile lies.
struct Place {
  int64_t image, row, column; // of its first result
};
template <int kTile> WEFT_INLINE Place place_of(const WinogradShape &s, int64_t tile) {
  int64_t columns = s.tile_columns(kTile), rows = s.tile_rows(kTile);
  return {tile / (rows * columns), tile / columns % rows * kTile, tile % columns * kTile};
}

} // namespace weft::backends::cpu

#include "backends/cpu/device/winograd_gradient_tiles.h"

#include "backends/cpu/device/winograd_matrices.h"

namespace weft::backends::cpu {
namespace {

template <int kLanes, int kTile>
WEFT_INLINE void gradient_filters(const WinogradShape &s, const float *const *elements, int64_t &k,
                                  float *to, int64_t matrix) {
  constexpr int kSide = kTile + 2;
  for (; k + kLanes <= s.filters; k += kLanes) {
    Vector<kLanes> y[kTile * kTile], half[kSide * kTile], all[kSide * kSide];
    for (int i = 0; i < kTile * kTile; ++i)
      y[i] = elements[i] ? load<kLanes>(elements[i] + k) : Vector<kLanes>(0.0f);
    for (int x = 0; x < kTile; ++x)
      Matrices<kTile>::spread(y + x, half + x, kTile, kTile);
    for (int i = 0; i < kSide; ++i)
      Matrices<kTile>::spread(half + i * kTile, all + i * kSide, 1, 1);
    for (int i = 0; i < kSide * kSide; ++i)
      store(to + i * matrix + k, all[i]);
  }
}

template <int kTile>
WEFT_INLINE void gradient_tiles(const WinogradShape &s, const float *gradient, int64_t first,
                                int64_t last, float *to, int64_t matrix) {
  for (int64_t tile = first; tile < last; ++tile, to += s.filters) {
    Place place = place_of<kTile>(s, tile);
    const float *elements[kTile * kTile]; // null behind the last row or column
    for (int i = 0; i < kTile; ++i)
      for (int j = 0; j < kTile; ++j) {
        int64_t y = place.row + i, x = place.column + j;
        elements[i * kTile + j] =
            y < s.rows && x < s.columns
                ? gradient + ((place.image * s.rows + y) * s.columns + x) * s.filters
                : nullptr;
      }
    int64_t k = 0;
    gradient_filters<16, kTile>(s, elements, k, to, matrix);
    gradient_filters<8, kTile>(s, elements, k, to, matrix);
    gradient_filters<4, kTile>(s, elements, k, to, matrix);
    gradient_filters<1, kTile>(s, elements, k, to, matrix);
  }
}

// As many channels of a filter as fill vectors of kLanes; true iff all are finite.
template <int kLanes, int kTile>
WEFT_INLINE bool weight_channels(const WinogradShape &s, const float *from, int64_t matrix,
                                 int64_t &c, float *weight) {
  constexpr int kSide = kTile + 2;
  Vector<kLanes> zeros = Vector<kLanes>(0.0f); // NaN where an element was not finite
  for (; c + kLanes <= s.channels; c += kLanes) {
    Vector<kLanes> u[kSide * kSide], half[3 * kSide], g[9];
    for (int i = 0; i < kSide * kSide; ++i)
      u[i] = load<kLanes>(from + i * matrix + c);
    for (int x = 0; x < kSide; ++x)
      Matrices<kTile>::gather(u + x, half + x, kSide, kSide);
    for (int i = 0; i < 3; ++i)
      Matrices<kTile>::gather(half + i * kSide, g + i * 3, 1, 1);
    float lanes[9][kLanes];
    for (int tap = 0; tap < 9; ++tap) {
      zeros += g[tap] * 0.0f;
      store(lanes[tap], g[tap]);
    }
    for (int lane = 0; lane < kLanes; ++lane)
      for (int tap = 0; tap < 9; ++tap)
        weight[(c + lane) * 9 + tap] = lanes[tap][lane];
  }
  float lanes[kLanes], sum = 0;
  store(lanes, zeros);
  for (float lane : lanes)
    sum += lane;
  return sum == 0;
}

template <int kTile>
WEFT_INLINE bool weight_filters(const WinogradShape &s, const float *from, int64_t matrix,
                                int64_t first, int64_t last, float *weight) {
  bool finite = true;
  for (int64_t k = first; k < last; ++k) {
    const float *row = from + k * s.channels;
    float *to = weight + k * s.channels * 9;
    int64_t c = 0;
    finite &= weight_channels<16, kTile>(s, row, matrix, c, to);
    finite &= weight_channels<8, kTile>(s, row, matrix, c, to);
    finite &= weight_channels<4, kTile>(s, row, matrix, c, to);
    finite &= weight_channels<1, kTile>(s, row, matrix, c, to);
  }
  return finite;
}

// The same for each kind of processor, with the instructions that it has.
#define WEFT_WINOGRAD(name, attribute)                                                             \
  template <int kTile> struct name {                                                               \
    attribute static void gradient(const WinogradShape &shape, const float *gradient,              \
                                   int64_t first, int64_t last, float *to, int64_t matrix) {       \
      gradient_tiles<kTile>(shape, gradient, first, last, to, matrix);                             \
    }                                                                                              \
    attribute static bool weight(const WinogradShape &shape, const float *from, int64_t matrix,    \
                                 int64_t first, int64_t last, float *weight) {                     \
      return weight_filters<kTile>(shape, from, matrix, first, last, weight);                      \
    }                                                                                              \
    static constexpr WinogradGradientTransforms kAll = {gradient, weight};                         \
  };
WEFT_WINOGRAD(Plain, )
WEFT_WINOGRAD(Avx2, WEFT_AVX2)
WEFT_WINOGRAD(Avx512, WEFT_AVX512)
#undef WEFT_WINOGRAD

template <int kTile> const WinogradGradientTransforms &transforms_here() {
  return of_processor(Plain<kTile>::kAll, Avx2<kTile>::kAll, Avx512<kTile>::kAll);
}

} // namespace

const WinogradGradientTransforms &winograd_gradient_transforms(int64_t m) {
  return m == 2 ? transforms_here<2>() : transforms_here<4>();
}

} // namespace weft::backends::cpu

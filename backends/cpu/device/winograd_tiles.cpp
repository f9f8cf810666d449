#include "backends/cpu/device/winograd_tiles.h"

#include <algorithm>

#include "backends/cpu/device/winograd_matrices.h"

namespace weft::backends::cpu {
namespace {

template <int kLanes, int kTile>
WEFT_INLINE void image_channels(const WinogradShape &s, const float *const *pixels, int64_t &c,
                                float *to, int64_t matrix) {
  constexpr int kSide = kTile + 2;
  for (; c + kLanes <= s.channels; c += kLanes) {
    Vector<kLanes> d[kSide * kSide], half[kSide * kSide];
    for (int i = 0; i < kSide * kSide; ++i)
      d[i] = pixels[i] ? load<kLanes>(pixels[i] + c) : Vector<kLanes>(0.0f);
    for (int x = 0; x < kSide; ++x)
      Matrices<kTile>::image(d + x, half + x, kSide);
    for (int y = 0; y < kSide; ++y)
      Matrices<kTile>::image(half + y * kSide, d + y * kSide, 1);
    for (int i = 0; i < kSide * kSide; ++i)
      store(to + i * matrix + c, d[i]);
  }
}

template <int kTile>
WEFT_INLINE void image_tiles(const WinogradShape &s, const float *image, int64_t first,
                             int64_t last, float *to, int64_t matrix) {
  constexpr int kSide = kTile + 2;
  for (int64_t tile = first; tile < last; ++tile, to += s.channels) {
    Place place = place_of<kTile>(s, tile);
    const float *pixels[kSide * kSide]; // null where there is padding
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        int64_t y = place.row + i - s.padding[0], x = place.column + j - s.padding[1];
        bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
        pixels[i * kSide + j] =
            inside ? image + ((place.image * s.height + y) * s.width + x) * s.channels : nullptr;
      }
    int64_t c = 0;
    image_channels<16, kTile>(s, pixels, c, to, matrix);
    image_channels<8, kTile>(s, pixels, c, to, matrix);
    image_channels<4, kTile>(s, pixels, c, to, matrix);
    image_channels<1, kTile>(s, pixels, c, to, matrix);
  }
}

// kLanes filters of a channel.
template <int kLanes, int kTile>
WEFT_INLINE void weight_filters(const WinogradShape &s, const float *weight, int64_t k, int64_t c,
                                float *matrices, float *taps) {
  constexpr int kSide = kTile + 2;
  int64_t size = s.channels * s.filters, at = c * s.filters + k;
  int64_t matrix = s.matrix_elements(),
          in_matrix = s.panels
                          ? (k / kPanelColumns * s.channels + c) * kPanelColumns + k % kPanelColumns
                          : at;
  float lanes[9][kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const float *from = weight + (k + lane) * s.filter_stride + c * s.channel_stride;
    for (int tap = 0; tap < 9; ++tap)
      lanes[tap][lane] = from[s.flipped ? 8 - tap : tap];
  }
  Vector<kLanes> g[9], half[kSide * 3], u[kSide * kSide];
  for (int tap = 0; tap < 9; ++tap) {
    g[tap] = load<kLanes>(lanes[tap]);
    store(taps + tap * size + at, g[tap]);
  }
  for (int x = 0; x < 3; ++x)
    Matrices<kTile>::weight(g + x, half + x, 3, 3);
  for (int y = 0; y < kSide; ++y)
    Matrices<kTile>::weight(half + y * 3, u + y * kSide, 1, 1);
  for (int i = 0; i < kSide * kSide; ++i)
    store(matrices + i * matrix + in_matrix, u[i]);
}

// Zeros for columns of the last panel that are no filters.
template <int kTile> WEFT_INLINE void fill_panels(const WinogradShape &s, float *matrices) {
  int64_t columns = s.filters % kPanelColumns, matrix = s.matrix_elements();
  if (columns == 0)
    return;
  for (int i = 0; i < (kTile + 2) * (kTile + 2); ++i)
    for (int64_t c = 0; c < s.channels; ++c) {
      float *row =
          matrices + i * matrix + (s.filters / kPanelColumns * s.channels + c) * kPanelColumns;
      std::fill(row + columns, row + kPanelColumns, 0.0f);
    }
}

// By channels within the filters of a thread, so that what is written to each of the matrices lies
// in a row: a store to a page of its own takes 20 times as long.
template <int kTile>
WEFT_INLINE void weight_matrices(const WinogradShape &s, const float *weight, int64_t first,
                                 int64_t last, float *matrices, float *taps) {
  if (s.panels) {
    int64_t k = first;
    for (; k + 16 <= last; k += 16)
      for (int64_t c = 0; c < s.channels; ++c)
        weight_filters<16, kTile>(s, weight, k, c, matrices, taps);
    for (; k < last; ++k)
      for (int64_t c = 0; c < s.channels; ++c)
        weight_filters<1, kTile>(s, weight, k, c, matrices, taps);
    if (last == s.filters)
      fill_panels<kTile>(s, matrices);
    return;
  }
  for (int64_t c = 0; c < s.channels; ++c) {
    int64_t k = first;
    for (; k + 16 <= last; k += 16)
      weight_filters<16, kTile>(s, weight, k, c, matrices, taps);
    for (; k < last; ++k)
      weight_filters<1, kTile>(s, weight, k, c, matrices, taps);
  }
}

// Where the results of a tile go.
struct Target {
  float *result; // the tile's first
  int64_t row, rows, columns;
  const float *bias;
  Relu relu;
};

// True iff all results are finite.
template <int kLanes, int kTile>
WEFT_INLINE bool result_filters(const WinogradShape &s, const Target &target, const float *from,
                                int64_t matrix, int64_t &k) {
  constexpr int kSide = kTile + 2;
  Vector<kLanes> zeros = Vector<kLanes>(0.0f); // NaN where a result was not finite
  for (; k + kLanes <= s.filters; k += kLanes) {
    Vector<kLanes> m[kSide * kSide], half[kTile * kSide], y[kTile * kTile];
    for (int i = 0; i < kSide * kSide; ++i)
      m[i] = load<kLanes>(from + i * matrix + k);
    for (int x = 0; x < kSide; ++x)
      Matrices<kTile>::result(m + x, half + x, kSide, kSide);
    for (int i = 0; i < kTile; ++i)
      Matrices<kTile>::result(half + i * kSide, y + i * kTile, 1, 1);
    Vector<kLanes> bias = target.bias ? load<kLanes>(target.bias + k) : Vector<kLanes>(0.0f);
    for (int i = 0; i < kTile * kTile; ++i) {
      y[i] += bias;
      zeros += y[i] * 0.0f;
    }
    for (int i = 0; i < target.rows; ++i)
      for (int j = 0; j < kTile; ++j)
        if (j < target.columns)
          store(target.result + i * target.row + j * s.filters + k,
                rectified(y[i * kTile + j], target.relu));
  }
  float lanes[kLanes], sum = 0;
  store(lanes, zeros);
  for (float lane : lanes)
    sum += lane;
  return sum == 0;
}

// As a sum of products, one after the other.
WEFT_INLINE void compute_anew(const WinogradShape &s, const Target &target, const Place &place,
                              const float *image, const float *taps) {
  for (int64_t i = 0; i < target.rows; ++i)
    for (int64_t j = 0; j < target.columns; ++j) {
      float *to = target.result + i * target.row + j * s.filters;
      for (int64_t k = 0; k < s.filters; ++k)
        to[k] = 0;
      for (int tap = 0; tap < 9; ++tap) {
        int64_t y = place.row + i + tap / 3 - s.padding[0],
                x = place.column + j + tap % 3 - s.padding[1];
        if (y < 0 || y >= s.height || x < 0 || x >= s.width)
          continue;
        const float *pixel = image + ((place.image * s.height + y) * s.width + x) * s.channels;
        for (int64_t c = 0; c < s.channels; ++c) {
          const float *weight = taps + (tap * s.channels + c) * s.filters;
          for (int64_t k = 0; k < s.filters; ++k)
            to[k] += pixel[c] * weight[k];
        }
      }
      for (int64_t k = 0; k < s.filters; ++k)
        to[k] = rectified(target.bias ? to[k] + target.bias[k] : to[k], target.relu);
    }
}

template <int kTile>
WEFT_INLINE void result_tiles(const WinogradShape &s, const float *from, int64_t matrix,
                              int64_t first, int64_t last, const float *bias, const Relu &relu,
                              const float *image, const float *taps, float *result) {
  for (int64_t tile = first; tile < last; ++tile, from += s.filters) {
    Place place = place_of<kTile>(s, tile);
    Target target{result +
                      ((place.image * s.rows + place.row) * s.columns + place.column) * s.filters,
                  s.columns * s.filters,
                  std::min<int64_t>(kTile, s.rows - place.row),
                  std::min<int64_t>(kTile, s.columns - place.column),
                  bias,
                  relu};
    int64_t k = 0;
    bool finite = result_filters<16, kTile>(s, target, from, matrix, k);
    finite &= result_filters<8, kTile>(s, target, from, matrix, k);
    finite &= result_filters<4, kTile>(s, target, from, matrix, k);
    finite &= result_filters<1, kTile>(s, target, from, matrix, k);
    if (!finite)
      compute_anew(s, target, place, image, taps);
  }
}

// The same for each kind of processor, with the instructions that it has.
#define WEFT_WINOGRAD(name, attribute)                                                             \
  template <int kTile> struct name {                                                               \
    attribute static void image(const WinogradShape &shape, const float *image, int64_t first,     \
                                int64_t last, float *to, int64_t matrix) {                         \
      image_tiles<kTile>(shape, image, first, last, to, matrix);                                   \
    }                                                                                              \
    attribute static void weight(const WinogradShape &shape, const float *weight, int64_t first,   \
                                 int64_t last, float *matrices, float *taps) {                     \
      weight_matrices<kTile>(shape, weight, first, last, matrices, taps);                          \
    }                                                                                              \
    attribute static void result(const WinogradShape &shape, const float *from, int64_t matrix,    \
                                 int64_t first, int64_t last, const float *bias, const Relu &relu, \
                                 const float *image, const float *taps, float *result) {           \
      result_tiles<kTile>(shape, from, matrix, first, last, bias, relu, image, taps, result);      \
    }                                                                                              \
    static constexpr WinogradTransforms kAll = {image, weight, result};                            \
  };
WEFT_WINOGRAD(Plain, )
WEFT_WINOGRAD(Avx2, WEFT_AVX2)
WEFT_WINOGRAD(Avx512, WEFT_AVX512)
#undef WEFT_WINOGRAD

template <int kTile> const WinogradTransforms &transforms_here() {
  return of_processor(Plain<kTile>::kAll, Avx2<kTile>::kAll, Avx512<kTile>::kAll);
}

} // namespace

const WinogradTransforms &winograd_transforms(int64_t m) {
  return m == 2 ? transforms_here<2>() : transforms_here<4>();
}

} // namespace weft::backends::cpu

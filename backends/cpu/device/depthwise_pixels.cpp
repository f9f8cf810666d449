// result[y, x] = bias + sum over i, j of image[y s + i - p, x s + j - p] w[i, j], for each channel
// of each image: vectors lie along channels, which are last in memory. The sums of some pixels side
// by side stay in registers while the rows of taps go by; what they read of a row is loaded once
// for all of its taps. The last vector of channels begins earlier where channels do not fill it,
// and some are computed twice, perhaps by two threads at once, which store the same bits; likewise
// the last pixels of a row.
//
// Each element is one sum in the order of its taps, whoever computes it, so that the bits depend
// neither on threads nor on where vectors begin. Taps in rows of the padding are left out. In
// columns of it they are products with zero; where a weight is not finite they are left out there
// as well, one pixel at a time.
//
// Time of this kernel / the library's, batch 1, two threads of Ice Lake, the weight packed before:
//
//   120 channels, 28^2, 5x5    0.48    96, 56^2, 7x7              0.63    72, 56^2, 3x3    0.85
//   480, 14^2, 5x5             0.82    192, 28^2, 7x7             0.66    88, 28^2, 3x3    0.77
//   1152, 7^2, 5x5             0.52    768, 7^2, 7x7              0.47    116, 14^2, 3x3   0.71
//   72, 56^2, 5x5, stride 2    0.85    58, 56^2, 3x3, stride 2    0.84    232, 7^2, 3x3    0.71
//   240, 28^2, 5x5, stride 2   0.95    144, 56^2, 3x3             0.93    384, 14^2, 3x3   1.19
#include "backends/cpu/device/depthwise_pixels.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "backends/cpu/device/depthwise_taps.h"
#include "backends/cpu/device/vector_lanes.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Products that a thread takes at once: some 2 us, as much as it costs to wake it.
constexpr int64_t kGrainProducts = 64 << 10;
// Pixels whose sums are under way at once. Rows of many networks are multiples of 7.
constexpr int kPixels = 7;

struct Shape {
  int64_t channels, height, width, rows, columns; // of the image, and of the result
  int64_t tap_rows;
  std::array<int64_t, 2> padding;
  Relu relu;
};

struct Range {
  int64_t begin, end;
};

// Some rows of some vectors of channels of an image's result.
struct Task {
  const Shape *shape;
  const float *image, *weight, *bias; // weight: [vector][tap][lane]; bias: null for none
  float *result;
  Range rows, vectors;
  bool finite; // the weight
};

// Of a vector.
struct Place {
  const float *image, *weight, *bias;
  float *result;
};

// Pixels [x, x + kCount) of a vector of channels. kClipped: columns of taps may lie in the padding.
template <int kLanes, int kTaps, int kStride, int kCount, bool kClipped>
WEFT_INLINE void compute_tile(const Shape &s, const Place &at, int64_t y, Range rows, int64_t x) {
  constexpr int kRead = (kCount - 1) * kStride + kTaps;
  Vector<kLanes> bias{}, sums[kCount];
  if (at.bias != nullptr)
    bias = load<kLanes>(at.bias);
#pragma clang loop unroll(full)
  for (int k = 0; k < kCount; ++k)
    sums[k] = bias;
  int64_t left = x * kStride - s.padding[1], top = y * kStride - s.padding[0] + rows.begin;
  const float *from = at.image + (top * s.width + left) * s.channels,
              *weight = at.weight + rows.begin * kTaps * kLanes;
  for (int64_t i = rows.begin; i < rows.end; ++i, from += s.width * s.channels) {
    Vector<kLanes> pixels[kRead];
#pragma clang loop unroll(full)
    for (int k = 0; k < kRead; ++k)
      if (!kClipped || (left + k >= 0 && left + k < s.width))
        pixels[k] = load<kLanes>(from + k * s.channels);
      else
        pixels[k] = Vector<kLanes>{};
#pragma clang loop unroll(full)
    for (int j = 0; j < kTaps; ++j, weight += kLanes) {
      Vector<kLanes> factor = load<kLanes>(weight);
#pragma clang loop unroll(full)
      for (int k = 0; k < kCount; ++k)
        sums[k] += pixels[k * kStride + j] * factor;
    }
  }
#pragma clang loop unroll(full)
  for (int k = 0; k < kCount; ++k) {
    Vector<kLanes> sum = rectified(sums[k], s.relu);
    store(at.result + (y * s.columns + x + k) * s.channels, sum);
  }
}

// The taps of a pixel, in one dim, that do not lie in the padding.
WEFT_INLINE Range taps_inside(int64_t first, int64_t taps, int64_t extent) {
  return {std::max<int64_t>(0, -first), std::min(taps, extent - first)};
}

// A pixel, without products of what is not finite and the padding.
template <int kLanes, int kTaps, int kStride>
WEFT_INLINE void compute_exactly(const Shape &s, const Place &at, int64_t y, Range rows,
                                 int64_t x) {
  int64_t left = x * kStride - s.padding[1], top = y * kStride - s.padding[0];
  Range columns = taps_inside(left, kTaps, s.width);
  Vector<kLanes> sum{};
  if (at.bias != nullptr)
    sum = load<kLanes>(at.bias);
  for (int64_t i = rows.begin; i < rows.end; ++i)
    for (int64_t j = columns.begin; j < columns.end; ++j)
      sum += load<kLanes>(at.image + ((top + i) * s.width + left + j) * s.channels) *
             load<kLanes>(at.weight + (i * kTaps + j) * kLanes);
  sum = rectified(sum, s.relu);
  store(at.result + (y * s.columns + x) * s.channels, sum);
}

template <int kLanes, int kTaps, int kStride>
WEFT_INLINE void compute_row(const Shape &s, const Place &place, int64_t y, bool finite) {
  Range taps = taps_inside(y * kStride - s.padding[0], s.tap_rows, s.height);
  if (!finite) {
    for (int64_t x = 0; x < s.columns; ++x)
      compute_exactly<kLanes, kTaps, kStride>(s, place, y, taps, x);
    return;
  }
  if (s.columns < kPixels) {
    for (int64_t x = 0; x < s.columns; ++x)
      compute_tile<kLanes, kTaps, kStride, 1, true>(s, place, y, taps, x);
    return;
  }
  for (int64_t x = 0; x < s.columns; x += kPixels) {
    int64_t at = std::min(x, s.columns - kPixels), left = at * kStride - s.padding[1];
    if (left >= 0 && left + (kPixels - 1) * kStride + kTaps <= s.width)
      compute_tile<kLanes, kTaps, kStride, kPixels, false>(s, place, y, taps, at);
    else
      compute_tile<kLanes, kTaps, kStride, kPixels, true>(s, place, y, taps, at);
  }
}

template <int kLanes, int kTaps, int kStride> WEFT_INLINE void compute_rows(const Task &task) {
  const Shape &s = *task.shape;
  for (int64_t v = task.vectors.begin; v < task.vectors.end; ++v) {
    int64_t channel = std::min(v * kLanes, s.channels - kLanes);
    Place place{task.image + channel, task.weight + v * s.tap_rows * kTaps * kLanes,
                task.bias ? task.bias + channel : nullptr, task.result + channel};
    for (int64_t y = task.rows.begin; y < task.rows.end; ++y)
      compute_row<kLanes, kTaps, kStride>(s, place, y, task.finite);
  }
}

// The same for each kind of processor, with the instructions that it has.
using Compute = void (*)(const Task &task);
template <int kTaps, int kStride> void compute_plain(const Task &task) {
  compute_rows<4, kTaps, kStride>(task);
}
template <int kTaps, int kStride> WEFT_AVX2 void compute_avx2(const Task &task) {
  compute_rows<8, kTaps, kStride>(task);
}
template <int kTaps, int kStride> WEFT_AVX512 void compute_avx512(const Task &task) {
  compute_rows<16, kTaps, kStride>(task);
}
Compute compute_of(const ConvolutionProblem &problem) {
  return of_depthwise_taps(problem, []<int kTaps, int kStride>() {
    return of_processor<Compute>(compute_plain<kTaps, kStride>, compute_avx2<kTaps, kStride>,
                                 compute_avx512<kTaps, kStride>);
  });
}

class DepthwisePixels : public runtime::PackedCallState {
public:
  DepthwisePixels(const ConvolutionProblem &p, int threads)
      : shape_{p.image[1],  p.image[2],  p.image[3], p.result[2],
               p.result[3], p.weight[2], p.padding,  p.relu},
        images_(p.image[0]), taps_(p.weight[2] * p.weight[3]), bias_(p.bias),
        packed_(p.packed_weight), threads_(threads), compute_(compute_of(p)) {
    band_rows_ = std::clamp<int64_t>(shape_.tap_rows - 2, 1, shape_.rows);
    grain_ = std::max<int64_t>(1, kGrainProducts / (band_rows_ * shape_.columns * lanes_ * taps_));
  }

  int operand() const override {
    return 1;
  }
  int64_t packed_bytes() const override {
    return runtime::align((elements() + 1) * static_cast<int64_t>(sizeof(float)));
  }
  std::string form() const override {
    return absl::StrCat("depthwise, ", shape_.channels, " of ", taps_, " taps, vectors of ",
                        lanes_);
  }
  absl::Status pack(const void *plain, void *packed) override {
    const float *from = static_cast<const float *>(plain);
    float *to = static_cast<float *>(packed);
    std::array<float, kMostLanes> zeros{}; // NaN where a weight is not finite
    for (int64_t v = 0; v < vectors(); ++v) {
      int64_t first = std::min(v * lanes_, shape_.channels - lanes_);
      for (int64_t t = 0; t < taps_; ++t)
        for (int64_t lane = 0; lane < lanes_; ++lane) {
          *to = from[(first + lane) * taps_ + t];
          zeros[static_cast<size_t>(lane)] += *to++ * 0;
        }
    }
    *to = std::accumulate(zeros.begin(), zeros.end(), 0.f);
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override {
    return packed_ ? 0 : packed_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<const float *>(packed_ ? operands[1] : scratch)};
    if (!packed_)
      (void)pack(operands[1], scratch);
    runtime::parallel_for(images_ * bands() * vectors(), grain_, threads_, compute_some, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const DepthwisePixels *state;
    std::span<void *const> operands;
    const float *weight;
  };

  // Of a packed weight; one more tells whether these are finite.
  int64_t elements() const {
    return vectors() * lanes_ * taps_;
  }
  int64_t bands() const {
    return (shape_.rows + band_rows_ - 1) / band_rows_;
  }
  int64_t vectors() const {
    return (shape_.channels + lanes_ - 1) / lanes_;
  }

  static int32_t compute_some(void *data, int, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const DepthwisePixels &state = *call.state;
    const Shape &s = state.shape_;
    const float *images = static_cast<const float *>(call.operands[0]),
                *bias = state.bias_ ? static_cast<const float *>(call.operands[2]) : nullptr;
    float *results = static_cast<float *>(call.operands.back());
    int64_t vectors = state.vectors(), bands = state.bands();
    // The vectors of a band follow each other: they share lines of the caches.
    for (int64_t piece = begin; piece < end;) {
      int64_t band = piece / vectors, image = band / bands, vector = piece % vectors,
              row = band % bands * state.band_rows_,
              count = std::min(vectors - vector, end - piece);
      state.compute_({&s,
                      images + image * s.height * s.width * s.channels,
                      call.weight,
                      bias,
                      results + image * s.rows * s.columns * s.channels,
                      {row, std::min(row + state.band_rows_, s.rows)},
                      {vector, vector + count},
                      call.weight[state.elements()] == 0});
      piece += count;
    }
    return 0;
  }

  Shape shape_;
  int64_t images_, taps_, band_rows_, grain_, lanes_ = lanes_here();
  bool bias_, packed_;
  int threads_;
  Compute compute_;
};

} // namespace

// The library is as fast where channels fill its vectors, of 3x3 taps and rows that are not wide.
static bool pays(const ConvolutionProblem &p) {
  constexpr int64_t kMoreTaps = 5, kWide = 56;
  return p.weight[3] >= kMoreTaps || p.image[1] % kMostLanes != 0 ||
         (p.strides[0] == 1 && p.result[3] >= kWide);
}

bool depthwise_pixels_computes(const ConvolutionProblem &p) {
  return lanes_here() == kMostLanes && has_depthwise_taps(p) && p.channels_last &&
         !p.row_major_image && p.groups >= kMostLanes && pays(p);
}

std::unique_ptr<runtime::PackedCallState> depthwise_pixels(const ConvolutionProblem &problem,
                                                           int threads) {
  return std::make_unique<DepthwisePixels>(problem, threads);
}

} // namespace weft::backends::cpu

// result[y, x] = bias + sum over i, j of image[y s + i - p, x s + j - p] w[i, j], for each channel
// of each image: vectors lie along channels. What a band of rows of the result reads of a block of
// channels, as many as a vector has lanes, is turned, so that a pixel is a vector, with its padding
// around it; what is computed of it is turned back. So rows may be short, and a band stays in the
// nearest caches. oneDNN 2.6.3 turns images as a whole, before its own kernel and after it. Time of
// this kernel / the library's, batch 1, two threads of Zen 4, with AVX-512; with AVX2 alone:
//
//   24 channels, 56^2, stride 2      0.28; 0.81    384, 14^2            0.80; 0.61
//   24, 28^2                         0.29; 0.67    960, 7^2             0.84; 0.65
//   48, 14^2                         0.49; 0.34    672, 14^2, 5x5       0.81; 0.79
//   48, 28^2, stride 2               0.53; 0.47    120, 28^2, 5x5       0.40; 0.76
//   96, 7^2                          0.52; 0.40    96, 56^2, 7x7        0.62; 0.82
//   58, 56^2, stride 2               0.21; 0.22    384, 14^2, 7x7       0.91; 0.88
//   116, 14^2                        0.37; 0.35    768, 7^2, 7x7        1.02; 0.97
//   96, 112^2, stride 2              0.88; 0.85    the same, batch 8    0.35; 0.37
//
// Each element is one sum in the order of its taps, whoever computes it, so that the bits depend
// neither on threads nor on blocks. Padding adds products with zero; where a weight is not finite
// they are left out instead, one pixel at a time.
#include "backends/cpu/device/depthwise_blocks.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/device/convolution_exactly.h"
#include "backends/cpu/device/depthwise_taps.h"
#include "backends/cpu/device/turn.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Products that a thread takes at once: some 2 us, as much as it costs to wake it.
constexpr int64_t kGrainProducts = 64 << 10;
// Pixels of a row that are computed at once, so that several sums are under way and a row of taps
// is read once for all of them. Rows of many networks are multiples of 7.
constexpr int kPixels = 7;
// Pixels of a band, its image and its result: with AVX-512 256 KiB, a part of an L2 cache.
constexpr int64_t kBandPixels = 4096;

struct Shape {
  int64_t channels, height, width, rows, columns; // of the image, and of the result
  int64_t tap_rows, tap_columns, stride;
  std::array<int64_t, 2> padding;
  Relu relu;
  int64_t bands; // whose rows of the result differ by at most one

  int64_t most_rows() const {
    return (rows + bands - 1) / bands;
  }
  // Of what a band reads, with room for columns that nothing reads.
  int64_t padded_rows(int64_t band_rows) const {
    return (band_rows - 1) * stride + tap_rows;
  }
  int64_t padded_columns() const {
    return std::max((columns - 1) * stride + tap_columns, width + padding[1]);
  }
  int64_t padded_pixels() const {
    return padded_rows(most_rows()) * padded_columns();
  }
  // Of a band, in pixels: its padded image, its result, its weight.
  int64_t room() const {
    return padded_pixels() + most_rows() * columns + tap_rows * tap_columns;
  }
};

// A band of some channels of an image, at most a block. Of channels that there are not the last one
// stands in: its result is stored several times.
struct Task {
  const Shape *shape;
  const int32_t *places; // of an image's pixels in padded rows, from a row's first pixel on
  const float *image, *weight, *bias; // of the first channel; bias: null for none
  float *result, *room;
  int64_t channels, first, rows; // rows of the result
};

// What the band reads, as pixels of the block's channels, with padding around them.
template <int kLanes> WEFT_INLINE void turn_image(const Task &task) {
  const Shape &s = *task.shape;
  int64_t last = task.channels - 1, top = task.first * s.stride - s.padding[0],
          padded = s.padded_rows(task.rows), begin = std::max<int64_t>(top, 0),
          end = std::clamp(top + padded, begin, s.height), pitch = s.padded_columns() * kLanes;
  // Zeros before and behind the image's rows; those beside them stay.
  float *rows = task.room + (begin - top) * pitch, *behind = task.room + (end - top) * pitch;
  std::fill(task.room, rows, 0.f);
  std::fill(behind, task.room + padded * pitch, 0.f);
  const float *image = task.image + begin * s.width;
  int64_t pixels = (end - begin) * s.width, plane = s.height * s.width;
  for (int64_t x = 0; x < pixels; x += kLanes) {
    int64_t at = std::min(x, pixels - kLanes);
    turn<kLanes>(
        [&](int64_t c) __attribute__((always_inline)) {
          return image + std::min(c, last) * plane + at;
        },
        [&](int64_t i)
            __attribute__((always_inline)) { return rows + task.places[at + i] * kLanes; });
  }
}

template <int kLanes> WEFT_INLINE void turn_result(const Task &task, const float *result) {
  const Shape &s = *task.shape;
  int64_t last = task.channels - 1, pixels = task.rows * s.columns, plane = s.rows * s.columns;
  float *to = task.result + task.first * s.columns;
  for (int64_t x = 0; x < pixels; x += kLanes) {
    int64_t at = std::min(x, pixels - kLanes);
    turn<kLanes>(
        [&](int64_t i) __attribute__((always_inline)) { return result + (at + i) * kLanes; },
        [&](int64_t c)
            __attribute__((always_inline)) { return to + std::min(c, last) * plane + at; });
  }
}

// Pixels [x, x + kCount) of row y.
template <int kLanes, int kTaps, int kStride, int kCount>
WEFT_INLINE void compute_pixels(const Shape &s, const float *image, const float *weight,
                                const Vector<kLanes> &bias, int64_t y, int64_t x, float *result) {
  int64_t pitch = s.padded_columns() * kLanes;
  Vector<kLanes> sums[kCount];
#pragma clang loop unroll(full)
  for (int k = 0; k < kCount; ++k)
    sums[k] = bias;
  const float *row = image + y * kStride * pitch + x * kStride * kLanes;
  for (int64_t i = 0; i < s.tap_rows; ++i, row += pitch, weight += kTaps * kLanes)
#pragma clang loop unroll(full)
    for (int j = 0; j < kTaps; ++j) {
      Vector<kLanes> factor = load<kLanes>(weight + j * kLanes);
#pragma clang loop unroll(full)
      for (int k = 0; k < kCount; ++k)
        sums[k] += load<kLanes>(row + (k * kStride + j) * kLanes) * factor;
    }
#pragma clang loop unroll(full)
  for (int k = 0; k < kCount; ++k) {
    Vector<kLanes> sum = rectified(sums[k], s.relu);
    store(result + (y * s.columns + x + k) * kLanes, sum);
  }
}

// Each tap's weights side by side. Whether all are finite.
template <int kLanes> WEFT_INLINE bool turn_weight(const Task &task, int64_t taps, float *to) {
  int64_t last = task.channels - 1;
  if (taps < kLanes)
    for (int64_t i = 0; i < taps; ++i)
      for (int64_t c = 0; c < kLanes; ++c)
        to[i * kLanes + c] = task.weight[std::min(c, last) * taps + i];
  else
    for (int64_t i = 0; i < taps; i += kLanes) {
      int64_t at = std::min(i, taps - kLanes);
      turn<kLanes>(
          [&](int64_t c) __attribute__((always_inline)) {
            return task.weight + std::min(c, last) * taps + at;
          },
          [&](int64_t k) __attribute__((always_inline)) { return to + (at + k) * kLanes; });
    }
  Vector<kLanes> zeros{}; // NaN where a weight is not finite
  for (int64_t i = 0; i < taps; ++i)
    zeros += load<kLanes>(to + i * kLanes) * 0.f;
  bool finite = true;
  for (int64_t c = 0; c < kLanes; ++c)
    finite &= zeros[c] == 0;
  return finite;
}

// False, and nothing is computed, where a weight is not finite.
template <int kLanes, int kTaps, int kStride> WEFT_INLINE bool compute_band(const Task &task) {
  const Shape &s = *task.shape;
  float *result = task.room + s.padded_pixels() * kLanes,
        *weight = result + s.most_rows() * s.columns * kLanes;
  if (!turn_weight<kLanes>(task, s.tap_rows * kTaps, weight))
    return false;
  Vector<kLanes> bias{};
  if (task.bias != nullptr)
    for (int64_t c = 0; c < kLanes; ++c)
      bias[c] = task.bias[std::min(c, task.channels - 1)];
  turn_image<kLanes>(task);
  for (int64_t y = 0; y < task.rows; ++y) {
    if (s.columns >= kPixels) {
      for (int64_t x = 0; x < s.columns; x += kPixels)
        compute_pixels<kLanes, kTaps, kStride, kPixels>(s, task.room, weight, bias, y,
                                                        std::min(x, s.columns - kPixels), result);
    } else {
      for (int64_t x = 0; x < s.columns; ++x)
        compute_pixels<kLanes, kTaps, kStride, 1>(s, task.room, weight, bias, y, x, result);
    }
  }
  turn_result<kLanes>(task, result);
  return true;
}

// The same for each kind of processor, with the instructions that it has.
using Compute = bool (*)(const Task &task);
template <int kTaps, int kStride> bool compute_plain(const Task &task) {
  return compute_band<4, kTaps, kStride>(task);
}
template <int kTaps, int kStride> WEFT_AVX2 bool compute_avx2(const Task &task) {
  return compute_band<8, kTaps, kStride>(task);
}
template <int kTaps, int kStride> WEFT_AVX512 bool compute_avx512(const Task &task) {
  return compute_band<16, kTaps, kStride>(task);
}

Compute compute_of(const ConvolutionProblem &problem) {
  return of_depthwise_taps(problem, []<int kTaps, int kStride>() {
    return of_processor<Compute>(compute_plain<kTaps, kStride>, compute_avx2<kTaps, kStride>,
                                 compute_avx512<kTaps, kStride>);
  });
}

class DepthwiseBlocks : public runtime::LibraryCallState {
public:
  DepthwiseBlocks(const ConvolutionProblem &p, int threads)
      : shape_{p.image[1],
               p.image[2],
               p.image[3],
               p.result[2],
               p.result[3],
               p.weight[2],
               p.weight[3],
               p.strides[0],
               p.padding,
               p.relu,
               1},
        problem_(p), threads_(threads), compute_(compute_of(p)) {
    shape_.bands = std::clamp<int64_t>(shape_.room() / kBandPixels, 1, shape_.rows);
    room_bytes_ = runtime::align(shape_.room() * lanes_ * static_cast<int64_t>(sizeof(float)));
    int64_t of_band =
        lanes_ * shape_.most_rows() * shape_.columns * shape_.tap_rows * shape_.tap_columns;
    grain_ = std::max<int64_t>(1, kGrainProducts / of_band);
    int64_t rows = std::min(shape_.height, shape_.padded_rows(shape_.most_rows()));
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < shape_.width; ++x)
        places_.push_back(
            static_cast<int32_t>(y * shape_.padded_columns() + x + shape_.padding[1]));
  }

  int64_t scratch_bytes() const override {
    return threads_ * room_bytes_;
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch)};
    int64_t bands = problem_.image[0] * blocks() * shape_.bands;
    runtime::parallel_for(bands, grain_, threads_, compute_bands, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const DepthwiseBlocks *state;
    std::span<void *const> operands;
    char *scratch;
  };

  int64_t blocks() const {
    return (shape_.channels + lanes_ - 1) / lanes_;
  }

  static int32_t compute_bands(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const DepthwiseBlocks &state = *call.state;
    const Shape &s = state.shape_;
    float *room = reinterpret_cast<float *>(call.scratch + thread * state.room_bytes_);
    const float *bias =
        state.problem_.bias ? static_cast<const float *>(call.operands[2]) : nullptr;
    // The padding beside rows; bands overwrite the rest.
    std::fill_n(room, s.padded_pixels() * state.lanes_, 0.f);
    int64_t taps = s.tap_rows * s.tap_columns;
    for (int64_t i = begin; i < end; ++i) {
      int64_t block = i / s.bands, band = i % s.bands, image = block / state.blocks(),
              channel = block % state.blocks() * state.lanes_, plane = image * s.channels + channel,
              first = s.rows * band / s.bands;
      Task task{.shape = &s,
                .places = state.places_.data(),
                .image = static_cast<const float *>(call.operands[0]) + plane * s.height * s.width,
                .weight = static_cast<const float *>(call.operands[1]) + channel * taps,
                .bias = bias ? bias + channel : nullptr,
                .result = static_cast<float *>(call.operands.back()) + plane * s.rows * s.columns,
                .room = room,
                .channels = std::min(state.lanes_, s.channels - channel),
                .first = first,
                .rows = s.rows * (band + 1) / s.bands - first};
      if (!state.compute_(task))
        convolve_exactly(state.problem_, call.operands,
                         {image, channel, task.channels, task.first, task.rows});
    }
    return 0;
  }

  Shape shape_;
  ConvolutionProblem problem_;
  int64_t lanes_ = lanes_here(), room_bytes_, grain_;
  int threads_;
  Compute compute_;
  std::vector<int32_t> places_;
};

} // namespace

// A band has kMostLanes pixels at least, of what it reads and of what it computes, so that a square
// of them can be turned: an image has them, and where there are several bands each is much larger,
// as long as few rows of taps make it so. Of one channel most lanes would be empty. A band is of
// whole rows, which must lie in a near cache.
bool depthwise_blocks_computes(const ConvolutionProblem &p) {
  constexpr int64_t kMostTaps = 7, kMostColumns = 1 << 14;
  int64_t read_rows =
      std::min(p.image[2], (p.result[2] - 1) * p.strides[0] + p.weight[2] - p.padding[0]);
  return has_depthwise_taps(p) && !p.channels_last && p.groups > 1 && p.weight[2] <= kMostTaps &&
         p.image[3] <= kMostColumns && read_rows * p.image[3] >= kMostLanes &&
         p.result[2] * p.result[3] >= kMostLanes;
}

std::unique_ptr<runtime::LibraryCallState> depthwise_blocks(const ConvolutionProblem &problem,
                                                            int threads) {
  return std::make_unique<DepthwiseBlocks>(problem, threads);
}

} // namespace weft::backends::cpu

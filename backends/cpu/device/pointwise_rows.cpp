// result[o, p] = bias[o] + sum over c of weight[o, c] image[c, p], for each image, where p counts
// its pixels: vectors lie along pixels. The sums of a few channels of the result at a time stay in
// registers. The image is read where it lies: what a piece reads of it is in the nearest cache from
// its second few channels on; of many channels a tile is copied together first. The last vector of
// a tile ends where the tile does: its first lanes are computed again and not stored.
//
// Each element is one sum in the order of the image's channels, whoever computes it, so that the
// bits depend neither on threads nor on where vectors begin.
#include "backends/cpu/device/pointwise_rows.h"

#include <algorithm>

#include "backends/cpu/device/vector_lanes.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Products that a thread takes at once: some 2 us, as much as it costs to wake it.
constexpr int64_t kGrainProducts = 128 << 10;
// Pixels of a tile, of which the last one takes what is left: four vectors of AVX-512.
constexpr int64_t kTilePixels = 64;
// Channels of the result that are computed of a tile before others are: their weights stay near. A
// multiple of kRows, and few enough that two threads share one tile.
constexpr int64_t kChunkChannels = 24;
// Channels whose sums are in registers at once, 24 vectors with AVX-512 and 12 else.
constexpr int kRows = 6;
// Channels of an image beyond which tiles are copied: they lie on more pages, and in more lines
// that want the same place in a cache, than a processor holds near.
constexpr int64_t kMostInPlace = 128;
// Lanes of the widest vector, a line: a smaller image is copied, to have as many.

struct Shape {
  int64_t channels, results, pixels; // of an image, of its result
  Relu relu;

  int64_t tiles() const {
    return std::max<int64_t>(1, pixels / kTilePixels);
  }
  int64_t chunks() const {
    return (results + kChunkChannels - 1) / kChunkChannels;
  }
  int64_t tile_pixels(int64_t tile) const {
    return tile + 1 < tiles() ? kTilePixels : pixels - tile * kTilePixels;
  }
  bool is_copied() const {
    return pixels < kMostLanes || channels > kMostInPlace;
  }
  // Of a copy's rows: an odd number of lines, so that neighbours want other places in a cache.
  int64_t copy_stride() const {
    int64_t lines = (tile_pixels(tiles() - 1) + kMostLanes - 1) / kMostLanes;
    return (lines | 1) * kMostLanes;
  }
};

// Some channels of the result for a tile.
struct Task {
  const Shape *shape;
  const float *tile;   // [channels, stride]
  const float *weight; // [rows, channels]
  const float *bias;   // [rows], null for none
  float *result;       // [rows, pixels of an image], from the tile's first pixel on
  int64_t stride, rows, pixels;
};

// Lanes from `first` to `last`.
template <typename V> WEFT_INLINE void store_part(V value, int64_t first, int64_t last, float *to) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  if (last - first == kLanes)
    store(to, value);
  else
    for (int64_t i = first; i < last; ++i)
      to[i] = value[i];
}

// kCount channels of kVectors vectors of pixels: side by side from x on, but for the last one,
// which begins at `tail`, and of which lanes from `first` to `last` are stored.
template <int kLanes, int kVectors, int kCount>
WEFT_INLINE void compute_block(const Task &task, int64_t row, int64_t x, int64_t tail,
                               int64_t first, int64_t last) {
  const Shape &s = *task.shape;
  const float *weight = task.weight + row * s.channels, *tile = task.tile;
  Vector<kLanes> sums[kCount][kVectors];
#pragma clang loop unroll(full)
  for (int r = 0; r < kCount; ++r)
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = Vector<kLanes>{} + (task.bias ? task.bias[row + r] : 0);
  for (int64_t c = 0; c < s.channels; ++c, tile += task.stride) {
    Vector<kLanes> pixels[kVectors];
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      pixels[v] = load<kLanes>(tile + (v + 1 < kVectors ? x + v * kLanes : tail));
#pragma clang loop unroll(full)
    for (int r = 0; r < kCount; ++r) {
      float factor = weight[r * s.channels + c];
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] += pixels[v] * factor;
    }
  }
  // Unrolled, and each value copied before its address is taken, so that all sums stay in
  // registers.
#pragma clang loop unroll(full)
  for (int r = 0; r < kCount; ++r) {
    float *result = task.result + (row + r) * s.pixels;
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v) {
      Vector<kLanes> sum = rectified(sums[r][v], s.relu);
      if (v + 1 < kVectors)
        store(result + x + v * kLanes, sum);
      else
        store_part(sum, first, last, result + tail);
    }
  }
}

// kVectors vectors from x on, the last one as above. kMost: vectors whose sums of kRows channels
// fill the registers; fewer vectors go with more channels.
template <int kLanes, int kVectors, int kMost>
WEFT_INLINE void compute_vectors(const Task &task, int64_t x, int64_t tail, int64_t first,
                                 int64_t last) {
  constexpr int kCount = kRows * kMost / kVectors;
  int64_t row = 0;
  for (; row + kCount <= task.rows; row += kCount)
    compute_block<kLanes, kVectors, kCount>(task, row, x, tail, first, last);
  if constexpr (kCount > kRows)
    for (; row + kRows <= task.rows; row += kRows)
      compute_block<kLanes, kVectors, kRows>(task, row, x, tail, first, last);
  if (row + 4 <= task.rows) {
    compute_block<kLanes, kVectors, 4>(task, row, x, tail, first, last);
    row += 4;
  }
  for (; row < task.rows; ++row)
    compute_block<kLanes, kVectors, 1>(task, row, x, tail, first, last);
}

template <int kLanes, int kMost> WEFT_INLINE void compute(const Task &task) {
  constexpr int64_t kAll = kMost * kLanes;
  int64_t x = 0;
  for (; x + kAll <= task.pixels; x += kAll)
    compute_vectors<kLanes, kMost, kMost>(task, x, x + kAll - kLanes, 0, kLanes);
  int64_t left = task.pixels - x;
  if (left == 0)
    return;
  // A tile of fewer pixels than a vector has lanes is a copy, with room behind it.
  int64_t before = (left - 1) / kLanes * kLanes, // in whole vectors
      tail = std::max<int64_t>(0, task.pixels - kLanes), first = x + before - tail,
          last = task.pixels - tail;
  if constexpr (kMost > 3)
    if (before == 3 * kLanes)
      return compute_vectors<kLanes, 4, kMost>(task, x, tail, first, last);
  if constexpr (kMost > 2)
    if (before == 2 * kLanes)
      return compute_vectors<kLanes, 3, kMost>(task, x, tail, first, last);
  if (before == kLanes)
    return compute_vectors<kLanes, 2, kMost>(task, x, tail, first, last);
  compute_vectors<kLanes, 1, kMost>(task, x, tail, first, last);
}

// The same for each kind of processor, with the instructions and the registers that it has.
using Compute = void (*)(const Task &task);
void compute_plain(const Task &task) {
  compute<4, 2>(task);
}
WEFT_AVX2 void compute_avx2(const Task &task) {
  compute<8, 2>(task);
}
WEFT_AVX512 void compute_avx512(const Task &task) {
  compute<16, 4>(task);
}

// A tile's rows, with zeros behind the last pixels.
void copy_tile(const Shape &s, const float *from, int64_t pixels, float *to) {
  int64_t stride = s.copy_stride();
  for (int64_t c = 0; c < s.channels; ++c, from += s.pixels, to += stride) {
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(pixels));
    std::fill(to + pixels, to + stride, 0.f);
  }
}

class PointwiseRows : public runtime::LibraryCallState {
public:
  PointwiseRows(const ConvolutionProblem &p, int threads)
      : shape_{p.image[1], p.result[1], p.result[2] * p.result[3], p.relu}, images_(p.image[0]),
        bias_(p.bias), threads_(threads),
        compute_(of_processor<Compute>(compute_plain, compute_avx2, compute_avx512)) {
    if (shape_.is_copied())
      copy_bytes_ = runtime::align(shape_.channels * shape_.copy_stride() *
                                   static_cast<int64_t>(sizeof(float)));
    int64_t of_chunk = std::min(shape_.results, kChunkChannels) * shape_.channels *
                       std::min(shape_.pixels, kTilePixels);
    grain_ = std::max<int64_t>(1, kGrainProducts / of_chunk);
  }

  int64_t scratch_bytes() const override {
    return threads_ * copy_bytes_;
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch)};
    runtime::parallel_for(images_ * shape_.tiles() * shape_.chunks(), grain_, threads_,
                          compute_chunks, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const PointwiseRows *state;
    std::span<void *const> operands;
    char *scratch;
  };

  static int32_t compute_chunks(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const PointwiseRows &state = *call.state;
    const Shape &s = state.shape_;
    const float *images = static_cast<const float *>(call.operands[0]),
                *weight = static_cast<const float *>(call.operands[1]),
                *bias = state.bias_ ? static_cast<const float *>(call.operands[2]) : nullptr;
    float *results = static_cast<float *>(call.operands.back()),
          *copy = reinterpret_cast<float *>(call.scratch + thread * state.copy_bytes_);
    int64_t copied = -1; // tile
    // The chunks of a tile follow each other.
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t tile = piece / s.chunks(), row = piece % s.chunks() * kChunkChannels,
              image = tile / s.tiles(), number = tile % s.tiles(), pixel = number * kTilePixels;
      Task task{.shape = &s,
                .tile = images + image * s.channels * s.pixels + pixel,
                .weight = weight + row * s.channels,
                .bias = bias ? bias + row : nullptr,
                .result = results + (image * s.results + row) * s.pixels + pixel,
                .stride = s.pixels,
                .rows = std::min(s.results - row, kChunkChannels),
                .pixels = s.tile_pixels(number)};
      if (s.is_copied()) {
        if (copied != tile)
          copy_tile(s, task.tile, task.pixels, copy);
        copied = tile;
        task.tile = copy;
        task.stride = s.copy_stride();
      }
      state.compute_(task);
    }
    return 0;
  }

  Shape shape_;
  int64_t images_, copy_bytes_ = 0, grain_;
  bool bias_;
  int threads_;
  Compute compute_;
};

} // namespace

bool pointwise_rows_computes(const ConvolutionProblem &p) {
  return p.kind == ConvolutionKind::kForward && p.dtype == DType::kFloat32 && !p.channels_last &&
         p.groups == 1 && p.weight[2] == 1 && p.weight[3] == 1 &&
         p.strides == std::array<int64_t, 2>{1, 1} && p.padding == std::array<int64_t, 2>{0, 0};
}

std::unique_ptr<runtime::LibraryCallState> pointwise_rows(const ConvolutionProblem &problem,
                                                          int threads) {
  return std::make_unique<PointwiseRows>(problem, threads);
}

} // namespace weft::backends::cpu

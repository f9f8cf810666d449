// result[o, p] = bias[o] + sum over c of weight[o, c] image[c, p], for each image, where p counts
// its pixels: vectors lie along pixels. A tile of some pixels of all channels is copied once, so
// that what is read next is contiguous, and serves all channels of the result; the sums of a few of
// those at a time stay in registers.
//
// Each element is one sum in the order of the image's channels, whoever computes it, so that the
// bits depend neither on threads nor on where tiles begin.
#include "backends/cpu/device/pointwise_rows.h"

#include <algorithm>

#include "backends/cpu/device/vector_lanes.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Products that a thread takes at once: some 2 us, as much as it costs to wake it.
constexpr int64_t kGrainProducts = 128 << 10;
// Pixels of a tile: four vectors of AVX-512.
constexpr int64_t kTilePixels = 64;
// Channels of the result that a thread computes of a tile before it looks for another piece; a
// multiple of kRows. Few enough that two threads share one tile.
constexpr int64_t kChunkChannels = 24;
// Channels whose sums are in registers at once, 24 vectors with AVX-512 and 12 else.
constexpr int kRows = 6;

struct Shape {
  int64_t channels, results, pixels; // of an image, of its result
  bool relu;

  int64_t tiles() const {
    return (pixels + kTilePixels - 1) / kTilePixels;
  }
  int64_t chunks() const {
    return (results + kChunkChannels - 1) / kChunkChannels;
  }
};

// Some channels of the result for a tile.
struct Task {
  const Shape *shape;
  const float *tile;   // [channels, kTilePixels]
  const float *weight; // [rows, channels]
  const float *bias;   // [rows], null for none
  float *result;       // [rows, pixels of an image], from the tile's first pixel on
  int64_t rows, pixels;
};

// The first `count` lanes, or all.
template <typename V> WEFT_INLINE void store_first(V value, int64_t count, float *to) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  if (count >= kLanes)
    store(to, value);
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = value[i];
}

// kCount channels of kVectors vectors of pixels from x on, of which `pixels` are there.
template <int kLanes, int kVectors, int kCount>
WEFT_INLINE void compute_block(const Task &task, int64_t row, int64_t x, int64_t pixels) {
  const Shape &s = *task.shape;
  const float *weight = task.weight + row * s.channels, *tile = task.tile + x;
  Vector<kLanes> sums[kCount][kVectors];
#pragma clang loop unroll(full)
  for (int r = 0; r < kCount; ++r)
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = Vector<kLanes>{} + (task.bias ? task.bias[row + r] : 0);
  for (int64_t c = 0; c < s.channels; ++c) {
    Vector<kLanes> image[kVectors];
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      image[v] = load<kLanes>(tile + c * kTilePixels + v * kLanes);
#pragma clang loop unroll(full)
    for (int r = 0; r < kCount; ++r) {
      float factor = weight[r * s.channels + c];
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] += image[v] * factor;
    }
  }
  // Unrolled, and each value copied before its address is taken, so that all sums stay in
  // registers.
#pragma clang loop unroll(full)
  for (int r = 0; r < kCount; ++r) {
    float *result = task.result + (row + r) * s.pixels + x;
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v) {
      Vector<kLanes> sum = sums[r][v];
      if (s.relu)
        sum = sum > Vector<kLanes>{} ? sum : Vector<kLanes>{};
      store_first(sum, pixels - v * kLanes, result + v * kLanes);
    }
  }
}

template <int kLanes, int kVectors>
WEFT_INLINE void compute_vectors(const Task &task, int64_t x, int64_t pixels) {
  int64_t row = 0;
  for (; row + kRows <= task.rows; row += kRows)
    compute_block<kLanes, kVectors, kRows>(task, row, x, pixels);
  if (row + 4 <= task.rows) {
    compute_block<kLanes, kVectors, 4>(task, row, x, pixels);
    row += 4;
  }
  for (; row < task.rows; ++row)
    compute_block<kLanes, kVectors, 1>(task, row, x, pixels);
}

template <int kLanes, int kMost> WEFT_INLINE void compute(const Task &task) {
  int64_t x = 0;
  for (; x + (kMost - 1) * kLanes < task.pixels; x += kMost * kLanes)
    compute_vectors<kLanes, kMost>(task, x, task.pixels - x);
  if (int64_t left = task.pixels - x; left > 0) {
    if constexpr (kMost > 2)
      if (left > kLanes)
        return left > 2 * kLanes ? compute_vectors<kLanes, 3>(task, x, left)
                                 : compute_vectors<kLanes, 2>(task, x, left);
    compute_vectors<kLanes, 1>(task, x, left);
  }
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

// Rows of a tile, with zeros behind the last pixels of an image.
void copy_tile(const Shape &s, const float *from, int64_t pixels, float *to) {
  for (int64_t c = 0; c < s.channels; ++c, from += s.pixels, to += kTilePixels) {
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(pixels));
    std::fill(to + pixels, to + kTilePixels, 0.f);
  }
}

class PointwiseRows : public runtime::LibraryCallState {
public:
  PointwiseRows(const ConvolutionProblem &p, int threads)
      : shape_{p.image[1], p.result[1], p.result[2] * p.result[3], p.relu}, images_(p.image[0]),
        bias_(p.bias), threads_(threads),
        compute_(of_processor<Compute>(compute_plain, compute_avx2, compute_avx512)) {
    tile_bytes_ =
        runtime::align(shape_.channels * kTilePixels * static_cast<int64_t>(sizeof(float)));
    int64_t of_chunk = std::min(shape_.results, kChunkChannels) * shape_.channels *
                       std::min(shape_.pixels, kTilePixels);
    grain_ = std::max<int64_t>(1, kGrainProducts / of_chunk);
  }

  int64_t scratch_bytes() const override {
    return threads_ * tile_bytes_;
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
          *copy = reinterpret_cast<float *>(call.scratch + thread * state.tile_bytes_);
    // The chunks of a tile follow each other.
    for (int64_t chunk = begin; chunk < end;) {
      int64_t tile = chunk / s.chunks(), first = chunk % s.chunks(),
              last = std::min(s.chunks(), first + end - chunk);
      int64_t image = tile / s.tiles(), pixel = tile % s.tiles() * kTilePixels,
              pixels = std::min(kTilePixels, s.pixels - pixel);
      copy_tile(s, images + image * s.channels * s.pixels + pixel, pixels, copy);
      int64_t row = first * kChunkChannels;
      state.compute_({&s, copy, weight + row * s.channels, bias ? bias + row : nullptr,
                      results + (image * s.results + row) * s.pixels + pixel,
                      std::min(s.results, last * kChunkChannels) - row, pixels});
      chunk += last - first;
    }
    return 0;
  }

  Shape shape_;
  int64_t images_, tile_bytes_, grain_;
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

// result[o, y, x] = bias[o] + sum over c, i, j of image[c, y s + i d - p, x s + j d - p]
// weight[o, c, i, j], for each image: vectors lie along rows. The rows of the image that a few rows
// of the result read are copied with their padding, for a stride of s as s arrays of every s-th
// column, so that what a tap reads for neighbouring pixels is contiguous. The sums of some channels
// of the result and some vectors stay in registers while all taps go by. Where the last vector of a
// row does not fill it begins earlier, and some pixels are computed twice.
//
// Each element is one sum in the order of its taps, whoever computes it, so that the bits depend
// neither on threads nor on where vectors begin. Padding adds products with zero; where a weight is
// not finite they are left out instead, one pixel at a time.
#include "backends/cpu/device/few_channels_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "backends/cpu/device/convolution_exactly.h"
#include "backends/cpu/device/few_channels_shape.h"
#include "backends/cpu/device/vector_lanes.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Products of a piece, rows of the result that are computed together: some 5 us.
constexpr int64_t kPieceProducts = 256 << 10;
// Channels of the result whose weights lie together. With AVX-512 the sums of so many and of
// kVectors vectors are in registers at once, else of half of them and of two vectors: with one more
// clang keeps a sum in memory.
constexpr int64_t kBlock = 8;
constexpr int kVectors = 3;

struct Shape : FewChannelsShape {
  using FewChannelsShape::FewChannelsShape;
  int64_t blocks() const {
    return (results + kBlock - 1) / kBlock;
  }
  // Of the copy. A row is `strides[1]` parts; vectors may read behind it.
  int64_t part() const {
    return (width + 2 * padding[1]) / strides[1] + 1 + kMostLanes;
  }
  int64_t pitch() const {
    return part() * strides[1];
  }
};

// Some rows of an image's result.
struct Task {
  const Shape *shape;
  const int64_t *taps;        // where they lie in the copy, from a row's first pixel on
  const float *weight, *bias; // weight: [block][tap][kBlock]; bias: null for none
  float *copy, *result;       // the result's first row, of its first channel
  int64_t rows;
};

// kCount channels from `channel` on of kCountV vectors, which begin at x[v].
template <int kLanes, int kCount, int kCountV>
WEFT_INLINE void compute_tile(const Task &task, int64_t channel, int64_t y,
                              const std::array<int64_t, kVectors> &x) {
  const Shape &s = *task.shape;
  Vector<kLanes> sums[kCount][kCountV];
#pragma clang loop unroll(full)
  for (int r = 0; r < kCount; ++r) {
    float bias = task.bias && channel + r < s.results ? task.bias[channel + r] : 0;
#pragma clang loop unroll(full)
    for (int v = 0; v < kCountV; ++v)
      sums[r][v] = Vector<kLanes>{} + bias;
  }
  int64_t taps = s.taps();
  const float *weight = task.weight + channel / kBlock * taps * kBlock + channel % kBlock,
              *row = task.copy + y * s.strides[0] * s.pitch();
  for (int64_t t = 0; t < taps; ++t, weight += kBlock) {
    const float *from = row + task.taps[t];
    Vector<kLanes> pixels[kCountV];
#pragma clang loop unroll(full)
    for (int v = 0; v < kCountV; ++v)
      pixels[v] = load<kLanes>(from + x[static_cast<size_t>(v)]);
#pragma clang loop unroll(full)
    for (int r = 0; r < kCount; ++r)
#pragma clang loop unroll(full)
      for (int v = 0; v < kCountV; ++v)
        sums[r][v] += pixels[v] * weight[r];
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < kCount; ++r) {
    float *result = task.result + ((channel + r) * s.rows + y) * s.columns;
#pragma clang loop unroll(full)
    for (int v = 0; v < kCountV; ++v) {
      Vector<kLanes> sum = rectified(sums[r][v], s.relu);
      if (channel + r < s.results)
        store(result + x[static_cast<size_t>(v)], sum);
    }
  }
}

template <int kLanes, int kCount, int kMost> WEFT_INLINE void compute_rows(const Task &task) {
  const Shape &s = *task.shape;
  int64_t vectors = (s.columns + kLanes - 1) / kLanes;
  for (int64_t channel = 0; channel < s.results; channel += kCount)
    for (int64_t y = 0; y < task.rows; ++y)
      for (int64_t v = 0; v < vectors;) {
        std::array<int64_t, kVectors> x;
        for (int64_t i = 0; i < kVectors; ++i)
          x[static_cast<size_t>(i)] = std::min((v + i) * kLanes, s.columns - kLanes);
        // Two and two rather than three and one.
        int64_t left = vectors - v, count = left == 4 ? 2 : std::min<int64_t>(left, kMost);
        if (count == 3)
          compute_tile<kLanes, kCount, kMost>(task, channel, y, x);
        else if (count == 2)
          compute_tile<kLanes, kCount, 2>(task, channel, y, x);
        else
          compute_tile<kLanes, kCount, 1>(task, channel, y, x);
        v += count;
      }
}

// The same for each kind of processor, with the instructions and the registers that it has.
using Compute = void (*)(const Task &task);
void compute_plain(const Task &task) {
  compute_rows<4, kBlock / 2, 2>(task);
}
WEFT_AVX2 void compute_avx2(const Task &task) {
  compute_rows<8, kBlock / 2, 2>(task);
}
WEFT_AVX512 void compute_avx512(const Task &task) {
  compute_rows<16, kBlock, kVectors>(task);
}

// Of 32 floats those at even places, and those at odd ones.
void split(const float *from, float *even, float *odd) {
  using Pair = Vector<32>;
  Pair all = load<32>(from);
  store(even, __builtin_shufflevector(all, all, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                                      28, 30));
  store(odd, __builtin_shufflevector(all, all, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                     29, 31));
}

// Column x of the image, behind its padding, is element x / s of part x % s.
void copy_row(const float *from, int64_t width, int64_t padding, int64_t stride, int64_t part,
              float *to) {
  if (stride == 1) {
    std::copy_n(from, width, to + padding);
    return;
  }
  int64_t x = 0;
  if (stride == 2) {
    float *even = to + padding % 2 * part + padding / 2,
          *odd = to + (padding + 1) % 2 * part + (padding + 1) / 2;
    for (; x + 32 <= width; x += 32)
      split(from + x, even + x / 2, odd + x / 2);
  }
  for (; x < width; ++x)
    to[(x + padding) % stride * part + (x + padding) / stride] = from[x];
}

class FewChannelsRows : public runtime::LibraryCallState {
public:
  FewChannelsRows(const ConvolutionProblem &p, int threads)
      : shape_(p, kPieceProducts), problem_(p), threads_(threads),
        compute_(of_processor<Compute>(compute_plain, compute_avx2, compute_avx512)) {
    for (int64_t c = 0; c < shape_.channels; ++c)
      for (int64_t i = 0; i < shape_.tap_rows; ++i)
        for (int64_t j = 0; j < shape_.tap_columns; ++j) {
          int64_t column = j * shape_.dilation[1];
          taps_.push_back((c * shape_.copied_rows() + i * shape_.dilation[0]) * shape_.pitch() +
                          column % shape_.strides[1] * shape_.part() + column / shape_.strides[1]);
        }
    constexpr int64_t kFloat = sizeof(float);
    weight_bytes_ = runtime::align(shape_.blocks() * kBlock * shape_.taps() * kFloat);
    copy_bytes_ = runtime::align(shape_.channels * shape_.copied_rows() * shape_.pitch() * kFloat);
  }

  int64_t scratch_bytes() const override {
    return weight_bytes_ + threads_ * copy_bytes_;
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch), true};
    const float *weight = static_cast<const float *>(operands[1]);
    float *packed = static_cast<float *>(scratch);
    for (int64_t o = 0; o < shape_.blocks() * kBlock; ++o)
      for (int64_t t = 0; t < shape_.taps(); ++t) {
        float value = o < shape_.results ? weight[o * shape_.taps() + t] : 0;
        call.finite &= std::isfinite(value);
        packed[(o / kBlock * shape_.taps() + t) * kBlock + o % kBlock] = value;
      }
    runtime::parallel_for(problem_.image[0] * shape_.pieces(), 1, threads_, compute_pieces, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const FewChannelsRows *state;
    std::span<void *const> operands;
    char *scratch; // the packed weight, then a copy for each thread
    bool finite;   // the weight
  };

  static int32_t compute_pieces(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const FewChannelsRows &state = *call.state;
    const Shape &s = state.shape_;
    const float *images = static_cast<const float *>(call.operands[0]);
    const float *bias =
        state.problem_.bias ? static_cast<const float *>(call.operands[2]) : nullptr;
    float *results = static_cast<float *>(call.operands.back()),
          *copy = reinterpret_cast<float *>(call.scratch + state.weight_bytes_ +
                                            thread * state.copy_bytes_);
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t n = piece / s.pieces(), first = piece % s.pieces() * s.piece_rows,
              last = std::min(first + s.piece_rows, s.rows);
      const float *image = images + n * s.channels * s.height * s.width;
      float *result = results + n * s.results * s.rows * s.columns;
      if (!call.finite) {
        convolve_exactly(state.problem_, call.operands, {n, 0, s.results, first, last - first});
        continue;
      }
      for (int64_t c = 0; c < s.channels; ++c)
        for (int64_t i = 0; i < s.copied_rows(); ++i) {
          int64_t y = first * s.strides[0] + i - s.padding[0];
          float *to = copy + (c * s.copied_rows() + i) * s.pitch();
          std::fill_n(to, s.pitch(), 0.f);
          if (y >= 0 && y < s.height)
            copy_row(image + (c * s.height + y) * s.width, s.width, s.padding[1], s.strides[1],
                     s.part(), to);
        }
      state.compute_({&s, state.taps_.data(), reinterpret_cast<const float *>(call.scratch), bias,
                      copy, result + first * s.columns, last - first});
    }
    return 0;
  }

  Shape shape_;
  ConvolutionProblem problem_;
  int64_t weight_bytes_, copy_bytes_;
  int threads_;
  Compute compute_;
  std::vector<int64_t> taps_;
};

// Where the library is slower: it gives blocks of so many channels, which are copied again. Time of
// this kernel / the library's, batch 1, two threads of Zen 4, with AVX-512; with AVX2 alone:
//
//   3 channels to 24, 224^2, 3x3, stride 2    0.65; 1.22    1 to 6, 28^2, 5x5       0.40; 0.78
//   3 to 32, the same                         1.00; 1.18    3 to 64, 224^2, 3x3     0.71; 0.85
//   3 to 16, the same                         1.13; 1.11    4 to 320, 64^2, 3x3     0.73; 0.92
//   3 to 64, 224^2, 7x7, stride 2             1.01; 1.14    3 to 64, 572^2, 3x3     0.58; 0.71
//   3 to 96, 224^2, 4x4, stride 4             1.85; 1.96    3 to 64, 32^2, 3x3      0.82; 1.05
int64_t library_block() {
  return lanes_here();
}

} // namespace

bool few_channels_rows_computes(const ConvolutionProblem &p) {
  return p.kind == ConvolutionKind::kForward && p.dtype == DType::kFloat32 && !p.channels_last &&
         p.groups == 1 && p.image[1] <= kFewChannels && p.result[3] >= kMostLanes &&
         p.strides[0] <= 2 && p.strides[1] <= 2 &&
         (p.strides[1] == 1 || p.result[1] % library_block() != 0);
}

std::unique_ptr<runtime::LibraryCallState> few_channels_rows(const ConvolutionProblem &problem,
                                                             int threads) {
  return std::make_unique<FewChannelsRows>(problem, threads);
}

} // namespace weft::backends::cpu

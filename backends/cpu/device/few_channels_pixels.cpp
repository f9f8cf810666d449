// result[y, x, o] = bias[o] + sum over c, i, j of image[c, y s + i d - p, x s + j d - p]
// weight[o, c, i, j], for each image: vectors lie along channels of the result, which are last in
// memory, while the image's are first. So neither the image is turned nor the result. The rows of
// the image that a few rows of the result read are copied with their padding. The sums of some
// pixels and some vectors stay in registers while all taps go by; a pixel of the image is read for
// all vectors at once. Where the last vector's channels do not fill it, it begins earlier, and some
// are computed twice; likewise the last pixels of a row.
//
// Each element is one sum in the order of its taps, whoever computes it, so that the bits depend
// neither on threads nor on where vectors begin. Padding adds products with zero; where a weight is
// not finite they are left out instead, one pixel at a time.
#include "backends/cpu/device/few_channels_pixels.h"

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
constexpr int64_t kPieceProducts = 512 << 10;

struct Shape : FewChannelsShape {
  using FewChannelsShape::FewChannelsShape;
  // Of the copy.
  int64_t pitch() const {
    return width + 2 * padding[1];
  }
};

// Some rows of an image's result.
struct Task {
  const Shape *shape;
  const int64_t *taps;        // where they lie in the copy, from a row's first pixel on
  const float *weight, *bias; // weight: [vector][tap][lane]; bias: null for none
  const float *copy;
  float *result; // of the first row
  int64_t rows;
};

// kPixels pixels of row y from x on, the channels of kVectors vectors from the given one on.
template <int kLanes, int kStride, int kVectors, int kPixels>
WEFT_INLINE void compute_tile(const Task &task, int64_t vector, int64_t y, int64_t x) {
  const Shape &s = *task.shape;
  int64_t taps = s.taps();
  std::array<int64_t, kVectors> channel;
  Vector<kLanes> sums[kVectors][kPixels];
#pragma clang loop unroll(full)
  for (int v = 0; v < kVectors; ++v) {
    channel[v] = std::min((vector + v) * kLanes, s.results - kLanes);
    Vector<kLanes> bias{};
    if (task.bias)
      bias = load<kLanes>(task.bias + channel[v]);
#pragma clang loop unroll(full)
    for (int p = 0; p < kPixels; ++p)
      sums[v][p] = bias;
  }
  const float *weight = task.weight + vector * taps * kLanes,
              *row = task.copy + y * s.strides[0] * s.pitch() + x * kStride;
  for (int64_t t = 0; t < taps; ++t, weight += kLanes) {
    Vector<kLanes> factors[kVectors];
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      factors[v] = load<kLanes>(weight + v * taps * kLanes);
    const float *from = row + task.taps[t];
#pragma clang loop unroll(full)
    for (int p = 0; p < kPixels; ++p) {
      float pixel = from[p * kStride];
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v)
        sums[v][p] += factors[v] * pixel;
    }
  }
  float *result = task.result + (y * s.columns + x) * s.results;
#pragma clang loop unroll(full)
  for (int p = 0; p < kPixels; ++p)
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v) {
      Vector<kLanes> sum = rectified(sums[v][p], s.relu);
      store(result + p * s.results + channel[v], sum);
    }
}

template <int kLanes, int kStride, int kVectors, int kPixels>
WEFT_INLINE void compute_columns(const Task &task, int64_t vector) {
  const Shape &s = *task.shape;
  for (int64_t y = 0; y < task.rows; ++y)
    if (s.columns >= kPixels)
      for (int64_t x = 0; x < s.columns; x += kPixels)
        compute_tile<kLanes, kStride, kVectors, kPixels>(task, vector, y,
                                                         std::min(x, s.columns - kPixels));
    else
      for (int64_t x = 0; x < s.columns; ++x)
        compute_tile<kLanes, kStride, kVectors, 1>(task, vector, y, x);
}

// kSums: how many sums the registers hold beside the factors and a pixel.
template <int kLanes, int kSums, int kStride> WEFT_INLINE void compute_rows(const Task &task) {
  int64_t vectors = (task.shape->results + kLanes - 1) / kLanes;
  for (int64_t v = 0; v < vectors;) {
    int64_t left = vectors - v;
    if (left == 1) {
      compute_columns<kLanes, kStride, 1, kSums / 2>(task, v);
      v += 1;
    } else if (left == 3) {
      compute_columns<kLanes, kStride, 3, kSums / 3>(task, v);
      v += 3;
    } else if (left == 2 || kSums < 16) {
      compute_columns<kLanes, kStride, 2, kSums / 2>(task, v);
      v += 2;
    } else {
      compute_columns<kLanes, kStride, 4, kSums / 4>(task, v);
      v += 4;
    }
  }
}

// The same for each kind of processor, with the instructions and the registers that it has.
using Compute = void (*)(const Task &task);
template <int kStride> void compute_plain(const Task &task) {
  compute_rows<4, 12, kStride>(task);
}
template <int kStride> WEFT_AVX2 void compute_avx2(const Task &task) {
  compute_rows<8, 12, kStride>(task);
}
template <int kStride> WEFT_AVX512 void compute_avx512(const Task &task) {
  compute_rows<16, 24, kStride>(task);
}
template <int kStride> Compute compute_here() {
  return of_processor<Compute>(compute_plain<kStride>, compute_avx2<kStride>,
                               compute_avx512<kStride>);
}
Compute compute_of(int64_t stride) {
  return stride == 1 ? compute_here<1>() : stride == 2 ? compute_here<2>() : compute_here<4>();
}

class FewChannelsPixels : public runtime::LibraryCallState {
public:
  FewChannelsPixels(const ConvolutionProblem &p, int threads)
      : shape_(p, kPieceProducts), problem_(p), threads_(threads),
        compute_(compute_of(p.strides[1])) {
    for (int64_t c = 0; c < shape_.channels; ++c)
      for (int64_t i = 0; i < shape_.tap_rows; ++i)
        for (int64_t j = 0; j < shape_.tap_columns; ++j)
          taps_.push_back((c * shape_.copied_rows() + i * shape_.dilation[0]) * shape_.pitch() +
                          j * shape_.dilation[1]);
    constexpr int64_t kFloat = sizeof(float);
    weight_bytes_ = runtime::align(vectors() * lanes_ * shape_.taps() * kFloat);
    copy_bytes_ = runtime::align(shape_.channels * shape_.copied_rows() * shape_.pitch() * kFloat);
  }

  int64_t scratch_bytes() const override {
    return weight_bytes_ + threads_ * copy_bytes_;
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch), true};
    const float *weight = static_cast<const float *>(operands[1]);
    float *packed = static_cast<float *>(scratch);
    int64_t taps = shape_.taps();
    for (int64_t v = 0; v < vectors(); ++v) {
      int64_t channel = std::min(v * lanes_, shape_.results - lanes_);
      for (int64_t lane = 0; lane < lanes_; ++lane)
        for (int64_t t = 0; t < taps; ++t) {
          float value = weight[(channel + lane) * taps + t];
          call.finite &= std::isfinite(value);
          packed[(v * taps + t) * lanes_ + lane] = value;
        }
    }
    runtime::parallel_for(problem_.image[0] * shape_.pieces(), 1, threads_, compute_pieces, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const FewChannelsPixels *state;
    std::span<void *const> operands;
    char *scratch; // the packed weight, then a copy for each thread
    bool finite;   // the weight
  };

  int64_t vectors() const {
    return (shape_.results + lanes_ - 1) / lanes_;
  }

  static int32_t compute_pieces(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const FewChannelsPixels &state = *call.state;
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
      if (!call.finite) {
        convolve_exactly(state.problem_, call.operands, {n, 0, s.results, first, last - first});
        continue;
      }
      copy_rows(s, images + n * s.channels * s.height * s.width, first, copy);
      state.compute_({&s, state.taps_.data(), reinterpret_cast<const float *>(call.scratch), bias,
                      copy, results + (n * s.rows + first) * s.columns * s.results, last - first});
    }
    return 0;
  }

  // What the rows of the result from `first` on read of the image.
  static void copy_rows(const Shape &s, const float *image, int64_t first, float *to) {
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t i = 0; i < s.copied_rows(); ++i, to += s.pitch()) {
        int64_t y = first * s.strides[0] + i - s.padding[0];
        if (y < 0 || y >= s.height) {
          std::fill_n(to, s.pitch(), 0.f);
          continue;
        }
        std::fill_n(to, s.padding[1], 0.f);
        std::copy_n(image + (c * s.height + y) * s.width, s.width, to + s.padding[1]);
        std::fill_n(to + s.padding[1] + s.width, s.padding[1], 0.f);
      }
  }

  Shape shape_;
  ConvolutionProblem problem_;
  int64_t lanes_ = lanes_here(), weight_bytes_, copy_bytes_;
  int threads_;
  Compute compute_;
  std::vector<int64_t> taps_;
};

} // namespace

bool few_channels_pixels_computes(const ConvolutionProblem &p) {
  int64_t stride = p.strides[1];
  return p.row_major_image && p.channels_last && p.kind == ConvolutionKind::kForward &&
         p.dtype == DType::kFloat32 && p.groups == 1 && p.image[1] <= kFewChannels &&
         p.result[1] >= kMostLanes && (stride == 1 || stride == 2 || stride == 4);
}

std::unique_ptr<runtime::LibraryCallState> few_channels_pixels(const ConvolutionProblem &problem,
                                                               int threads) {
  return std::make_unique<FewChannelsPixels>(problem, threads);
}

} // namespace weft::backends::cpu

// result[p, o] = bias[o] + sum over c of image[p, c] weight[o, c], where p counts the pixels of all
// images: vectors lie along channels of the result, which are last in memory. The sums of some
// pixels and some vectors stay in registers while all channels of the image go by; an element of
// the image is spread over lanes as it is read, for all vectors at once. Where the last vector's
// channels do not fill it, it begins earlier, and some are computed twice; likewise the last
// pixels.
//
// Each element is one sum in the order of the image's channels, whoever computes it, so that the
// bits depend neither on threads nor on where vectors begin.
//
// Time of this kernel / the library's, batch 1, two threads of Ice Lake; with a weight that is
// packed in the call:
//
//   72 -> 24, 56^2    0.63; 0.65    240 -> 40, 28^2   0.78; 0.84    40 -> 120, 7^2    0.64; 1.24
//   24 -> 72, 56^2    0.84; 0.86    40 -> 120, 28^2   0.78; 0.88    288 -> 72, 7^2    0.71; 1.44
//   64 -> 24, 56^2    0.65; 0.65    88 -> 88, 28^2    0.78; 0.84    232 -> 232, 7^2   0.85; 1.83
//   16 -> 72, 112^2   0.82; 0.82    80 -> 200, 14^2   0.74; 0.91    122 -> 122, 28^2  0.94; 1.02
//   144 -> 24, 56^2   0.64; 0.67    120 -> 40, 14^2   0.80; 0.89    244 -> 244, 14^2  0.93; 1.17
//   256 -> 21, 28^2   0.65; 0.71    116 -> 116, 14^2  0.91; 1.19    8 x 72 -> 24, 56^2  0.63; 0.63
#include "backends/cpu/device/pointwise_pixels.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "backends/cpu/device/turn.h"
#include "backends/cpu/device/vector_lanes.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Products of a piece, pixels that one thread takes together: some 2 us, and a multiple of the
// pixels that are in registers.
constexpr int64_t kPieceProducts = 256 << 10, kPiecePixels = 24;
// Of a weight that stays in a part of the L2 cache.
constexpr int64_t kMostWeights = 64 << 10;

struct Shape {
  int64_t channels, results, pixels; // of an image, of its result, of all images
  Relu relu;
};

struct Task {
  const Shape *shape;
  const float *weight, *bias; // weight: [vector][channel][lane]; bias: null for none
  const float *image;         // of the first pixel
  float *result;
  int64_t pixels;
};

template <int kLanes, int kVectors, int kPixels>
WEFT_INLINE void compute_tile(const Task &task, int64_t vector, int64_t pixel) {
  const Shape &s = *task.shape;
  int64_t channels = s.channels;
  std::array<int64_t, kVectors> first;
  Vector<kLanes> sums[kVectors][kPixels];
#pragma clang loop unroll(full)
  for (int v = 0; v < kVectors; ++v) {
    first[v] = std::min((vector + v) * kLanes, s.results - kLanes);
    Vector<kLanes> bias{};
    if (task.bias)
      bias = load<kLanes>(task.bias + first[v]);
#pragma clang loop unroll(full)
    for (int p = 0; p < kPixels; ++p)
      sums[v][p] = bias;
  }
  const float *weight = task.weight + vector * channels * kLanes,
              *image = task.image + pixel * channels;
  for (int64_t c = 0; c < channels; ++c) {
    Vector<kLanes> factors[kVectors];
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v)
      factors[v] = load<kLanes>(weight + (v * channels + c) * kLanes);
#pragma clang loop unroll(full)
    for (int p = 0; p < kPixels; ++p) {
      float element = image[p * channels + c];
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v)
        sums[v][p] += factors[v] * element;
    }
  }
  float *result = task.result + pixel * s.results;
#pragma clang loop unroll(full)
  for (int p = 0; p < kPixels; ++p)
#pragma clang loop unroll(full)
    for (int v = 0; v < kVectors; ++v) {
      Vector<kLanes> sum = rectified(sums[v][p], s.relu);
      store(result + p * s.results + first[v], sum);
    }
}

template <int kLanes, int kVectors, int kPixels>
WEFT_INLINE void compute_pixels(const Task &task, int64_t vector) {
  if (task.pixels >= kPixels)
    for (int64_t p = 0; p < task.pixels; p += kPixels)
      compute_tile<kLanes, kVectors, kPixels>(task, vector, std::min(p, task.pixels - kPixels));
  else
    for (int64_t p = 0; p < task.pixels; ++p)
      compute_tile<kLanes, kVectors, 1>(task, vector, p);
}

// kSums: how many sums the registers hold beside the factors and an element.
template <int kLanes, int kSums> WEFT_INLINE void compute(const Task &task) {
  int64_t vectors = (task.shape->results + kLanes - 1) / kLanes;
  for (int64_t v = 0; v < vectors;) {
    int64_t left = vectors - v;
    if (left == 1) {
      compute_pixels<kLanes, 1, kSums / 2>(task, v);
      v += 1;
    } else if (left == 2 || left == 4 || kSums < 16) {
      compute_pixels<kLanes, 2, kSums / 2>(task, v);
      v += 2;
    } else {
      compute_pixels<kLanes, 3, kSums / 3>(task, v);
      v += 3;
    }
  }
}

// [result][channel] as [vector][channel][lane].
template <int kLanes> WEFT_INLINE void pack_weight(const Shape &s, const float *from, float *to) {
  for (int64_t v = 0; v * kLanes < s.results; ++v, to += s.channels * kLanes) {
    const float *first = from + std::min(v * kLanes, s.results - kLanes) * s.channels;
    int64_t c = 0;
    for (; c + kLanes <= s.channels; c += kLanes)
      turn<kLanes>([&](int64_t i)
                       __attribute__((always_inline)) { return first + i * s.channels + c; },
                   [&](int64_t i) __attribute__((always_inline)) { return to + (c + i) * kLanes; });
    for (; c < s.channels; ++c)
      for (int64_t lane = 0; lane < kLanes; ++lane)
        to[c * kLanes + lane] = first[lane * s.channels + c];
  }
}

// The same for each kind of processor, with the instructions and the registers that it has.
struct Kernel {
  void (*compute)(const Task &task);
  void (*pack)(const Shape &shape, const float *from, float *to);
};
void compute_plain(const Task &task) {
  compute<4, 12>(task);
}
void pack_plain(const Shape &shape, const float *from, float *to) {
  pack_weight<4>(shape, from, to);
}
WEFT_AVX2 void compute_avx2(const Task &task) {
  compute<8, 12>(task);
}
WEFT_AVX2 void pack_avx2(const Shape &shape, const float *from, float *to) {
  pack_weight<8>(shape, from, to);
}
WEFT_AVX512 void compute_avx512(const Task &task) {
  compute<16, 24>(task);
}
WEFT_AVX512 void pack_avx512(const Shape &shape, const float *from, float *to) {
  pack_weight<16>(shape, from, to);
}

class PointwisePixels : public runtime::PackedCallState {
public:
  PointwisePixels(const ConvolutionProblem &p, int threads)
      : shape_{p.image[1], p.result[1], p.result[0] * p.result[2] * p.result[3], p.relu},
        bias_(p.bias), packed_(p.packed_weight), threads_(threads),
        kernel_(of_processor<Kernel>({compute_plain, pack_plain}, {compute_avx2, pack_avx2},
                                     {compute_avx512, pack_avx512})) {
    int64_t pixels = kPieceProducts / (shape_.channels * shape_.results);
    piece_pixels_ = std::max<int64_t>(1, pixels / kPiecePixels) * kPiecePixels;
  }

  int operand() const override {
    return 1;
  }
  int64_t packed_bytes() const override {
    return runtime::align(vectors() * lanes_ * shape_.channels *
                          static_cast<int64_t>(sizeof(float)));
  }
  std::string form() const override {
    return absl::StrCat("1x1, ", shape_.channels, " to ", shape_.results, ", vectors of ", lanes_);
  }
  absl::Status pack(const void *plain, void *packed) override {
    kernel_.pack(shape_, static_cast<const float *>(plain), static_cast<float *>(packed));
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override {
    return packed_ ? 0 : packed_bytes();
  }
  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<const float *>(packed_ ? operands[1] : scratch)};
    if (!packed_)
      (void)pack(operands[1], scratch);
    int64_t pieces = (shape_.pixels + piece_pixels_ - 1) / piece_pixels_;
    runtime::parallel_for(pieces, 1, threads_, compute_pieces, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const PointwisePixels *state;
    std::span<void *const> operands;
    const float *weight;
  };

  int64_t vectors() const {
    return (shape_.results + lanes_ - 1) / lanes_;
  }

  static int32_t compute_pieces(void *data, int, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const PointwisePixels &state = *call.state;
    const Shape &s = state.shape_;
    const float *bias = state.bias_ ? static_cast<const float *>(call.operands[2]) : nullptr;
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t first = piece * state.piece_pixels_;
      state.kernel_.compute({&s, call.weight, bias,
                             static_cast<const float *>(call.operands[0]) + first * s.channels,
                             static_cast<float *>(call.operands.back()) + first * s.results,
                             std::min(state.piece_pixels_, s.pixels - first)});
    }
    return 0;
  }

  Shape shape_;
  bool bias_, packed_;
  int64_t lanes_ = lanes_here(), piece_pixels_;
  int threads_;
  Kernel kernel_;
};

} // namespace

// Where the result's channels fill the library's vectors it is as fast.
bool pointwise_pixels_computes(const ConvolutionProblem &p) {
  return lanes_here() == kMostLanes && p.kind == ConvolutionKind::kForward && p.channels_last &&
         !p.row_major_image && p.dtype == DType::kFloat32 && p.groups == 1 && p.weight[2] == 1 &&
         p.weight[3] == 1 && p.strides == std::array<int64_t, 2>{1, 1} &&
         p.padding == std::array<int64_t, 2>{0, 0} && p.result[1] > kMostLanes &&
         p.result[1] % kMostLanes != 0 && p.image[1] * p.result[1] <= kMostWeights;
}

std::unique_ptr<runtime::PackedCallState> pointwise_pixels(const ConvolutionProblem &problem,
                                                           int threads) {
  return std::make_unique<PointwisePixels>(problem, threads);
}

} // namespace weft::backends::cpu

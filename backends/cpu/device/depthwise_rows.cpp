// result[y, x] = bias + sum over i, j of image[y s + i - p, x s + j - p] w[i, j], for each channel
// of each image: vectors lie along rows. A plane is copied once with its padding, for a stride of 2
// with the even columns of a row before the odd ones, so that what a tap reads for neighbouring
// pixels is contiguous. Where the last vector of a row does not fill it begins earlier, and some
// pixels are computed twice.
//
// Each element is one sum in the order of its taps, whoever computes it, so that the bits depend
// neither on threads nor on where vectors begin. Padding adds products with zero; where a weight is
// not finite they are left out instead, one pixel at a time.
#include "backends/cpu/device/depthwise_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/device/vector_lanes.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Products that a thread takes at once: some 2 us, as much as it costs to wake it.
constexpr int64_t kGrainProducts = 64 << 10;
// Rows that are computed at once, so that several sums are under way.
constexpr int kRows = 4;
constexpr int kMostLanes = 16;
// Where the library is slower. It copies images into blocks of channels, fast where those are whole
// and rows are short. Time of this kernel / the library's, batch 1, two threads of Zen 4:
//
//   24 channels, 56^2, stride 2    0.37    48 channels, 14^2              0.86
//   24, 28^2                       0.29    48, 28^2, stride 2             1.55
//   58, 56^2, stride 2             0.28    96, 14^2, stride 2             2.04
//   58, 28^2                       0.33    384, 14^2                      0.93
//   116, 14^2                      0.66    960, 7^2                       2.6
//   72, 56^2, 5x5, stride 2        0.50    232, 7^2                       1.35
//   120, 28^2, 5x5                 0.53    672, 14^2, 5x5                 2.3
constexpr int64_t kBlockedChannels = 16, kLeastColumns = 8;

struct Shape {
  int64_t channels, height, width, rows, columns; // of the image, and of the result
  int64_t tap_rows, tap_columns, stride;
  std::array<int64_t, 2> padding;
  bool relu;

  // Of a copied plane: the floats of a row, half of them even columns where the stride is 2.
  // Vectors may read behind a row.
  int64_t pitch;

  int64_t copied_rows() const {
    return (rows - 1) * stride + tap_rows;
  }
  int64_t plane() const {
    return copied_rows() * pitch + kMostLanes;
  }
};

struct Task {
  const Shape *shape;
  const float *image, *weight; // of one channel of an image
  float bias;
  float *result, *copy;
};

// Of 2 kLanes floats those at even places, and those at odd ones.
template <int kLanes> WEFT_INLINE void split(const float *from, float *even, float *odd) {
  Vector<kLanes> a = load<kLanes>(from), b = load<kLanes>(from + kLanes);
  if constexpr (kLanes == 16) {
    store(even,
          __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
    store(odd,
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
  } else {
    store(even, __builtin_shufflevector(a, b, 0, 2, 4, 6));
    store(odd, __builtin_shufflevector(a, b, 1, 3, 5, 7));
  }
}

// A row of the plane behind its padding; of a stride of 2 the columns of the padded row that are
// even, and from `half` on the odd ones.
template <int kStride>
WEFT_INLINE void copy_row(const float *from, int64_t width, int64_t padding, int64_t half,
                          float *to) {
  if constexpr (kStride == 1) {
    std::memcpy(to + padding, from, sizeof(float) * static_cast<size_t>(width));
  } else {
    // Column x of the image is column x + padding: the first array has those of padding's parity.
    float *first = to + (padding % 2 ? half : 0) + padding / 2,
          *second = to + (padding % 2 ? 0 : half) + (padding + 1) / 2;
    int64_t x = 0;
    for (; x + 32 <= width; x += 32)
      split<16>(from + x, first + x / 2, second + x / 2);
    for (; x + 8 <= width; x += 8)
      split<4>(from + x, first + x / 2, second + x / 2);
    for (; x < width; ++x)
      (x % 2 ? second : first)[x / 2] = from[x];
  }
}

// Pixels [x, x + kLanes) of the rows [y, y + kCount).
template <int kLanes, int kTaps, int kStride, int kCount>
WEFT_INLINE void compute_vector(const Task &task, int64_t y, int64_t x) {
  const Shape &s = *task.shape;
  int64_t pitch = s.pitch, half = pitch / kStride;
  Vector<kLanes> sums[kCount];
  for (int k = 0; k < kCount; ++k)
    sums[k] = Vector<kLanes>{} + task.bias;
  for (int64_t i = 0; i < s.tap_rows; ++i) {
    const float *row = task.copy + (y * kStride + i) * pitch + x;
#pragma clang loop unroll(full)
    for (int j = 0; j < kTaps; ++j) {
      int64_t at = kStride == 1 ? j : j % 2 * half + j / 2;
      float weight = task.weight[i * kTaps + j];
#pragma clang loop unroll(full)
      for (int k = 0; k < kCount; ++k)
        sums[k] += load<kLanes>(row + k * kStride * pitch + at) * weight;
    }
  }
  for (int k = 0; k < kCount; ++k) {
    if (s.relu)
      sums[k] = sums[k] <= Vector<kLanes>{} ? Vector<kLanes>{} : sums[k]; // NaN stays
    store(task.result + (y + k) * s.columns + x, sums[k]);
  }
}

template <int kLanes, int kTaps, int kStride, int kCount>
WEFT_INLINE void compute_rows(const Task &task, int64_t y) {
  int64_t columns = task.shape->columns;
  for (int64_t x = 0; x < columns; x += kLanes)
    compute_vector<kLanes, kTaps, kStride, kCount>(task, y, std::min(x, columns - kLanes));
}

template <int kLanes, int kTaps, int kStride> WEFT_INLINE void compute_plane(const Task &task) {
  int64_t rows = task.shape->rows, y = 0;
  for (; y + kRows <= rows; y += kRows)
    compute_rows<kLanes, kTaps, kStride, kRows>(task, y);
  for (; y < rows; ++y)
    compute_rows<kLanes, kTaps, kStride, 1>(task, y);
}

template <int kTaps, int kStride> WEFT_INLINE void compute(const Task &task) {
  const Shape &s = *task.shape;
  int64_t pitch = s.pitch;
  for (int64_t i = 0; i < s.copied_rows(); ++i)
    if (int64_t y = i - s.padding[0]; y >= 0 && y < s.height)
      copy_row<kStride>(task.image + y * s.width, s.width, s.padding[1], pitch / kStride,
                        task.copy + i * pitch);
  if (s.columns >= 16)
    compute_plane<16, kTaps, kStride>(task);
  else if (s.columns >= 8)
    compute_plane<8, kTaps, kStride>(task);
  else
    compute_plane<4, kTaps, kStride>(task);
}

// The same for each kind of processor, with the instructions that it has.
using Compute = void (*)(const Task &task);
#define WEFT_DEPTHWISE(name, attribute)                                                            \
  template <int kTaps, int kStride> attribute void name(const Task &task) {                        \
    compute<kTaps, kStride>(task);                                                                 \
  }
WEFT_DEPTHWISE(compute_plain, )
WEFT_DEPTHWISE(compute_avx2, WEFT_AVX2)
WEFT_DEPTHWISE(compute_avx512, WEFT_AVX512)
#undef WEFT_DEPTHWISE

template <int kTaps, int kStride> Compute compute_here() {
  return of_processor<Compute>(compute_plain<kTaps, kStride>, compute_avx2<kTaps, kStride>,
                               compute_avx512<kTaps, kStride>);
}
template <int kTaps> Compute compute_of(int64_t stride) {
  return stride == 1 ? compute_here<kTaps, 1>() : compute_here<kTaps, 2>();
}
Compute compute_of(int64_t taps, int64_t stride) {
  return taps == 3 ? compute_of<3>(stride) : compute_of<5>(stride);
}

// What a weight that is not finite would make of padding is left out.
void compute_exactly(const Task &task) {
  const Shape &s = *task.shape;
  for (int64_t y = 0; y < s.rows; ++y)
    for (int64_t x = 0; x < s.columns; ++x) {
      float sum = task.bias;
      for (int64_t i = 0; i < s.tap_rows; ++i)
        for (int64_t j = 0; j < s.tap_columns; ++j) {
          int64_t row = y * s.stride + i - s.padding[0], column = x * s.stride + j - s.padding[1];
          if (row >= 0 && row < s.height && column >= 0 && column < s.width)
            sum = std::fma(task.image[row * s.width + column], task.weight[i * s.tap_columns + j],
                           sum);
        }
      task.result[y * s.columns + x] = s.relu && sum <= 0 ? 0 : sum;
    }
}

class DepthwiseRows : public runtime::LibraryCallState {
public:
  DepthwiseRows(const ConvolutionProblem &p, int threads)
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
               0},
        planes_(p.image[0] * p.image[1]), bias_(p.bias), threads_(threads),
        compute_(compute_of(p.weight[3], p.strides[0])) {
    shape_.pitch =
        (shape_.columns + shape_.tap_columns / shape_.stride + kMostLanes) * shape_.stride;
    copy_bytes_ = runtime::align(shape_.plane() * static_cast<int64_t>(sizeof(float)));
    int64_t of_plane = shape_.rows * shape_.columns * shape_.tap_rows * shape_.tap_columns;
    grain_ = std::max<int64_t>(1, kGrainProducts / of_plane);
  }

  int64_t scratch_bytes() const override {
    return threads_ * copy_bytes_;
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    std::memset(scratch, 0, static_cast<size_t>(scratch_bytes()));
    Call call{this, operands, static_cast<char *>(scratch)};
    runtime::parallel_for(planes_, grain_, threads_, compute_planes, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const DepthwiseRows *state;
    std::span<void *const> operands;
    char *scratch;
  };

  static int32_t compute_planes(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const DepthwiseRows &state = *call.state;
    const Shape &s = state.shape_;
    int64_t taps = s.tap_rows * s.tap_columns;
    for (int64_t plane = begin; plane < end; ++plane) {
      int64_t c = plane % s.channels;
      const float *weight = static_cast<const float *>(call.operands[1]) + c * taps;
      Task task{&s,
                static_cast<const float *>(call.operands[0]) + plane * s.height * s.width,
                weight,
                state.bias_ ? static_cast<const float *>(call.operands[2])[c] : 0,
                static_cast<float *>(call.operands.back()) + plane * s.rows * s.columns,
                reinterpret_cast<float *>(call.scratch + thread * state.copy_bytes_)};
      bool finite = std::all_of(weight, weight + taps, [](float w) { return std::isfinite(w); });
      (finite ? state.compute_ : compute_exactly)(task);
    }
    return 0;
  }

  Shape shape_;
  int64_t planes_, copy_bytes_, grain_;
  bool bias_;
  int threads_;
  Compute compute_;
};

} // namespace

bool depthwise_rows_computes(const ConvolutionProblem &p) {
  int64_t width = p.weight[3];
  return p.kind == ConvolutionKind::kForward && p.dtype == DType::kFloat32 && !p.channels_last &&
         p.groups == p.image[1] && p.groups == p.weight[0] && (width == 3 || width == 5) &&
         p.dilation == std::array<int64_t, 2>{1, 1} && p.strides[0] == p.strides[1] &&
         p.strides[0] <= 2 && p.groups % kBlockedChannels != 0 && p.result[3] >= kLeastColumns;
}

std::unique_ptr<runtime::LibraryCallState> depthwise_rows(const ConvolutionProblem &problem,
                                                          int threads) {
  return std::make_unique<DepthwiseRows>(problem, threads);
}

} // namespace weft::backends::cpu

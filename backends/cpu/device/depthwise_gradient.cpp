// gradient[c, i, j] = sum over n, y, x of image[n, y s + i d - p, x s + j d - p, c] g[n, y, x, c]:
// for each channel as many dot products as there are taps, and vectors lie along channels. A row of
// taps stays in registers while the pixels of a few rows go by; the sums of such tiles are added up
// in memory, tile after tile, so that an error stays that of a short sum.
//
// Ranges of tiles (parts) and of channels (units) are computed by one thread each, parts are added
// in order, and their number depends on the shapes alone: so do the bits. Of row-major images a
// thread turns a unit's channels, image by image, and parts are ranges of images.
#include "backends/cpu/device/depthwise_gradient.h"

#include <algorithm>
#include <array>

#include "backends/cpu/device/product_tiles.h"
#include "backends/cpu/device/vector_lanes.h"
#include "runtime/core/alignment.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Channels of a unit: what a thread reads of a pixel lies in a row of four cache lines.
constexpr int64_t kUnitChannels = 64;
// Of row-major images: as many as are turned at once. Fewer channels than kFewestTurned would leave
// most lanes empty, and what is turned of one image shall lie in a large L2 or a part of the L3.
constexpr int64_t kTurnedChannels = kPanelColumns, kFewestTurned = 8, kMostTurnedBytes = 4 << 20;
// Units times parts: as many as there may be threads.
constexpr int64_t kMostTasks = 16;
// Pixels of a tile: many enough that loading and storing its sums does not count, few enough that
// the rows it reads stay in the L1 cache for all taps (16 channels of 5 + 4 rows of 28 take 16 KB).
constexpr int64_t kTilePixels = 64;

struct Shape {
  int64_t images, channels, height, width, rows, columns; // of the image, and of the result
  int64_t tap_rows, tap_columns;
  std::array<int64_t, 2> stride, padding, dilation;
  int64_t unit;  // channels of one: its sums are [tap][unit]
  int64_t pixel; // elements from a pixel to the next, as tiles read them
  int64_t tile_rows, tiles_of_image;
};

// The tiles [first_tile, last_tile) of a unit's channels, added to its sums.
struct Task {
  const Shape *shape;
  const float *image, *gradient; // at the first of the channels
  float *sums;
  int64_t first_tile, last_tile, channels;
};

// Rounded up; b is positive.
WEFT_INLINE int64_t ceil_div(int64_t a, int64_t b) {
  return a <= 0 ? -(-a / b) : (a + b - 1) / b;
}

// One tile of kLanes channels. The pixels that no tap of a row reads padding for are summed up two
// at a time, so that enough sums are under way at once; the others tap by tap.
template <int kLanes, int kTaps>
WEFT_INLINE void add_tile(const Shape &s, const float *image, const float *gradient, float *sums,
                          int64_t first_row, int64_t last_row) {
  int64_t step = s.stride[1] * s.pixel, tap = s.dilation[1] * s.pixel;
  int64_t inner = std::min(ceil_div(s.padding[1], s.stride[1]), s.columns);
  int64_t behind = s.width - 1 + s.padding[1] - (kTaps - 1) * s.dilation[1];
  int64_t outer = std::clamp(behind < 0 ? 0 : behind / s.stride[1] + 1, inner, s.columns);
  for (int64_t i = 0; i < s.tap_rows; ++i) {
    Vector<kLanes> even[kTaps] = {}, odd[kTaps] = {};
    for (int64_t y = first_row; y < last_row; ++y) {
      int64_t row = y * s.stride[0] + i * s.dilation[0] - s.padding[0];
      if (row < 0 || row >= s.height)
        continue;
      int64_t start = (row * s.width - s.padding[1]) * s.pixel; // may lie before the row
      const float *g = gradient + y * s.columns * s.pixel;
      int64_t x = inner;
      for (; x + 1 < outer; x += 2) {
        Vector<kLanes> g0 = load<kLanes>(g + x * s.pixel),
                       g1 = load<kLanes>(g + (x + 1) * s.pixel);
        const float *p = image + (start + x * step);
        for (int j = 0; j < kTaps; ++j) {
          even[j] += load<kLanes>(p + j * tap) * g0;
          odd[j] += load<kLanes>(p + step + j * tap) * g1;
        }
      }
      if (x < outer) {
        Vector<kLanes> g0 = load<kLanes>(g + x * s.pixel);
        for (int j = 0; j < kTaps; ++j)
          even[j] += load<kLanes>(image + (start + x * step + j * tap)) * g0;
      }
      for (int j = 0; j < kTaps; ++j) {
        int64_t before = s.padding[1] - j * s.dilation[1], last = s.width - 1 + before;
        int64_t begin = std::max<int64_t>(ceil_div(before, s.stride[1]), 0),
                end = last < 0 ? 0 : std::min(last / s.stride[1] + 1, s.columns);
        for (x = begin; x < std::min(inner, end); ++x)
          even[j] +=
              load<kLanes>(image + (start + x * step + j * tap)) * load<kLanes>(g + x * s.pixel);
        for (x = std::max(outer, begin); x < end; ++x)
          odd[j] +=
              load<kLanes>(image + (start + x * step + j * tap)) * load<kLanes>(g + x * s.pixel);
      }
    }
    for (int j = 0; j < kTaps; ++j) {
      float *to = sums + (i * kTaps + j) * s.unit;
      store(to, load<kLanes>(to) + (even[j] + odd[j]));
    }
  }
}

// As many of the task's channels as fill vectors of kLanes.
template <int kLanes, int kTaps>
WEFT_INLINE void add_channels(const Task &task, const float *image, const float *gradient,
                              int64_t first_row, int64_t last_row, int64_t &c) {
  for (; c + kLanes <= task.channels; c += kLanes)
    add_tile<kLanes, kTaps>(*task.shape, image + c, gradient + c, task.sums + c, first_row,
                            last_row);
}

template <int kTaps> WEFT_INLINE void add_tiles(const Task &task) {
  const Shape &s = *task.shape;
  for (int64_t tile = task.first_tile; tile < task.last_tile; ++tile) {
    int64_t n = tile / s.tiles_of_image, first = tile % s.tiles_of_image * s.tile_rows,
            last = std::min(first + s.tile_rows, s.rows), c = 0;
    const float *image = task.image + n * s.height * s.width * s.pixel,
                *gradient = task.gradient + n * s.rows * s.columns * s.pixel;
    add_channels<16, kTaps>(task, image, gradient, first, last, c);
    add_channels<8, kTaps>(task, image, gradient, first, last, c);
    add_channels<4, kTaps>(task, image, gradient, first, last, c);
    add_channels<1, kTaps>(task, image, gradient, first, last, c);
  }
}

WEFT_INLINE void compute(const Task &task) {
  if (task.shape->tap_columns == 3)
    add_tiles<3>(task);
  else if (task.shape->tap_columns == 5)
    add_tiles<5>(task);
  else
    add_tiles<7>(task);
}

// The same for each kind of processor, with the instructions that it has.
void compute_plain(const Task &task) {
  compute(task);
}
WEFT_AVX2 void compute_avx2(const Task &task) {
  compute(task);
}
WEFT_AVX512 void compute_avx512(const Task &task) {
  compute(task);
}

using Compute = void (*)(const Task &task);
Compute compute_here() {
  return of_processor<Compute>(compute_plain, compute_avx2, compute_avx512);
}

int64_t turned_bytes(int64_t image_pixels, int64_t gradient_pixels) {
  return (image_pixels + gradient_pixels) * kTurnedChannels * byte_size(DType::kFloat32);
}

class DepthwiseState : public runtime::LibraryCallState {
public:
  DepthwiseState(const ConvolutionProblem &p, int threads)
      : channels_last_(p.channels_last), threads_(threads) {
    shape_ = {p.image[0],
              p.image[1],
              p.image[2],
              p.image[3],
              p.result[2],
              p.result[3],
              p.weight[2],
              p.weight[3],
              p.strides,
              p.padding,
              p.dilation,
              channels_last_ ? kUnitChannels : kTurnedChannels,
              channels_last_ ? p.image[1] : kTurnedChannels,
              1,
              1};
    shape_.tile_rows = std::clamp<int64_t>(kTilePixels / shape_.columns, 1, shape_.rows);
    shape_.tiles_of_image = (shape_.rows + shape_.tile_rows - 1) / shape_.tile_rows;
    shared_ = channels_last_ ? shape_.images * shape_.tiles_of_image : shape_.images;
    taps_ = shape_.tap_rows * shape_.tap_columns;
    units_ = (shape_.channels + shape_.unit - 1) / shape_.unit;
    parts_ = std::clamp<int64_t>(kMostTasks / units_, 1, shared_);
  }

  int64_t scratch_bytes() const override {
    return sums_bytes() + std::min<int64_t>(threads_, units_ * parts_) * room_bytes();
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call{this, operands, static_cast<char *>(scratch)};
    runtime::parallel_for(units_ * parts_, 1, threads_, compute_tasks, &call);
    runtime::parallel_for(shape_.channels, kUnitChannels, threads_, add_up, &call);
    return absl::OkStatus();
  }

private:
  struct Call {
    const DepthwiseState *state;
    std::span<void *const> operands;
    char *scratch; // sums [part][unit][tap][channel], then the threads' rooms
  };

  int64_t sums_bytes() const {
    return runtime::align(parts_ * units_ * taps_ * shape_.unit * byte_size(DType::kFloat32));
  }
  int64_t image_pixels() const {
    return shape_.height * shape_.width;
  }
  int64_t gradient_pixels() const {
    return shape_.rows * shape_.columns;
  }
  // For what is turned: a unit's channels of an image and of its gradient.
  int64_t room_bytes() const {
    return channels_last_ ? 0 : runtime::align(turned_bytes(image_pixels(), gradient_pixels()));
  }

  // Channels [first, first + kTurnedChannels) of an image of so many pixels, with channels last;
  // zeros for channels that there are not.
  void turn(const float *image, int64_t pixels, int64_t first, float *room) const {
    TiledProduct panel{0, pixels, std::min(kTurnedChannels, shape_.channels - first), 0, 0};
    pack_panels(panel, image + first * pixels, 1, pixels, 0, 1, room);
  }

  static int32_t compute_tasks(void *data, int thread, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const DepthwiseState &state = *call.state;
    auto *room =
        reinterpret_cast<float *>(call.scratch + state.sums_bytes() + thread * state.room_bytes());
    for (int64_t i = begin; i < end; ++i)
      state.compute_task(call, i / state.units_, i % state.units_, room);
    return 0;
  }

  void compute_task(const Call &call, int64_t part, int64_t unit, float *room) const {
    const auto *image = static_cast<const float *>(call.operands[0]),
               *gradient = static_cast<const float *>(call.operands[1]);
    float *sums =
        reinterpret_cast<float *>(call.scratch) + (part * units_ + unit) * taps_ * shape_.unit;
    std::fill_n(sums, taps_ * shape_.unit, 0.0f);
    int64_t channel = unit * shape_.unit, first = shared_ * part / parts_,
            last = shared_ * (part + 1) / parts_;
    if (channels_last_) {
      compute_({&shape_, image + channel, gradient + channel, sums, first, last,
                std::min(shape_.unit, shape_.channels - channel)});
      return;
    }
    float *turned = room + image_pixels() * kTurnedChannels;
    for (int64_t n = first; n < last; ++n) {
      turn(image + n * shape_.channels * image_pixels(), image_pixels(), channel, room);
      turn(gradient + n * shape_.channels * gradient_pixels(), gradient_pixels(), channel, turned);
      compute_({&shape_, room, turned, sums, 0, shape_.tiles_of_image, kTurnedChannels});
    }
  }

  static int32_t add_up(void *data, int, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const DepthwiseState &state = *call.state;
    const float *sums = reinterpret_cast<const float *>(call.scratch);
    float *result = static_cast<float *>(call.operands[2]);
    int64_t taps = state.taps_, unit = state.shape_.unit, of_part = state.units_ * taps * unit;
    for (int64_t c = begin; c < end; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float *at = sums + (c / unit * taps + tap) * unit + c % unit;
        float sum = *at;
        for (int64_t part = 1; part < state.parts_; ++part)
          sum += at[part * of_part];
        result[c * taps + tap] = sum;
      }
    return 0;
  }

  Shape shape_;
  bool channels_last_;
  int64_t shared_; // what parts are ranges of: tiles of all images, or images
  int64_t taps_, units_, parts_;
  int threads_;
  Compute compute_ = compute_here();
};

} // namespace

std::unique_ptr<runtime::LibraryCallState> depthwise_weight_gradient(const ConvolutionProblem &p,
                                                                     int threads) {
  int64_t width = p.weight[3];
  if (p.kind != ConvolutionKind::kWeightGradient || p.groups != p.image[1] ||
      p.groups != p.weight[0] || (width != 3 && width != 5 && width != 7))
    return nullptr;
  if (!p.channels_last &&
      (p.groups < kFewestTurned || turned_bytes(p.image[2] * p.image[3],
                                                p.result[2] * p.result[3]) > kMostTurnedBytes))
    return nullptr;
  // The library has a kernel of its own for many of width 3, as fast as this one.
  if (width == 3) {
    absl::StatusOr<std::unique_ptr<OnednnConvolution>> library =
        OnednnConvolution::create(p, 1, threads);
    if (library.ok() && (*library)->implementation().starts_with("jit_dw"))
      return nullptr;
  }
  return std::make_unique<DepthwiseState>(p, threads);
}

} // namespace weft::backends::cpu

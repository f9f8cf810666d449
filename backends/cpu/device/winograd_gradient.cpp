// All tiles of the batch are cut into blocks. Of a block, the image's tiles and those of the
// result's gradient are transformed, and the products of its matrices added to the sums; behind the
// last block the sums are transformed back, of an only block slab by slab of filters. A thread
// computes whole products, block after block: the order of a sum follows from the number of blocks,
// and that from the shapes alone.
#include "backends/cpu/device/winograd_gradient.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/winograd_convolution.h"
#include "backends/cpu/device/winograd_gradient_tiles.h"
#include "runtime/core/alignment.h"
#include "runtime/core/status.h"
#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);
// Bytes of the transformed tiles of a block, a part of the L3 cache. Sums that are larger go by for
// each block: the blocks are as large.
constexpr int64_t kBlockBytes = 4 << 20;
// Where all tiles are one block: bytes of the sums of a slab, whose filters are a multiple of
// kSlabGrain (or all). Of 512 -> 512 channels, 28^2, that takes 29 MB less.
constexpr int64_t kSumBytes = 8 << 20, kSlabGrain = 32;
// Tiles, and filters of the weight's gradient, that a thread transforms at once.
constexpr int64_t kTileGrain = 4, kFilterGrain = 4;

// Times, in those of one multiplication of a gradient without transforms (11 ps by two threads of
// Zen 4): of a multiplication of the products; of an element of the sums that is transformed back,
// and of one that a block is added to (0.3 and 0.15 ns); of an element of a tile that is
// transformed.
constexpr double kProduct = 1, kBack = 26, kAdd = 13;
// Times of gradients in those without transforms; measured, by two threads, and by one where that
// differs (of a batch of one the other takes one thread):
//
//   batch x channels -> filters, image   m = 2         m = 4
//   4 x 64 -> 64, 224^2                  0.52          0.42
//   4 x 128 -> 128, 112^2                0.43          0.32
//   4 x 256 -> 256, 56^2                 0.46          0.38
//   4 x 512 -> 512, 28^2                 0.55          0.39
//   4 x 512 -> 512, 14^2                 0.51          0.57
//   16 x 64 -> 64, 56^2                  0.61          0.51
//   16 x 128 -> 128, 28^2                0.54          0.42
//   16 x 256 -> 256, 14^2                0.50          0.52
//   16 x 512 -> 512, 7^2                 0.47 / 0.64   0.43 / 0.55
//   16 x 128 -> 32, 14^2                 0.61          0.65
//   1 x 512 -> 512, 14^2                 0.45 / 0.63   0.71 / 1.05
//   1 x 256 -> 256, 14^2                 0.42 / 0.67   0.64 / 0.96
//   4 x 3 -> 64, 224^2                   1.65          1.40
constexpr WinogradTileCost kTileCosts[] = {{2, 10}, {4, 30}};

// How the tiles lie in blocks.
struct Blocks {
  int64_t blocks, rows; // rows: tiles of a block; the last one may have fewer

  Blocks(const WinogradShape &s, int64_t tile) {
    int64_t places = (tile + 2) * (tile + 2), tiles = s.tiles(tile),
            bytes = std::max(kBlockBytes, places * s.channels * s.filters * kFloat),
            most = std::max<int64_t>(bytes / (places * (s.channels + s.filters) * kFloat), 1);
    blocks = (tiles + most - 1) / most;
    rows = (tiles + blocks - 1) / blocks;
    blocks = (tiles + rows - 1) / rows;
  }
};

// Bytes from one of many matrices to the next: one cache line more than they take, lest the same
// element of all of them falls into the same set of a cache.
int64_t spread(int64_t elements) {
  return runtime::align(elements * kFloat) + runtime::kBufferAlignment;
}

class WinogradGradientState : public runtime::LibraryCallState {
public:
  WinogradGradientState(const ConvolutionProblem &p, int64_t tile, int threads)
      : shape_(winograd_shape(p)), blocks_(shape_, tile), tiles_(shape_.tiles(tile)),
        places_((tile + 2) * (tile + 2)), threads_(threads), slab_(slab()),
        slabs_((shape_.filters + slab_ - 1) / slab_),
        image_(spread(blocks_.rows * shape_.channels)),
        gradient_(spread(blocks_.rows * shape_.filters)), sum_(spread(shape_.channels * slab_)),
        image_transforms_(winograd_transforms(tile)),
        transforms_(winograd_gradient_transforms(tile)) {}

  // False where the library has no fast product.
  absl::StatusOr<bool> build() {
    int64_t rows = blocks_.rows, channels = shape_.channels, filters = shape_.filters;
    MatmulProblem product;
    product.a = {{slab_, rows}, {1, filters}};
    product.b = {{rows, channels}, {channels, 1}};
    product.c = {{slab_, channels}, {channels, 1}};
    for (bool accumulate : {false, true}) {
      product.accumulate = accumulate;
      for (int i = 0; i < (accumulate && blocks_.blocks == 1 ? 0 : threads_); ++i) {
        absl::StatusOr<std::unique_ptr<OnednnMatmul>> made = OnednnMatmul::create(product, 1);
        if (absl::IsUnimplemented(made.status()))
          return false;
        if (!made.ok())
          return made.status();
        if ((*made)->implementation().starts_with("ref"))
          return false;
        library_bytes_ = std::max(library_bytes_, runtime::align((*made)->scratch_bytes()));
        (accumulate ? further_ : first_).push_back(*std::move(made));
      }
    }
    return true;
  }

  void set_direct(std::unique_ptr<runtime::LibraryCallState> direct) {
    direct_ = std::move(direct);
  }

  int64_t scratch_bytes() const override {
    int64_t own = places_ * (sum_ + image_ + gradient_) + threads_ * library_bytes_;
    return std::max(own, direct_ ? direct_->scratch_bytes() : 0);
  }

  absl::Status run(std::span<void *const> operands, void *scratch) override {
    Call call;
    call.state = this;
    call.operands = operands;
    call.sums = static_cast<char *>(scratch);
    call.image = call.sums + places_ * sum_;
    call.gradient = call.image + places_ * image_;
    call.library = call.gradient + places_ * gradient_;
    call.statuses.resize(static_cast<size_t>(threads_));
    for (call.block = 0; call.block < blocks_.blocks; ++call.block) {
      runtime::parallel_for(blocks_.rows, kTileGrain, threads_, transform_tiles, &call);
      for (int64_t slab = 0; slab < slabs_; ++slab) {
        call.filter = std::min(slab * slab_, shape_.filters - slab_);
        runtime::parallel_for(places_, 1, threads_, multiply, &call);
        if (call.block + 1 == blocks_.blocks)
          runtime::parallel_for(slab_, kFilterGrain, threads_, transform_back, &call);
      }
    }
    WEFT_RETURN_IF_ERROR(runtime::first_error(call.statuses));
    return call.finite ? absl::OkStatus() : direct_->run(operands, scratch);
  }

private:
  struct Call {
    WinogradGradientState *state;
    std::span<void *const> operands;
    char *sums, *image, *gradient, *library;
    int64_t block = 0, filter = 0; // the block, and the first filter of the slab
    std::atomic<bool> finite = true;
    std::vector<absl::Status> statuses; // by thread
  };

  static int32_t transform_tiles(void *data, int, int64_t begin, int64_t end) {
    const Call &call = *static_cast<Call *>(data);
    const WinogradGradientState &state = *call.state;
    const WinogradShape &s = state.shape_;
    int64_t start = call.block * state.blocks_.rows, last = std::min(start + end, state.tiles_),
            count = std::max<int64_t>(last - start - begin, 0);
    float *image = reinterpret_cast<float *>(call.image) + begin * s.channels,
          *gradient = reinterpret_cast<float *>(call.gradient) + begin * s.filters;
    if (count > 0) {
      state.image_transforms_.image(s, static_cast<const float *>(call.operands[0]), start + begin,
                                    last, image, state.image_ / kFloat);
      state.transforms_.gradient(s, static_cast<const float *>(call.operands[1]), start + begin,
                                 last, gradient, state.gradient_ / kFloat);
    }
    // What is left of the last block adds nothing.
    for (int64_t place = 0; place < state.places_ && begin + count < end; ++place) {
      std::fill_n(image + place * (state.image_ / kFloat) + count * s.channels,
                  (end - begin - count) * s.channels, 0.0f);
      std::fill_n(gradient + place * (state.gradient_ / kFloat) + count * s.filters,
                  (end - begin - count) * s.filters, 0.0f);
    }
    return 0;
  }

  static int32_t multiply(void *data, int thread, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    const WinogradGradientState &state = *call.state;
    OnednnMatmul &product =
        *(call.block == 0 ? state.first_ : state.further_)[static_cast<size_t>(thread)];
    for (int64_t place = begin; place < end; ++place) {
      void *operands[] = {call.gradient + place * state.gradient_ + call.filter * kFloat,
                          call.image + place * state.image_, call.sums + place * state.sum_};
      absl::Status status = product.run(operands, call.library + thread * state.library_bytes_);
      if (!status.ok())
        call.statuses[static_cast<size_t>(thread)] = std::move(status);
    }
    return 0;
  }

  static int32_t transform_back(void *data, int, int64_t begin, int64_t end) {
    Call &call = *static_cast<Call *>(data);
    const WinogradGradientState &state = *call.state;
    if (!state.transforms_.weight(
            state.shape_, reinterpret_cast<const float *>(call.sums), state.sum_ / kFloat, begin,
            end, static_cast<float *>(call.operands[2]) + call.filter * state.shape_.channels * 9))
      call.finite = false;
    return 0;
  }

  // Sums that no further block is added to are transformed back while they are in a cache.
  int64_t slab() const {
    int64_t bytes = places_ * shape_.channels * shape_.filters * kFloat,
            slabs = blocks_.blocks > 1 ? 1 : (bytes + kSumBytes - 1) / kSumBytes;
    int64_t filters = (shape_.filters + slabs - 1) / slabs;
    return std::min((filters + kSlabGrain - 1) / kSlabGrain * kSlabGrain, shape_.filters);
  }

  WinogradShape shape_;
  Blocks blocks_;
  int64_t tiles_, places_;
  int threads_;
  int64_t slab_, slabs_;           // filters of a slab; the last one may overlap the one before it
  int64_t image_, gradient_, sum_; // bytes from the matrix of one place to that of the next
  const WinogradTransforms &image_transforms_;
  const WinogradGradientTransforms &transforms_;
  int64_t library_bytes_ = 0;
  std::vector<std::unique_ptr<OnednnMatmul>> first_, further_; // by thread
  std::unique_ptr<runtime::LibraryCallState> direct_;
};

} // namespace

int64_t winograd_gradient_tile(const ConvolutionProblem &p) {
  if (!winograd_computes(p) || p.kind != ConvolutionKind::kWeightGradient)
    return 0;
  WinogradShape s = winograd_shape(p);
  return winograd_cheapest_tile(s, kTileCosts, [&](int64_t tile, double tiles) {
    return tiles * kProduct + kBack + kAdd * static_cast<double>(Blocks(s, tile).blocks);
  });
}

absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
winograd_weight_gradient(const ConvolutionProblem &problem, int64_t tile, int threads,
                         std::unique_ptr<runtime::LibraryCallState> direct) {
  auto state = std::make_unique<WinogradGradientState>(problem, tile, threads);
  WEFT_ASSIGN_OR_RETURN(bool fast, state->build());
  if (!fast)
    return direct;
  state->set_direct(std::move(direct));
  return state;
}

} // namespace weft::backends::cpu
